package resolve

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"leat/apply/internal/jobspec"
	"leat/internal/storeurl"
)

// Specs describes the files to workers, which open them if reads is true. unscale reports whether
// the job uses their scales and offsets.
func (in *Inputs) Specs(reads, unscale bool) (list []jobspec.InputSpec, err error) {
	for _, f := range in.Files {
		info := *f.Info
		info.Metadata, info.Domains, info.Overviews = nil, nil, nil
		if err := jobspec.PlainScales(&info, unscale); err != nil {
			return nil, fmt.Errorf("input %s: %s %w", f.Name, f.Path, err)
		}
		s := jobspec.InputSpec{Name: f.Name, List: in.Lists[f.Name], Index: f.Index, Item: f.Item, Path: f.Path,
			Info:   info,
			Layers: f.Layers, Nodata: f.Nodata, ColOffset: f.ColOffset, RowOffset: f.RowOffset, Mode: f.Mode,
			Masks: f.Masks, Scale: f.Scale, Offset: f.Offset, Time: f.Time}
		if f.Offered != nil { // the worker's compiler makes the same choice among all layers
			s.Layers, s.Nodata, s.Masks = f.Offered, f.OfferedNodata, f.OfferedMasks
		}
		if reads {
			s.From, s.Version = f.From, &f.Version
			if f.Warp != nil {
				s.Warp = &f.Warp.Warp
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// Restore makes the job of a worker process from the run's description. If the worker reads, it
// opens the inputs with open. closeStore, which may be nil, is called when the inputs are closed or
// Restore fails.
func Restore(ctx context.Context, s *jobspec.Spec, function jobspec.Function, open Opener,
	closeStore func() error) (_ *Job, err error) {
	values := &jobspec.Job{Expressions: s.Expressions, Tables: s.Tables, Variables: s.Variables,
		Controls: s.Controls, Function: function, Outputs: map[string]jobspec.Output{}}
	for name, out := range s.Outputs {
		values.Outputs[name] = out.Spec
	}
	in := &Inputs{ByName: map[string][]*File{}, Lists: map[string]bool{}, closeStore: closeStore}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.Close())
		}
	}()
	for i := range s.Inputs {
		d := &s.Inputs[i]
		f, err := restoreFile(d)
		if err != nil {
			return nil, err
		}
		in.Files = append(in.Files, f)
		in.ByName[d.Name] = append(in.ByName[d.Name], f)
		in.Lists[d.Name] = d.List
	}
	r := &Job{Values: values, Grid: s.Grid}
	if s.Domain != nil {
		r.Domain = *s.Domain
	}
	if r.Outputs, err = resolveOutputs(values); err != nil {
		return nil, err
	}
	if s.Expressions != nil {
		programs, kept, err := compile(values, in, s.Grid, r.Domain, r.Outputs)
		if err != nil {
			return nil, err
		}
		r.Programs, in = programs, kept
	}
	if s.Variables != nil {
		variables, kept, err := compileVariables(values, in, s.Grid, r.Domain)
		if err != nil {
			return nil, err
		}
		r.Variables, in = variables, kept
	}
	r.Inputs = in
	for _, o := range r.Outputs {
		d := s.Outputs[o.Name]
		o.Type, o.Bands, o.Nodata = d.Type, d.Bands, d.Nodata
		o.SetGrid(s.Grid)
	}
	if s.Reads {
		if open == nil {
			open = OpenLocal
		}
		if err := errors.Join(BoundGDAL(s.GDALBytes), in.reopen(ctx, s, open)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// restoreFile returns the file that a run describes, which is not open.
func restoreFile(d *jobspec.InputSpec) (*File, error) {
	if len(d.Layers) == 0 || len(d.Layers) != len(d.Nodata) || len(d.Layers) != len(d.Masks) || d.Layers[0] < 1 ||
		d.Layers[0] > len(d.Info.Bands) {
		return nil, fmt.Errorf("the run describes no bands of %s", d.Path)
	}
	f := &File{Name: d.Name, Index: d.Index, Item: d.Item, Path: d.Path, From: d.From, Info: &d.Info, Layers: d.Layers,
		Nodata: d.Nodata, Type: d.Info.Bands[d.Layers[0]-1].Type, ColOffset: d.ColOffset, RowOffset: d.RowOffset,
		Mode: d.Mode, Masks: d.Masks, Scale: d.Scale, Offset: d.Offset, Time: d.Time}
	f.indexMasks()
	return f, nil
}

// reopen opens the inputs of a worker that reads, and compares them with those that the run opened.
func (in *Inputs) reopen(ctx context.Context, s *jobspec.Spec, open Opener) error {
	errs := make([]error, len(in.Files))
	var remote errgroup.Group
	remote.SetLimit(ManyAtOnce)
	for i, f := range in.Files {
		if len(f.Layers) == 0 || f.Mode == jobspec.ReadNone {
			continue
		}
		reopen := func() error {
			errs[i] = f.reopen(ctx, open, &s.Inputs[i], s.Mixed)
			return nil
		}
		if storeurl.Is(f.From) && s.Inputs[i].Warp == nil {
			remote.Go(reopen)
		} else {
			_ = reopen()
		}
	}
	_ = remote.Wait()
	return errors.Join(errs...)
}

// reopen opens a file of a worker that reads, and compares it with its description.
func (f *File) reopen(ctx context.Context, open Opener, d *jobspec.InputSpec, mixed bool) error {
	if err := f.Reopen(ctx, open, d.Warp, mixed); err != nil {
		return jobspec.Errorf("Concurrency.Reading", "input %s of a worker, which reads it itself: %w", f.Name, err)
	}
	var errs []error
	if f.Remote != nil && f.Mode == jobspec.ReadStaged {
		staged, err := f.Remote.Stage()
		if err != nil {
			errs = append(errs, fmt.Errorf("input %s: %s can't be staged: %w", f.Name, f.Path, err))
		} else if !staged {
			f.Mode = jobspec.ReadPieces
		}
	}
	if err := d.Check(&f.Version, *f.Source.Info()); err != nil {
		errs = append(errs, fmt.Errorf("input %s: %w", f.Name, err))
	}
	return errors.Join(errs...)
}
