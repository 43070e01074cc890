package resolve

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/georef"
	"leat/internal/storeurl"
	"leat/internal/units"
	"leat/raster"
)

// openInputs opens the inputs of a job. With an error it returns those that it could open; the
// caller closes them.
func openInputs(ctx context.Context, job *jobspec.Job, open Opener) (*Inputs, error) {
	in := &Inputs{ByName: map[string][]*File{}, Lists: map[string]bool{}}
	type opening struct {
		f    *File
		from string
		err  error
	}
	var all []*opening
	for _, name := range slices.Sorted(maps.Keys(job.Inputs)) {
		spec := job.Inputs[name]
		in.Lists[name] = spec.List
		items := itemsOf(spec)
		for i, path := range spec.Files {
			o := &opening{f: &File{Name: name, Index: i, Item: items[i], Path: storeurl.Redact(path)}, from: path}
			if i == 0 && spec.Source != nil {
				o.f.Source = spec.Source
			}
			all = append(all, o)
		}
	}
	var remote errgroup.Group
	remote.SetLimit(ManyAtOnce)
	for _, o := range all {
		if o.f.From = o.from; !storeurl.Is(o.from) && !IsGDALName(o.from) {
			o.f.From = Absolute(o.from)
		}
		switch {
		case o.f.Source != nil:
			o.f.Version = versionOf(o.f.Source, o.f.From)
			o.f.Version.Given = true
		case storeurl.Is(o.from):
			remote.Go(func() error {
				o.err = o.f.open(ctx, open, o.from)
				return nil
			})
		default:
			o.err = o.f.open(ctx, open, o.from)
		}
	}
	_ = remote.Wait()
	var errs []error
	for _, o := range all {
		if o.err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", o.f.Name, o.err))
			continue
		}
		in.Files = append(in.Files, o.f)
		if err := o.f.resolve(job.Inputs[o.f.Name], job.Controls.NoMask); err != nil {
			errs = append(errs, fmt.Errorf("input %s: %w", o.f.Name, err))
			continue
		}
		in.ByName[o.f.Name] = append(in.ByName[o.f.Name], o.f)
	}
	return in, errors.Join(errs...)
}

// itemsOf returns the item of the list that each file belongs to.
func itemsOf(spec jobspec.Input) []int {
	items := make([]int, 0, len(spec.Files))
	for item, n := range spec.Groups {
		for range n {
			items = append(items, item)
		}
	}
	for i := len(items); i < len(spec.Files); i++ { // no groups
		items = append(items, i)
	}
	return items
}

// resolve sets the layers, nodata and masks of an open file.
func (f *File) resolve(spec jobspec.Input, noMask bool) error {
	f.Info = f.Source.Info()
	if r, ok := f.Source.(raster.Decodable); ok {
		if err := r.CheckReadable(); err != nil {
			return err
		}
	}
	if t := f.Info.Grid.Transform; !georef.Finite(t) {
		return fmt.Errorf("%s: %w: its transform, %v in GDAL's order, is not made of finite numbers", f.Path,
			outcome.ErrNotGeoreferenced, t)
	}
	if err := f.resolveTime(spec); err != nil {
		return err
	}
	f.Layers, f.Scale, f.Offset = spec.Layers, spec.Scale, spec.Offset
	if len(f.Layers) == 0 {
		for i := range f.Info.Bands {
			f.Layers = append(f.Layers, i+1)
		}
	}
	for _, l := range f.Layers {
		if l < 1 || l > len(f.Info.Bands) {
			return &outcome.JobError{Err: jobspec.Errorf("Input.Layers", "%s has %s, not a band %d", f.Path, units.Count(len(f.Info.Bands), "band"), l)}
		}
	}
	if n := len(spec.Nodata); n > 1 && n != len(f.Layers) {
		return &outcome.JobError{Err: jobspec.Errorf("Input.Nodata",
			"%d nodata values for %s of %s: expected one, or one for each", n, units.Count(len(f.Layers), "band"), f.Path)}
	}
	f.Type = f.Info.Bands[f.Layers[0]-1].Type
	for i, l := range f.Layers {
		b := f.Info.Bands[l-1]
		if b.Type != f.Type {
			return jobspec.JobErrorf("Input.Layers", "%s has bands of types %v and %v: expected bands of one type", f.Path, f.Type,
				b.Type)
		}
		nodata, mask, err := f.resolveValidity(i, l, spec, noMask)
		if err != nil {
			return err
		}
		f.Nodata, f.Masks = append(f.Nodata, nodata), append(f.Masks, mask)
	}
	f.indexMasks()
	return nil
}
