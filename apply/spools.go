package apply

import (
	"context"
	"errors"
	"time"

	"leat/apply/internal/spool"
	"leat/internal/gdal"
	"leat/internal/rundir"
)

// SpoolFile describes a file that holds the finished blocks of an unfinished output.
type SpoolFile struct {
	Path   string
	Output string // path or URL of the output; "" if the file does not contain it
	// Blocks of Total are in the file. Both are 0 if it has no complete header.
	Blocks, Total int
	Bytes         int64
	ModTime       time.Time
	InUse         bool // a run is writing it
}

// ListSpools returns the spools in a directory that runs of this user left or are writing. It does
// not search subdirectories.
func ListSpools(ctx context.Context, dir string) ([]SpoolFile, error) {
	found, err := spool.List(ctx, dir)
	var list []SpoolFile
	for _, s := range found {
		list = append(list, SpoolFile(s))
	}
	return list, err
}

// DiscardSpools removes the spools, and incomplete files of GDAL formats, that failed runs of this
// user left in a directory. It keeps those that a run is writing, does not search subdirectories,
// and does not touch finished outputs. With an error it also returns what it had removed.
func DiscardSpools(ctx context.Context, dir string) (list []Discarded, err error) {
	all, err := ListSpools(ctx, dir)
	if err != nil {
		return nil, err
	}
	var spools spool.Discard
	defer func() { err = errors.Join(err, spools.Close()) }()
	var errs []error
	inUse := map[string]bool{}
	for _, s := range all {
		if s.InUse {
			inUse[s.Path] = true
			continue
		}
		if err := spools.Lock(s.Path, s.Output, s.Path); err != nil {
			errs = append(errs, err)
		}
	}
	outputs, err := gdal.FindStaging(dir)
	errs = append(errs, err)
	for _, path := range outputs {
		t := spool.Target{Path: path}
		if inUse[t.LockPath()] {
			continue
		}
		d := Discarded{Output: path}
		d.Path, d.Bytes, err = gdal.RemoveStaging(path)
		if errs = append(errs, err); d.Path != "" {
			list = append(list, d)
		}
	}
	removed, err := removeSpools(&spools)
	rundir.Sweep(dir)
	return append(list, removed...), errors.Join(append(errs, err)...)
}
