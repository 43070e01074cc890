package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"leat/apply/internal/localpath"
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

// rasters holds the rasterized vectors during a run.
type rasters struct {
	folder *rundir.Dir // nil if there are none
	// parallel is how many are made at once. cache is the size of GDAL's cache while they are made;
	// 0 leaves it as it is.
	parallel int
	cache    int64
}

// planVectors adds the vectors' costs to the plan, and computes how many are rasterized at once.
func (r *run) planVectors() error {
	p, list := r.plan, r.in.VectorsToRasterize()
	for i := range p.Inputs {
		f := r.in.Files[i]
		if f.Vector == nil {
			continue
		}
		if text := f.Vector.Nowhere(); text != "" {
			p.Notes = append(p.Notes, fmt.Sprintf("no feature of %s (%s) %s", f.Name, f.Path, text))
		}
		d := &p.Inputs[i]
		d.Description, d.Decodes = f.Vector.Text(), 1
		switch {
		case len(f.Layers) == 0:
			d.Access, d.Why = "not read", "no expression uses it"
		case f.Vector.First != f.Name && slices.ContainsFunc(list,
			func(o *resolve.File) bool { return o.Name == f.Vector.First }):
			d.Access, d.Why = "rasterised", "together with "+f.Vector.First+", which is the same"
		default:
			d.Access, d.Why = "rasterised",
				fmt.Sprintf("once, when the run begins, to a file of at most %s in %s", units.FormatSize(f.Vector.PixelBytes()),
					r.vectorDirectory())
		}
	}
	if len(list) == 0 {
		return nil
	}
	cache, err := gdal.CacheBytes()
	if err != nil {
		return err
	}
	var largest int64
	for _, f := range list {
		largest = max(largest, f.Vector.PixelBytes())
	}
	// GDAL rasterizes in strips of at most its cache size, and writes them through the cache.
	need := func(n int) int64 {
		return baseBytes + resolve.GDALBytes + int64(n)*min(largest, cache) + min(int64(n)*largest, cache)
	}
	r.rasters.parallel = min(len(list), p.Workers, runtime.GOMAXPROCS(0))
	for r.rasters.parallel > 1 && need(r.rasters.parallel) > p.BudgetBytes {
		r.rasters.parallel--
	}
	if need(1) > p.BudgetBytes {
		const least = 4 << 20 // a row of tiles of a wide raster
		cache = max(least, (p.BudgetBytes-baseBytes-resolve.GDALBytes)/2)
		r.rasters.cache = cache
	}
	p.MemoryBytes = max(p.MemoryBytes, need(r.rasters.parallel))
	return nil
}

// rasterize makes the rasters of all vectors that are read, each distinct request once, and opens
// them as inputs.
func (r *run) rasterize(ctx context.Context) (err error) {
	list := r.in.VectorsToRasterize()
	if len(list) == 0 {
		return nil
	}
	r.at("rasterising")
	defer r.at("blocks")
	base := r.vectorDirectory()
	if r.rasters.folder, err = rundir.Make(base); err != nil {
		return fmt.Errorf("the folder to rasterise vectors in can't be made in %s: %w", base, plainPath(err))
	}
	if err := r.checkVectorSpace(list); err != nil {
		return err
	}
	if n := r.rasters.cache; n > 0 {
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
	g.SetLimit(r.rasters.parallel)
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
	return filepath.Join(r.rasters.folder.Path, f.Vector.Key+".tif")
}

// checkVectorSpace returns an error if the disk can't hold even empty rasters.
func (r *run) checkVectorSpace(list []*resolve.File) error {
	dir := r.rasters.folder.Path
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
	return fmt.Errorf("the disk of %s, where vectors are rasterised, is full: free some space, or name another folder (--tmpdir, or --shared-temp with workers on other machines): %w", filepath.Dir(r.rasters.folder.Path), err)
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
		return fmt.Errorf("vector %s can't be rasterised (in %s): %w", f.Name, filepath.Dir(r.rasters.folder.Path),
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
	return unix.Statfs(r.rasters.folder.Path, &st) == nil && int64(st.Bavail)*int64(st.Bsize) < 1<<20
}

// dropRasters closes and removes the vectors' rasters.
func (r *run) dropRasters() {
	folder := r.rasters.folder
	if folder == nil {
		return
	}
	r.rasters.folder = nil
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

// vectorDirectory returns the directory in which the run makes its directory for rasters: one that
// worker processes on other machines can reach, else that of unfinished outputs.
func (r *run) vectorDirectory() string {
	if on := r.job.Concurrency.On; on != nil && !on.Capabilities().Local {
		return r.sharedBase()
	}
	if len(r.outs) == 0 {
		return os.TempDir()
	}
	o := &r.outs[0].Spec
	if dir := o.SpoolDir(); dir != "" {
		return resolve.Absolute(dir)
	}
	return filepath.Dir(localpath.Real(o.Path))
}
