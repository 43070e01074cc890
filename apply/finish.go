package apply

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"leat/apply/internal/resolve"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/tempfile"
	"leat/internal/tiffwrite"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/stats"
)

// finish lays out all outputs and then publishes them.
func (r *run) finish(ctx context.Context, start time.Time) (*Result, error) {
	if err := r.in.CheckUnchanged(); err != nil {
		return nil, err
	}
	plan := *r.plan
	plan.Notes = slices.Concat(plan.Notes, r.notes)
	res := &Result{Plan: &plan, Blocks: r.done, Resumed: r.resumed, Pixels: r.pixels}
	files := make([]*tempfile.File, len(r.outs))
	defer func() {
		for _, f := range files {
			if f != nil {
				f.Abort() // nothing to do after Commit
			}
		}
		for _, o := range r.outs {
			o.discardGDAL()
		}
	}()
	r.at("laying out")
	if slices.ContainsFunc(r.outs, func(o *output) bool { return o.spec.usesGDAL() }) {
		r.freeBlocks()
	}
	for i, o := range r.outs {
		layOut := o.layOut
		if o.spec.usesGDAL() {
			layOut = o.layOutGDAL
		}
		or, f, err := layOut(ctx)
		files[i] = f
		if err != nil {
			return nil, err
		}
		if r.exprs != nil {
			r.exprs.programs[i].report(or)
		}
		or.warnOfPixels()
		res.Outputs = append(res.Outputs, *or)
	}
	fault.Point("apply.laid-out")
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if r.claims != nil && r.claims.Err() != nil {
		return nil, fmt.Errorf("another run may be writing the same files: %w", r.claims.Err())
	}
	// Do what may fail first, while the old files are unchanged.
	for i, o := range r.outs {
		if !o.spec.inStore() {
			continue
		}
		if err := o.upload(ctx, files[i], &res.Outputs[i]); err != nil {
			return nil, r.keep(files, res.Outputs, err)
		}
		fault.Point("apply.uploaded")
	}
	for i, o := range r.outs {
		if o.spec.inStore() {
			continue
		}
		publish := o.publish
		if o.spec.usesGDAL() {
			publish = o.publishGDAL
		}
		if err := publish(files[i], &res.Outputs[i]); err != nil {
			return nil, r.keep(files, res.Outputs, err)
		}
		fault.Point("apply.published")
	}
	if c := r.watched.remote.Load(); c != nil {
		status := c.Status()
		res.Workers = &status
	}
	res.Timings = r.timings.Summary()
	res.Wall = time.Since(start)
	return res, nil
}

// layOut completes the tiles and writes the finished file, without its name yet.
func (o *output) layOut(ctx context.Context) (*OutputResult, *tempfile.File, error) {
	defer o.run.timings.Start("laying out", "main", -1).Stop()
	coding, err := o.spool.Finish(ctx, o.run.plan.Workers)
	if err != nil {
		return nil, nil, err
	}
	file := o.layout.File
	file.Coding = coding
	res := &OutputResult{Name: o.name, Path: o.spec.label(), Type: o.typ, Nodata: o.nodata, Coding: coding.String(),
		Overviews: file.Levels, Format: nativeFormat}
	info, err := o.describeBands(res)
	if err != nil {
		return nil, nil, err
	}
	file.BandInfo, file.Metadata, file.Domains = info.Bands, info.Metadata, info.Domains
	f, err := tempfile.Create(o.spec.localPath(), 0o666)
	if err != nil {
		return nil, nil, err
	}
	n, err := tiffwrite.Write(ctx, f.File, &file, o.file.OSFile(), func(level int, _ bool, index int) tiffwrite.TileRef {
		return o.spool.TileRef(level, index)
	})
	if err != nil {
		return nil, f, err
	}
	res.Bytes, res.Tiles = n, o.spool.Tiles()
	return res, f, nil
}

// describeBands returns the names, colours, statistics and metadata of the file's bands, which
// BeforeClose may have changed.
func (o *output) describeBands(res *OutputResult) (*raster.Info, error) {
	info := &raster.Info{Path: o.spec.label(), Driver: o.spec.formatName(), Grid: o.layout.File.Grid,
		Metadata: maps.Clone(o.spec.Metadata)}
	if info.Metadata == nil {
		info.Metadata = map[string]string{}
	}
	for i := range o.bands {
		b := o.bandInfo(i)
		br := BandResult{Name: b.Name}
		if !o.spec.NoStatistics && !o.typ.IsComplex() {
			br.Moments = o.spool.Moments(i)
			statisticsItems(b.Metadata, &br.Moments)
			if !o.spec.NoHistogram && br.Moments.Valid > 0 {
				totals := o.spool.Totals(i)
				br.Bins = totals.Bins(br.Moments)
				if o.spec.usesGDAL() {
					br.Bins = o.fromZero(br.Bins)
				}
				br.Median, br.Mode = totals.Quantile(0.5, br.Moments), totals.Mode(br.Moments)
				histogramItems(b.Metadata, &br)
			}
		}
		info.Bands = append(info.Bands, b)
		res.Bands = append(res.Bands, br)
	}
	if o.spec.BeforeClose != nil {
		if err := o.spec.BeforeClose(info); err != nil {
			return nil, fmt.Errorf("output %s: before closing: %w", o.name, err)
		}
		if len(info.Bands) != o.bands {
			return nil, fmt.Errorf("output %s: the hook before closing changed the number of bands", o.name)
		}
	}
	return info, nil
}

// bandInfo returns the options of a band, counted from 0.
func (o *output) bandInfo(i int) raster.Band {
	b := raster.Band{Type: o.typ, Nodata: o.nodata, Scale: 1, Unit: o.spec.Unit, Metadata: map[string]string{}}
	if i < len(o.spec.LayerNames) {
		b.Name = o.spec.LayerNames[i]
	}
	if o.spec.Scale != 0 {
		b.Scale = o.spec.Scale
	}
	b.Offset = o.spec.Offset
	if i < len(o.copied) && o.copied[i] != nil {
		b.Color = o.copied[i].Color
		if b.Color == raster.ColorPalette { // useless without its table, which few other formats hold
			if b.Color = ""; o.bands == 1 && !o.spec.usesGDAL() && (o.typ == ndarray.Uint8 || o.typ == ndarray.Uint16) {
				b.Color, b.Colors = raster.ColorPalette, o.copied[i].Colors
			}
		}
	}
	if o.spec.Colors != nil {
		b.Color, b.Colors = raster.ColorPalette, o.spec.Colors
	}
	if o.spec.Thematic {
		b.Metadata["LAYER_TYPE"] = "thematic"
	}
	return b
}

// number formats a float with as many digits as it takes to read it back.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// statisticsItems adds the items that GDAL writes, for the finite pixels. Without finite pixels it
// adds the percentage only; it omits a deviation that overflows float64.
func statisticsItems(items map[string]string, m *stats.Moments) {
	items["STATISTICS_VALID_PERCENT"] = strconv.FormatFloat(m.ValidPercent(), 'g', 4, 64)
	if m.Valid == 0 {
		return
	}
	items["STATISTICS_MINIMUM"] = number(m.Min)
	items["STATISTICS_MAXIMUM"] = number(m.Max)
	items["STATISTICS_MEAN"] = number(m.Mean)
	if s := m.StdDev(); s-s == 0 {
		items["STATISTICS_STDDEV"] = number(s)
	}
}

// histogramItems adds the items that RIOS and ERDAS Imagine use.
func histogramItems(items map[string]string, b *BandResult) {
	if b.Bins.Counts == nil {
		return
	}
	values := make([]string, len(b.Bins.Counts))
	for i, c := range b.Bins.Counts {
		values[i] = strconv.FormatUint(c, 10)
	}
	items["STATISTICS_MEDIAN"] = number(b.Median)
	items["STATISTICS_MODE"] = number(b.Mode)
	items["STATISTICS_HISTOMIN"] = number(b.Bins.Min)
	items["STATISTICS_HISTOMAX"] = number(b.Bins.Max)
	items["STATISTICS_HISTONUMBINS"] = strconv.Itoa(len(values))
	items["STATISTICS_HISTOBINVALUES"] = strings.Join(values, "|") + "|"
	items["STATISTICS_HISTOBINFUNCTION"] = "linear"
	if b.Bins.Direct {
		items["STATISTICS_HISTOBINFUNCTION"] = "direct"
	}
}

// publish removes the sidecars of the old file and publishes the new one.
func (o *output) publish(f *tempfile.File, res *OutputResult) error {
	path := resolve.Absolute(o.spec.Path)
	if _, err := os.Stat(path); err == nil && o.spec.NoClobber {
		return o.clobbers()
	}
	// Stale sidecars would be read as this file's statistics, overviews and mask, under the name of
	// a link and of its target.
	for _, name := range []string{path, realPath(path)} {
		for _, ext := range sidecarSuffixes {
			err := os.Remove(name + ext)
			if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENAMETOOLONG) {
				return fmt.Errorf("output %s: %s belongs to the old file and can't be removed: %w", o.name, name+ext,
					err)
			}
		}
	}
	if err := o.writeAux(path+".aux.xml", res); err != nil {
		return fmt.Errorf("output %s: %w", o.name, err)
	}
	if !o.spec.NoClobber {
		return f.Commit()
	}
	err := f.CommitNew()
	if errors.Is(err, os.ErrExist) {
		return o.clobbers()
	}
	return err
}

// clobbers returns the error about a file that appeared during the run.
func (o *output) clobbers() error {
	return fmt.Errorf("output %s: %s exists by now and is not to be replaced (--no-clobber)", o.name, o.spec.Path)
}

// pamDataset is the part of GDAL's .aux.xml that holds the CRS and histograms.
type pamDataset struct {
	XMLName xml.Name   `xml:"PAMDataset"`
	SRS     string     `xml:"SRS,omitempty"` // the axes are x, y whatever the CRS defines
	Points  *pamPoints `xml:"GCPList"`
	Bands   []pamBand  `xml:"PAMRasterBand"`
}

type pamPoints struct {
	CRS    string     `xml:"Projection,attr"`
	Points []pamPoint `xml:"GCP"`
}

type pamPoint struct {
	ID    string  `xml:"Id,attr"`
	Info  string  `xml:"Info,attr,omitempty"`
	Pixel float64 `xml:"Pixel,attr"`
	Line  float64 `xml:"Line,attr"`
	X     float64 `xml:"X,attr"`
	Y     float64 `xml:"Y,attr"`
	Z     float64 `xml:"Z,attr"`
}

// newPAMPoints returns the points as .aux.xml has them.
func newPAMPoints(g *raster.GCPs, wkt string) *pamPoints {
	l := &pamPoints{CRS: wkt}
	for _, p := range g.Points {
		l.Points = append(l.Points, pamPoint(p))
	}
	return l
}

type pamBand struct {
	Band int     `xml:"band,attr"`
	Item pamItem `xml:"Histograms>HistItem"`
}

type pamItem struct {
	Min          string `xml:"HistMin"`
	Max          string `xml:"HistMax"`
	Buckets      int    `xml:"BucketCount"`
	OutOfRange   int    `xml:"IncludeOutOfRange"`
	Approximate  int    `xml:"Approximate"`
	HistogramTxt string `xml:"HistCounts"`
}

// auxText returns the text of the output's .aux.xml: a CRS that geo keys can't express, ground
// control points that the file can't hold, and the histograms if they are requested; "" if there is
// none of these.
func (o *output) auxText(res *OutputResult) (string, error) {
	d := pamDataset{SRS: o.wkt}
	if g := &o.run.plan.Grid; g.GCPs != nil && !g.HasTransform && o.layout.File.Grid.GCPs == nil {
		d.SRS, d.Points = "", newPAMPoints(g.GCPs, o.wkt)
	}
	for i, b := range res.Bands {
		if b.Bins.Counts == nil || !o.spec.HistAux {
			continue
		}
		counts := make([]string, len(b.Bins.Counts))
		for k, c := range b.Bins.Counts {
			counts[k] = strconv.FormatUint(c, 10)
		}
		item := pamItem{Min: number(b.Bins.Min), Max: number(b.Bins.Max), Buckets: len(counts),
			HistogramTxt: strings.Join(counts, "|")}
		if b.Bins.Direct { // a bin extends half a value to each side
			item.Min, item.Max = number(b.Bins.Min-0.5), number(b.Bins.Max+0.5)
		}
		d.Bands = append(d.Bands, pamBand{i + 1, item})
	}
	if len(d.Bands) == 0 && d.SRS == "" && d.Points == nil {
		return "", nil
	}
	text, err := xml.MarshalIndent(d, "", "  ")
	return string(text) + "\n", err
}

func (o *output) writeAux(path string, res *OutputResult) error {
	text, err := o.auxText(res)
	if err != nil || text == "" {
		return err
	}
	f, err := tempfile.Create(path, 0o666)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := io.WriteString(f, text); err != nil {
		return err
	}
	return f.Commit()
}

// report adds the counts of an expression, and warnings about them.
func (p *program) report(res *OutputResult) {
	res.Counts = p.counts
	c := &p.counts
	if c.Saturated > 0 {
		res.Warnings = append(res.Warnings,
			fmt.Sprintf("%s beyond the range of %v and became its nearest value",
				units.Plural(c.Saturated, "pixel was", "pixels were"), res.Type))
	}
	if c.NodataCollision > 0 {
		another := "another value (--nodata)"
		if res.Type.IsFloat() {
			another = "--nodata nan"
		}
		res.Warnings = append(res.Warnings,
			fmt.Sprintf("%s computed as the nodata value %v, the first at column %d, row %d: readers will take that for nodata; choose %s",
				units.Plural(c.NodataCollision, "valid pixel was", "valid pixels were"), res.Nodata, p.first.Col, p.first.Row,
				another))
	}
}

// warnOfPixels adds warnings about an output whose pixels are probably a mistake.
func (res *OutputResult) warnOfPixels() {
	var infinite int64
	var empty []string
	for i, b := range res.Bands {
		infinite += b.Moments.Infinite
		if b.Moments.Total > 0 && b.Moments.Valid+b.Moments.Infinite == 0 {
			empty = append(empty, fmt.Sprint(i+1))
		}
	}
	c := &res.Counts
	if n := max(c.Inf, infinite); n > 0 {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%s infinite", units.Plural(n, "pixel is", "pixels are")))
	}
	switch {
	case len(empty) > 0 && len(empty) == len(res.Bands), c.Pixels > 0 && c.Invalid == c.Pixels:
		res.Warnings = append(res.Warnings, "it has no valid pixel")
	case len(empty) > 0:
		res.Warnings = append(res.Warnings,
			fmt.Sprintf("%s no valid pixel: %s", units.Plural(int64(len(empty)), "band has", "bands have"),
				strings.Join(empty, ", ")))
	}
}
