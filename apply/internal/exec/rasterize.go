package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/plan"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/internal/fault"
	"leat/internal/gdal"
	"leat/internal/rundir"
	"leat/internal/units"
	"leat/raster"
	"leat/timing"
)

// Rasterizer makes rasters of vectors, in a directory that it removes.
type Rasterizer struct {
	Plan    plan.Rasterizing
	Vectors map[string]jobspec.Vector
	Timings *timing.Recorder
	Log     *slog.Logger

	directory *rundir.Dir // nil if there are none
	opened    []raster.Source
}

// Rasterize makes the rasters of all vectors that are read, each distinct request once. It returns
// the inputs with open rasters in place of the vectors, and notes on features that were left out.
func (r *Rasterizer) Rasterize(ctx context.Context, in *resolve.Inputs) (_ *resolve.Inputs, notes []outcome.Note,
	err error) {
	list := in.VectorsToRasterize()
	if len(list) == 0 {
		return in, nil, nil
	}
	if r.directory, err = rundir.Make(r.Plan.Dir); err != nil {
		return nil, nil, fmt.Errorf("the directory to rasterize vectors in can't be made in %s: %w", r.Plan.Dir,
			plainPath(err))
	}
	if notes, err = r.burnAll(ctx, list); err != nil {
		return nil, nil, err
	}
	rasters := map[*resolve.File]*resolve.File{}
	for _, f := range in.Files {
		if f.Vector == nil || len(f.Layers) == 0 {
			continue
		}
		raster, err := f.WithRaster(r.rasterPath(f))
		if err != nil {
			return nil, nil, fmt.Errorf("vector %s: %w", f.Name, err)
		}
		r.opened = append(r.opened, raster.Source)
		rasters[f] = raster
	}
	return in.Replace(rasters), notes, nil
}

// burnAll rasterizes the requests, and returns notes on features that were left out.
func (r *Rasterizer) burnAll(ctx context.Context, list []*resolve.File) (notes []outcome.Note, err error) {
	if err := r.checkVectorSpace(list); err != nil {
		return nil, err
	}
	if n := r.Plan.CacheBytes; n > 0 {
		before, err := gdal.CacheBytes()
		if err != nil {
			return nil, err
		}
		if err := gdal.SetCacheBytes(n); err != nil {
			return nil, err
		}
		defer gdal.SetCacheBytes(before)
	}
	burned := make([]gdal.RasterizeResult, len(list))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(r.Plan.Parallel)
	for i, f := range list {
		g.Go(func() (err error) {
			burned[i], err = r.burn(gctx, f)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	for i, f := range list {
		if text := f.Vector.UnburnedNote(&burned[i], f.Name+" ("+f.Path+")"); text != "" {
			notes = append(notes, outcome.Note{Text: text})
		}
	}
	return notes, nil
}

func (r *Rasterizer) rasterPath(f *resolve.File) string {
	return filepath.Join(r.directory.Path, f.Vector.Key+".tif")
}

// checkVectorSpace returns an error if the disk can't hold even empty rasters.
func (r *Rasterizer) checkVectorSpace(list []*resolve.File) error {
	dir := r.directory.Path
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil // writing will show it
	}
	least := int64(0)
	for _, f := range list {
		least += 4096 + f.Vector.PixelBytes()/1000 // deflate compresses to a thousandth at best
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < least {
		return r.vectorDiskFull(fmt.Errorf("%s are free, and the rasters of the vectors take at least %s",
			units.FormatSize(free), units.FormatSize(least)))
	}
	return nil
}

func (r *Rasterizer) vectorDiskFull(err error) error {
	return jobspec.Errorf(r.Plan.DirField, "the disk of %s, where vectors are rasterized, is full: %w",
		filepath.Dir(r.directory.Path), err)
}

// burn rasterizes one request.
func (r *Rasterizer) burn(ctx context.Context, f *resolve.File) (burned gdal.RasterizeResult, err error) {
	defer r.Timings.Start("rasterizing", f.Name, timing.NoBlock).Stop()
	path := r.rasterPath(f)
	err = fault.Error("apply.rasterize")
	if err == nil {
		burned, err = gdal.Rasterize(ctx, f.Vector.Request, f.Vector.Grid, path)
	}
	if err != nil {
		if ctx.Err() == nil && r.full() {
			return burned, r.vectorDiskFull(err)
		}
		return burned, fmt.Errorf("vector %s can't be rasterized (in %s): %w", f.Name, filepath.Dir(r.directory.Path),
			err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return burned, fmt.Errorf("vector %s: %w", f.Name, err)
	}
	v := r.Vectors[f.Name]
	now := f.Vector.State(&v, slices.Collect(f.Vector.StateFiles(resolve.VectorFile(&v))))
	if text := f.Vector.Since(f.Path, now); text != "" {
		return burned, fmt.Errorf("vector %s: %w", f.Name,
			&outcome.InputChangedError{Change: text, During: "rasterized"})
	}
	fault.Point("apply.rasterized")
	return burned, nil
}

// full reports whether the disk of the rasters is almost full.
func (r *Rasterizer) full() bool {
	var st unix.Statfs_t
	return unix.Statfs(r.directory.Path, &st) == nil && int64(st.Bavail)*int64(st.Bsize) < 1<<20
}

// Drop closes and removes the rasters.
func (r *Rasterizer) Drop() {
	if r.directory == nil {
		return
	}
	var errs []error
	for _, src := range r.opened {
		errs = append(errs, src.Close())
	}
	if err := errors.Join(append(errs, r.directory.Remove())...); err != nil {
		r.Log.Warn("removing rasterized vectors failed", "dir", r.directory.Path, "error", err)
	}
	r.directory = nil
}
