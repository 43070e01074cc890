package apply

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"

	"leat/ndarray"
	"leat/raster"
	"leat/raster/gdal"
)

// farWarped is a raster in a store that lies on another grid. Where it lies on the lattice is worked out from its header; its pixels are warped from
// the local disk once it was staged.
type farWarped struct {
	Remote
	warp     *warping
	path     string // for messages
	info     *raster.Info
	col, row int

	mu   sync.Mutex
	near *gdal.Warped // nil before Wait
}

var _ raster.Masker = (*farWarped)(nil)

// openFar puts a farWarped in place of the remote file that is open.
func (f *inputFile) openFar() error {
	if _, ok := f.remote.(Filed); !ok {
		return fmt.Errorf("it can't be had as a local file, which GDAL needs: copy it first, with: leat stage get")
	}
	if err := f.remote.Staging(); err != nil {
		return fmt.Errorf("GDAL needs it on the local disk, and it can't be staged: %w: allow a stage, or copy it first, with: leat stage get", err)
	}
	if a, ok := f.remote.(Accompanied); ok {
		for suffix := range a.BesideVersions() {
			return fmt.Errorf("it has a file %s beside it, which is not staged with it: copy both first, with: leat stage get", path.Base(f.path)+suffix)
		}
	}
	if f.warp.Overviews {
		return errors.New("its overviews can't be used (--use-overviews) while it is in a store: leave that out, or copy it first, with: leat stage get")
	}
	w, err := gdal.Foresee(&f.warp.was, f.warp.options())
	if err != nil {
		return err
	}
	far := &farWarped{Remote: f.remote, warp: f.warp, path: f.path, info: w.Info()}
	far.col, far.row = w.Offset()
	if err := w.Close(); err != nil {
		return err
	}
	f.src, f.remote = far, far // it closes what was open
	return nil
}

func (w *farWarped) Info() *raster.Info          { return w.info }
func (w *farWarped) Offset() (col, row int)      { return w.col, w.row }
func (w *farWarped) Fetch([]raster.Range) func() { return func() {} }

// Pieces implements Remote.
func (w *farWarped) Pieces() error {
	return fmt.Errorf("%s lies on another grid, and GDAL, which warps it, needs it as a whole", w.path)
}

// Ranges is all of the file.
func (w *farWarped) Ranges(context.Context, []int, raster.Window, bool) ([]raster.Range, error) {
	return []raster.Range{{Bytes: w.info.FileBytes}}, nil
}

// Stage implements Remote.
func (w *farWarped) Stage() (bool, error) {
	ok, err := w.Remote.(Filed).StageFile()
	if err == nil && !ok {
		err = errors.New("there is no stage: name a folder for it (--stage-dir), or copy the file first, with: leat stage get")
	}
	return ok, err
}

// Wait waits for the file and opens it.
func (w *farWarped) Wait(ctx context.Context) error {
	if err := w.Remote.Wait(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.near != nil {
		return nil
	}
	local, err := w.Remote.(Filed).LocalPath()
	if err != nil {
		return err
	}
	near, err := gdal.Warp(local, w.warp.options())
	if err != nil {
		return fmt.Errorf("%s: %w", w.path, err)
	}
	if text := w.differs(near); text != "" {
		return errors.Join(fmt.Errorf("%s: GDAL sees %s than its header tells leat: copy it and what lies beside it first, with: leat stage get", w.path, text), near.Close())
	}
	w.near = near
	return nil
}

// differs says in what the staged file is not as it was foreseen.
func (w *farWarped) differs(near *gdal.Warped) string {
	a, b := w.info, near.Info()
	col, row := near.Offset()
	switch {
	case a.Grid.Width != b.Grid.Width || a.Grid.Height != b.Grid.Height || a.Grid.Transform != b.Grid.Transform || col != w.col || row != w.row:
		return "another grid"
	case a.Mask != b.Mask || len(a.Bands) != len(b.Bands):
		return "other bands, or another mask,"
	}
	for i := range a.Bands {
		if a.Bands[i].Type != b.Bands[i].Type || nodataText(a.Bands[i].Nodata) != nodataText(b.Bands[i].Nodata) {
			return fmt.Sprintf("another type or nodata of band %d", i+1)
		}
	}
	return ""
}

var errNotStaged = errors.New("it was read before it was staged")

// opened is the staged file.
func (w *farWarped) opened() (*gdal.Warped, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.near == nil {
		return nil, fmt.Errorf("%s: %w", w.path, errNotStaged)
	}
	return w.near, nil
}

// Read implements raster.Source.
func (w *farWarped) Read(ctx context.Context, bands []int, at raster.Window, dst *ndarray.Array) error {
	near, err := w.opened()
	if err != nil {
		return err
	}
	return near.Read(ctx, bands, at, dst)
}

// ReadMask implements raster.Masker.
func (w *farWarped) ReadMask(ctx context.Context, at raster.Window, dst []byte) error {
	near, err := w.opened()
	if err != nil {
		return err
	}
	return near.ReadMask(ctx, at, dst)
}

// release closes the staged file.
func (w *farWarped) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.near == nil {
		return nil
	}
	near := w.near
	w.near = nil
	return near.Close()
}

// Done implements Remote.
func (w *farWarped) Done() error { return errors.Join(w.release(), w.Remote.Done()) }

// Close implements raster.Source.
func (w *farWarped) Close() error { return errors.Join(w.release(), w.Remote.Close()) }
