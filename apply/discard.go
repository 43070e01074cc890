package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"leat/internal/gdal"
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
	r := &run{log: slog.New(slog.DiscardHandler)}
	for _, name := range sortedKeys(outputs) {
		if outputs[name].Path == "" {
			return nil, &JobError{Err: fmt.Errorf("output %s: no file is given", name)}
		}
		r.outs = append(r.outs, &output{name: name, spec: outputs[name]})
	}
	ns, err := r.claim(ctx)
	if err != nil {
		return nil, err
	}
	if ns != nil {
		defer func() { err = errors.Join(err, ns.Close()) }()
	}
	var spools discarding
	defer func() { err = errors.Join(err, spools.close()) }()
	for _, o := range r.outs {
		paths := []string{spoolPath(o.spec.identity(), o.spec.tempDir())}
		if !o.spec.inStore() { // with a TempDir, an empty file next to the output holds the lock
			paths = append(paths, spoolPath(o.spec.identity(), ""))
		}
		for _, path := range slices.Compact(paths) {
			if err := spools.lock(o.spec.label(), o.name, path); err != nil {
				return nil, err
			}
		}
	}
	// A killed run leaves an incomplete file of a GDAL format in a directory.
	for _, o := range r.outs {
		if o.spec.inStore() {
			continue
		}
		d := Discarded{Output: o.name}
		d.Path, d.Bytes, err = gdal.RemoveLeft(o.spec.identity())
		if d.Path != "" {
			list = append(list, d)
		}
		if err != nil {
			return list, err
		}
	}
	removed, err := spools.remove()
	list = append(list, removed...)
	if err != nil {
		return list, err
	}
	for _, o := range r.outs { // directories in which killed runs rasterized
		sweepRunDirectories(cmp.Or(o.spec.tempDir(), filepath.Dir(o.spec.identity())))
	}
	return list, nil
}

// discarding holds locked spools that are to be removed.
type discarding struct {
	spools []*spool
	list   []Discarded // of the same spools
}

// lock locks the spool at path, if there is one.
func (d *discarding) lock(label, name, path string) error {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s can't be removed: %w", path, bare(err))
		}
		st, err := f.Stat()
		if err != nil || !st.Mode().IsRegular() {
			return errors.Join(fmt.Errorf("%s can't be removed: it is not a regular file", path), f.Close())
		}
		if locked, err := lockNamed(f, path); locked {
			if _, err := readHeader(f, st.Size()); st.Size() > 0 && errors.Is(err, errNotSpool) {
				return errors.Join(fmt.Errorf("%s can't be removed: %w", path, err), f.Close())
			}
			d.spools = append(d.spools, &spool{f: f, path: path})
			d.list = append(d.list, Discarded{Output: name, Path: path, Bytes: st.Size()})
			return nil
		} else if err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return inUseError(label, path)
			}
			return fmt.Errorf("%s can't be removed: %w", path, err)
		}
		f.Close()
	}
}

// remove removes the spools and returns those that it could remove. It clears them all first, see
// spool.clear.
func (d *discarding) remove() (removed []Discarded, err error) {
	spools := d.spools
	d.spools = nil
	for _, s := range spools {
		if cerr := s.clear(); cerr != nil {
			err = errors.Join(err, fmt.Errorf("%s can't be emptied: %w", s.path, bare(cerr)))
		}
	}
	for i, s := range spools {
		if rerr := s.remove(); rerr != nil {
			err = errors.Join(err, fmt.Errorf("%s can't be removed: %w", s.path, bare(rerr)))
			continue
		}
		removed = append(removed, d.list[i])
	}
	return removed, err
}

// close unlocks the spools that were not removed.
func (d *discarding) close() error {
	var errs []error
	for _, s := range d.spools {
		errs = append(errs, s.f.Close())
	}
	return errors.Join(errs...)
}

// bare returns the error of a file operation without the operation and the name.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
