package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"leat/apply/internal/resolve"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/rundir"
	"leat/internal/fault"
	"leat/internal/gdal"
	"leat/internal/units"
	"leat/timing"
)

// rasterize makes the rasters of all vectors that are read, each distinct request once, and opens
// them as inputs.
func (r *run) rasterize(ctx context.Context) (err error) {
	list := r.in.VectorsToRasterize()
	if len(list) == 0 {
		return nil
	}
	r.at("rasterising")
	defer r.at("blocks")
	base := r.decided.Rasterizing.Dir
	if r.rasterFolder, err = rundir.Make(base); err != nil {
		return fmt.Errorf("the folder to rasterise vectors in can't be made in %s: %w", base, plainPath(err))
	}
	if err := r.checkVectorSpace(list); err != nil {
		return err
	}
	if n := r.decided.Rasterizing.CacheBytes; n > 0 {
		before, err := gdal.CacheBytes()
		if err != nil {
			return err
		}
		if err := gdal.SetCacheBytes(n); err != nil {
			return err
		}
		defer gdal.SetCacheBytes(before)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.decided.Rasterizing.Parallel)
	for _, f := range list {
		g.Go(func() error { return r.burn(gctx, f) })
	}
	if err := g.Wait(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	for _, f := range list {
		if text := f.Vector.UnburnedNote(f.Name + " (" + f.Path + ")"); text != "" {
			r.notes = append(r.notes, text)
		}
	}
	for _, f := range r.in.Files {
		if f.Vector == nil || len(f.Layers) == 0 {
			continue
		}
		if err := f.OpenRaster(r.rasterPath(f)); err != nil {
			return fmt.Errorf("vector %s: %w", f.Name, err)
		}
	}
	return nil
}

func (r *run) rasterPath(f *resolve.File) string {
	return filepath.Join(r.rasterFolder.Path, f.Vector.Key+".tif")
}

// checkVectorSpace returns an error if the disk can't hold even empty rasters.
func (r *run) checkVectorSpace(list []*resolve.File) error {
	dir := r.rasterFolder.Path
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil // writing will show it
	}
	least := int64(0)
	for _, f := range list {
		least += 4096 + f.Vector.PixelBytes()/1000 // deflate compresses to a thousandth at best
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < least {
		return r.vectorDiskFull(fmt.Errorf("%s are free, and the rasters of the vectors take %s at least", units.FormatSize(free),
			units.FormatSize(least)))
	}
	return nil
}

func (r *run) vectorDiskFull(err error) error {
	return fmt.Errorf("the disk of %s, where vectors are rasterised, is full: free some space, or name another folder (--tmpdir, or --shared-temp with workers on other machines): %w", filepath.Dir(r.rasterFolder.Path), err)
}

// burn rasterizes one request.
func (r *run) burn(ctx context.Context, f *resolve.File) error {
	defer r.timings.Start("rasterising", f.Name, timing.NoBlock).Stop()
	path := r.rasterPath(f)
	err := fault.Error("apply.rasterise")
	if err == nil {
		f.Vector.Burned, err = gdal.Rasterize(ctx, f.Vector.Request, f.Vector.Grid, path)
	}
	if err != nil {
		if ctx.Err() == nil && r.full() {
			return r.vectorDiskFull(err)
		}
		return fmt.Errorf("vector %s can't be rasterised (in %s): %w", f.Name, filepath.Dir(r.rasterFolder.Path),
			err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("vector %s: %w", f.Name, err)
	}
	v := jobspec.Vector(r.job.Vectors[f.Name])
	now := resolve.VectorState(&v, slices.Collect(f.Vector.StateFiles(resolve.VectorFile(&v))))
	if text := f.Vector.Since(f.Path, now); text != "" {
		return fmt.Errorf("vector %s: %s while it was rasterised: run again when it is complete", f.Name, text)
	}
	fault.Point("apply.rasterised")
	return nil
}

// full reports whether the disk of the rasters is almost full.
func (r *run) full() bool {
	var st unix.Statfs_t
	return unix.Statfs(r.rasterFolder.Path, &st) == nil && int64(st.Bavail)*int64(st.Bsize) < 1<<20
}

// dropRasters closes and removes the vectors' rasters.
func (r *run) dropRasters() {
	folder := r.rasterFolder
	if folder == nil {
		return
	}
	r.rasterFolder = nil
	var errs []error
	for _, f := range r.in.Files {
		if f.Vector != nil && f.Owned {
			errs = append(errs, f.Source.Close())
			f.Owned = false
		}
	}
	if err := errors.Join(append(errs, folder.Remove())...); err != nil {
		r.log.Warn("removing the folder in which vectors were rasterised", "folder", folder.Path, "error", err)
	}
}
