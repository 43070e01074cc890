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

	"leat/raster/gdal"
)

// Discarded is an unfinished output that was removed.
type Discarded struct {
	Output string // its name
	Path   string // of what was removed
	Bytes  int64
}

// Discard removes what runs that failed left of outputs, of which only Path and TempDir count. It is an error when a run is at work on one of them; nothing is
// removed then. What was removed is told with an error too. Finished outputs are not touched.
func Discard(ctx context.Context, outputs map[string]Output) ([]Discarded, error) {
	r := &run{log: slog.New(slog.DiscardHandler)}
	for _, name := range sortedKeys(outputs) {
		if outputs[name].Path == "" {
			return nil, &JobError{fmt.Errorf("output %s: no file is given", name)}
		}
		r.outs = append(r.outs, &output{name: name, spec: outputs[name]})
	}
	ns, err := r.claim(ctx)
	if err != nil {
		return nil, err
	}
	var list []Discarded
	var locked []*os.File
	for _, o := range r.outs {
		if err != nil {
			break
		}
		paths := []string{spoolPath(o.spec.identity(), o.spec.tempDir())}
		if !o.spec.inStore() { // the lock of one that is elsewhere
			paths = append(paths, spoolPath(o.spec.identity(), ""))
		}
		for _, path := range slices.Compact(paths) {
			var f *os.File
			if f, err = lockLeft(o.spec.label(), path); err != nil {
				break
			}
			if f == nil {
				continue
			}
			locked = append(locked, f)
			d := Discarded{Output: o.name, Path: path}
			if st, serr := f.Stat(); serr == nil {
				d.Bytes = st.Size()
			}
			list = append(list, d)
		}
	}
	// Of one in a format of GDAL's a run that was killed leaves what it was laying out.
	var halves []Discarded
	for _, o := range r.outs {
		if err != nil || o.spec.inStore() {
			break
		}
		d := Discarded{Output: o.name}
		if d.Path, d.Bytes, err = gdal.RemoveLeft(o.spec.identity()); d.Path != "" {
			halves = append(halves, d)
		}
	}
	removed := 0
	for i, f := range locked {
		if err == nil {
			if err = os.Remove(list[i].Path); err != nil {
				err = fmt.Errorf("%s can't be removed: %w", list[i].Path, bare(err))
			} else {
				removed++
			}
		}
		f.Close()
	}
	if err == nil {
		for _, o := range r.outs { // folders in which killed runs rasterised
			sweepSharedFolders(cmp.Or(o.spec.tempDir(), filepath.Dir(o.spec.identity())))
		}
	}
	if ns != nil {
		err = errors.Join(err, ns.Close())
	}
	return append(halves, list[:removed]...), err
}

// lockLeft opens and locks what was left of an output; nil where there is nothing.
func lockLeft(output, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s can't be removed: %w", path, bare(err))
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s can't be removed: it is no file", path), f.Close())
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is being written by another run of leat (it holds %s): wait for it or end it", output, path)
		}
		return nil, fmt.Errorf("%s can't be removed: %w", path, err)
	}
	return f, nil
}

// bare is an error of a file without the operation and the name.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
