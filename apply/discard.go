package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"leat/apply/internal/output"
	"leat/apply/internal/spool"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/rundir"
)

// Discarded is an unfinished output that Discard removed.
type Discarded struct {
	Output string // name of the output; "" if unknown; where a directory was searched, its path or URL
	Path   string // of the removed file
	Bytes  int64
}

// Discard removes what failed runs left of outputs, of which it uses only Path and TempDir. If a
// run is writing one of them, Discard returns an error and removes nothing. With other errors it
// also returns what it had removed. It does not touch finished outputs.
func Discard(ctx context.Context, outputs map[string]Output) (list []Discarded, err error) {
	var outs []*output.Output
	for _, name := range sortedKeys(outputs) {
		if outputs[name].Path == "" {
			return nil, &outcome.JobError{Err: fmt.Errorf("output %s: no file is given", name)}
		}
		outs = append(outs, &output.Output{Name: name, Spec: output.Spec(outputs[name])})
	}
	ns, err := output.Claim(ctx, outs, logger(nil))
	if err != nil {
		return nil, err
	}
	if ns != nil {
		defer func() { err = errors.Join(err, ns.Close()) }()
	}
	var spools spool.Discard
	defer func() { err = errors.Join(err, spools.Close()) }()
	for _, o := range outs {
		t := o.Spec.Target()
		paths := []string{t.SpoolPath()}
		if !t.InStore { // with a TempDir, an empty file next to the output holds the lock
			paths = append(paths, t.LockPath())
		}
		for _, path := range slices.Compact(paths) {
			if err := spools.Lock(path, o.Name, t.Label); err != nil {
				return nil, err
			}
		}
	}
	// A killed run leaves an incomplete file that GDAL writes in a directory.
	for _, o := range outs {
		d := Discarded{Output: o.Name}
		d.Path, d.Bytes, err = gdal.RemoveStaging(o.Spec.StagingPath())
		if d.Path != "" {
			list = append(list, d)
		}
		if err != nil {
			return list, err
		}
	}
	removed, err := removeSpools(&spools)
	list = append(list, removed...)
	if err != nil {
		return list, err
	}
	for _, o := range outs { // directories in which killed runs rasterized
		rundir.Sweep(cmp.Or(o.Spec.SpoolDir(), filepath.Dir(o.Spec.Identity())))
	}
	return list, nil
}

// removeSpools removes locked spools and returns those that it could remove.
func removeSpools(spools *spool.Discard) (list []Discarded, err error) {
	removed, err := spools.Remove()
	for _, d := range removed {
		list = append(list, Discarded(d))
	}
	return list, err
}
