package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"leat/apply"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/stac"
	"leat/internal/storeurl"
	"leat/objstore"
	"leat/raster"
	"leat/stores"
)

// itemFile is a STAC Item to be written.
type itemFile struct {
	path    string
	outputs []string // names
	item    stac.Item
}

// finalizeSTAC reads --stac and --datetime.
func (f *outputFlags) finalizeSTAC() error {
	var errs []error
	var err error
	f.items, err = parseNamedLists("--stac", f.stac, func(s string) (string, error) {
		if !strings.HasSuffix(strings.ToLower(s), ".json") && !strings.HasSuffix(strings.ToLower(s), ".geojson") {
			return "", errors.New("an item is JSON: give a name that ends in .json")
		}
		return s, nil
	})
	errs = append(errs, err)
	if f.datetime != "" {
		first, last, interval := strings.Cut(f.datetime, "/")
		if f.from, err = stac.ParseTime(first); err == nil {
			if f.to = f.from; interval {
				f.to, err = stac.ParseTime(last)
			}
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("--datetime %s: %w", f.datetime, err))
		case f.to.Before(f.from):
			errs = append(errs, fmt.Errorf("--datetime %s: the end lies before the start", f.datetime))
		case len(f.stac) == 0:
			errs = append(errs, fmt.Errorf("--datetime %s: it is for --stac, which is missing", f.datetime))
		}
	}
	return errors.Join(errs...)
}

// itemFiles returns the items that --stac asks for, without their contents.
func (f *outputFlags) itemFiles(job *apply.Job) ([]*itemFile, error) {
	var list []*itemFile
	err := forOutputs(job, "--stac", f.items, func(name, path string) error {
		i := slices.IndexFunc(list, func(it *itemFile) bool { return it.path == path })
		if i < 0 {
			i, list = len(list), append(list, &itemFile{path: path})
		}
		it := list[i]
		if slices.Contains(it.outputs, name) {
			return fmt.Errorf("--stac: output %s is in %s twice", name, path)
		}
		it.outputs = append(it.outputs, name)
		if job.Outputs[name].Polygons {
			return fmt.Errorf("--stac %s: output %s is a file of polygons, expected rasters: name them as in --stac NAME=%s", path, name, path)
		}
		if _, err := stac.Href(path, job.Outputs[name].Path); err != nil {
			return fmt.Errorf("--stac %s: %w", path, err)
		}
		return nil
	})
	return list, err
}

// prepareItems makes the items and lets the run find their time and place when it is planned, so
// that nothing can be missing after it.
func (f *applyFlags) prepareItems(ctx context.Context, in *stores.Stores, job *apply.Job) ([]*itemFile, error) {
	if len(f.stac) == 0 {
		return nil, nil
	}
	list, err := f.itemFiles(job)
	if err != nil {
		return nil, asUsage(err)
	}
	for _, it := range list {
		if storeurl.Is(it.path) {
			if err := in.Check(ctx, it.path); err != nil {
				return nil, fmt.Errorf("--stac %s: %w", storeurl.Redact(it.path), err)
			}
		}
	}
	opened := *job
	job.CheckPlan = func(p *outcome.Plan) error {
		item, err := f.newItem(ctx, in, &opened, p.Grid)
		for _, it := range list {
			name := path.Base(strings.ReplaceAll(storeurl.Redact(it.path), "?", "/"))
			it.item = item
			it.item.ID = strings.TrimSuffix(name, path.Ext(name))
		}
		return err
	}
	return list, nil
}

// newItem returns what all items of a job have in common: time and place.
func (f *outputFlags) newItem(ctx context.Context, in *stores.Stores, job *apply.Job, g raster.Grid) (stac.Item,
	error) {
	item := stac.Item{Start: f.from, End: f.to, Grid: g}
	var err error
	if f.datetime == "" {
		if item.Start, item.End, err = timesOf(ctx, in, job); err != nil {
			return item, err
		}
	}
	if item.Footprint, err = footprint(g); err != nil {
		return item, fmt.Errorf("--stac: %w", err)
	}
	if !g.CRS.IsZero() && !strings.HasPrefix(g.CRS.Code, "EPSG:") {
		if item.WKT, err = gdal.WKT(g.CRS); err != nil {
			return item, fmt.Errorf("--stac: %w", err)
		}
	}
	return item, nil
}

// timesOf returns the first and last time at which inputs were taken.
func timesOf(ctx context.Context, in *stores.Stores, job *apply.Job) (first, last time.Time, err error) {
	found := false
	for _, name := range sortedNames(job.Inputs) {
		for _, file := range job.Inputs[name].Files {
			src, err := in.Open(ctx, file)
			if err != nil {
				return first, last, fmt.Errorf("input %s: %w", name, err)
			}
			t, ok := stac.TimeOf(src.Info())
			if err := src.Close(); err != nil {
				return first, last, err
			}
			if !ok {
				continue
			}
			if !found || t.Before(first) {
				first = t
			}
			if !found || t.After(last) {
				last = t
			}
			found = true
		}
	}
	if !found {
		return first, last, usageError{hintedError{errors.New("--stac: no input says when it was taken, which an item must"),
			"give --datetime, such as --datetime 2024-06-01"}}
	}
	return first, last, nil
}

// footprint returns the place of a grid on the earth, nil for none.
func footprint(g raster.Grid) (f *stac.Footprint, err error) {
	switch {
	case !g.HasTransform || g.CRS.IsZero():
		return nil, nil
	case gdal.IsWGS84(g.CRS):
		return stac.NewFootprint(g.Width, g.Height, degrees{g.Transform})
	}
	err = gdal.OnPlane(g, gdal.WGS84, func(p gdal.Plane) error {
		f, err = stac.NewFootprint(g.Width, g.Height, p)
		return err
	})
	return f, err
}

// degrees is the earth for a grid in degrees.
type degrees struct{ t raster.Transform }

func (d degrees) FromPixels(x, y []float64, ok []bool) error {
	for i := range x {
		x[i], y[i] = d.t.Apply(x[i], y[i])
		ok[i] = x[i]-x[i] == 0 && y[i]-y[i] == 0
	}
	return nil
}

func (d degrees) ToPixels(x, y []float64, ok []bool) error {
	for i := range x {
		x[i], y[i], ok[i] = d.t.Invert(x[i], y[i])
	}
	return nil
}

// writeItems completes and writes the items after the outputs are published.
func writeItems(ctx context.Context, in *stores.Stores, list []*itemFile, job *apply.Job, res *apply.Result) error {
	for _, it := range list {
		for _, o := range res.Outputs {
			if !slices.Contains(it.outputs, o.Name) {
				continue
			}
			asset, err := newAsset(ctx, in, it.path, job.Outputs[o.Name], &o)
			if err != nil {
				return err
			}
			it.item.Assets = append(it.item.Assets, asset)
		}
		text, err := it.item.Marshal()
		if err != nil {
			return err
		}
		if storeurl.Is(it.path) {
			err = in.Upload(ctx, it.path, bytes.NewReader(text), int64(len(text)), objstore.UploadOptions{})
		} else {
			err = writeFile(it.path, func(w io.Writer) error { _, err := w.Write(text); return err })
		}
		if err != nil {
			return fmt.Errorf("the STAC item %s could not be written: %w", storeurl.Redact(it.path), cause(err))
		}
	}
	return nil
}

// newAsset describes a published output.
func newAsset(ctx context.Context, in *stores.Stores, item string, spec apply.Output,
	o *outcome.OutputResult) (a stac.Asset, err error) {
	a = stac.Asset{Key: o.Name, Format: o.Format, Type: o.Type, Nodata: o.Nodata}
	if a.Href, err = stac.Href(item, spec.Path); err != nil {
		return a, err
	}
	for _, b := range o.Bands {
		a.Bands = append(a.Bands, stac.Band{Name: b.Name, Unit: b.Scaling.Unit, Scale: b.Scaling.Scale,
			Offset: b.Scaling.Offset, Pixels: b.Pixels, Valid: b.Valid, ValidPercent: b.ValidPercent, Min: b.Min,
			Max: b.Max, Mean: b.Mean, StdDev: b.StdDev})
	}
	if o.Format != "GTiff" {
		return a, nil
	}
	src, err := in.Open(ctx, spec.Path)
	if err != nil {
		return a, err
	}
	if f, ok := src.(interface{ COGFault() (string, error) }); ok {
		fault, err := f.COGFault()
		if err != nil {
			return a, errors.Join(err, src.Close())
		}
		a.COG = fault == ""
	}
	return a, src.Close()
}
