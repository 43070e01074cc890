package resolve

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"

	"leat/apply/internal/jobspec"
	"leat/internal/gdal"
	"leat/ndarray"
	"leat/raster"
)

// stagedWarp is a raster in a store that lies on another grid. Its position on the job's grid is
// computed from its header; its pixels are warped from the local disk after staging.
type stagedWarp struct {
	Remote
	warp     *Warping
	path     string // for messages
	info     *raster.Info
	col, row int
	xs, ys   float64

	mu    sync.Mutex
	local *gdal.Warped // nil before Wait
}

var _ raster.Masker = (*stagedWarp)(nil)

// openStaged replaces the open remote file by a stagedWarp.
func (f *File) openStaged() error {
	if _, ok := f.Remote.(FileStager); !ok {
		return jobspec.Errorf("Input.Source", "GDAL needs it as a local file")
	}
	if err := f.Remote.CheckStaging(); err != nil {
		return jobspec.Errorf("Input.Source", "GDAL needs it on the local disk, and it can't be staged: %w", err)
	}
	if a, ok := f.Remote.(SidecarVersioner); ok {
		for suffix := range a.SidecarVersions() {
			return jobspec.Errorf("Input.Source", "it has a sidecar %s, which is not staged with it", path.Base(f.Path)+suffix)
		}
	}
	if f.Warp.Overviews {
		return jobspec.JobErrorf("Input.Overviews", "its overviews can't be used while it is in a store")
	}
	w, err := gdal.PlanWarp(&f.Warp.Original, f.Warp.options())
	if err != nil {
		return err
	}
	staged := &stagedWarp{Remote: f.Remote, warp: f.Warp, path: f.Path, info: w.Info()}
	staged.col, staged.row = w.Offset()
	staged.xs, staged.ys = w.Scales()
	if err := w.Close(); err != nil {
		return err
	}
	f.Source, f.Remote = staged, staged // closing it closes the open file
	return nil
}

func (w *stagedWarp) Info() *raster.Info                                   { return w.info }
func (w *stagedWarp) Offset() (col, row int)                               { return w.col, w.row }
func (w *stagedWarp) Scales() (x, y float64)                               { return w.xs, w.ys }
func (w *stagedWarp) Fetch([]raster.Range, func(raster.Range) bool) func() { return func() {} }

// CheckRanges implements Remote.
func (w *stagedWarp) CheckRanges() error {
	return fmt.Errorf("%s lies on another grid, and GDAL, which warps it, needs it as a whole", w.path)
}

// Ranges returns the whole file.
func (w *stagedWarp) Ranges(context.Context, []int, raster.Window, bool) ([]raster.Range, error) {
	return []raster.Range{{Bytes: w.info.FileBytes}}, nil
}

// Stage implements Remote.
func (w *stagedWarp) Stage() (bool, error) {
	ok, err := w.Remote.(FileStager).StageFile()
	if err == nil && !ok {
		err = jobspec.Errorf("Input.Source", "there is no stage")
	}
	return ok, err
}

// Wait waits for the file and opens it.
func (w *stagedWarp) Wait(ctx context.Context) error {
	if err := w.Remote.Wait(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.local != nil {
		return nil
	}
	local, err := w.Remote.(FileStager).LocalPath()
	if err != nil {
		return err
	}
	opened, err := gdal.Warp(local, w.warp.options())
	if err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if text := w.differs(opened); text != "" {
		return errors.Join(jobspec.Errorf("Input.Source", "%s: GDAL finds %s than leat in its header", w.path, text), opened.Close())
	}
	w.local = opened
	return nil
}

// differs describes how the staged file differs from its header; "" if it does not.
func (w *stagedWarp) differs(local *gdal.Warped) string {
	a, b := w.info, local.Info()
	col, row := local.Offset()
	switch {
	case a.Grid.Width != b.Grid.Width || a.Grid.Height != b.Grid.Height || a.Grid.Transform != b.Grid.Transform ||
		col != w.col || row != w.row:
		return "another grid"
	case a.Mask != b.Mask || len(a.Bands) != len(b.Bands):
		return "other bands, or another mask,"
	}
	for i := range a.Bands {
		if a.Bands[i].Type != b.Bands[i].Type ||
			jobspec.NodataText(a.Bands[i].Nodata) != jobspec.NodataText(b.Bands[i].Nodata) {
			return fmt.Sprintf("another type or nodata of band %d", i+1)
		}
	}
	return ""
}

var errNotStaged = errors.New("it was read before it was staged")

// opened returns the staged file.
func (w *stagedWarp) opened() (*gdal.Warped, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.local == nil {
		return nil, fmt.Errorf("%s: %w", w.path, errNotStaged)
	}
	return w.local, nil
}

// Read implements raster.Source.
func (w *stagedWarp) Read(ctx context.Context, bands []int, at raster.Window, dst *ndarray.Array) error {
	local, err := w.opened()
	if err != nil {
		return err
	}
	return local.Read(ctx, bands, at, dst)
}

// ReadMask implements raster.Masker.
func (w *stagedWarp) ReadMask(ctx context.Context, at raster.Window, dst []byte) error {
	local, err := w.opened()
	if err != nil {
		return err
	}
	return local.ReadMask(ctx, at, dst)
}

// release closes the staged file.
func (w *stagedWarp) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.local == nil {
		return nil
	}
	local := w.local
	w.local = nil
	return local.Close()
}

// Done implements Remote.
func (w *stagedWarp) Done() error { return errors.Join(w.release(), w.Remote.Done()) }

// Close implements raster.Source.
func (w *stagedWarp) Close() error { return errors.Join(w.release(), w.Remote.Close()) }
