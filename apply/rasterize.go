package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"leat/apply/internal/jobspec"
	"leat/internal/fault"
	"leat/internal/gdal"
	"leat/internal/units"
	"leat/raster/geotiff"
	"leat/timing"
)

// rasters holds the rasterized vectors during a run.
type rasters struct {
	folder *runDirectory // nil if there are none
	// parallel is how many are made at once. cache is the size of GDAL's cache while they are made;
	// 0 leaves it as it is.
	parallel int
	cache    int64
}

// gdalBytes is the memory of libgdal once it is loaded and has opened a source: 51 MiB with GDAL
// 3.6 and its plugins.
const gdalBytes = 52 << 20

// libraryBytes returns the memory of the libraries that the run loads for its inputs.
func (in *inputs) libraryBytes() int64 {
	for _, f := range in.files {
		if f.vector != nil || f.byGDAL() {
			return gdalBytes
		}
	}
	return 0
}

// vectorsToRasterize returns the vectors that are read, one for each distinct request.
func (in *inputs) vectorsToRasterize() (list []*inputFile) {
	seen := map[string]bool{}
	for _, f := range in.files {
		if f.vector != nil && len(f.layers) > 0 && !seen[f.vector.key] {
			seen[f.vector.key] = true
			list = append(list, f)
		}
	}
	return list
}

// planVectors adds the vectors' costs to the plan, and computes how many are rasterized at once.
func (r *run) planVectors() error {
	p, list := r.plan, r.in.vectorsToRasterize()
	for i := range p.Inputs {
		f := r.in.files[i]
		if f.vector == nil {
			continue
		}
		if text := f.vector.nowhere(); text != "" {
			p.Notes = append(p.Notes, fmt.Sprintf("no feature of %s (%s) %s", f.input, f.path, text))
		}
		d := &p.Inputs[i]
		d.Description, d.Decodes = f.vector.text(), 1
		switch {
		case len(f.layers) == 0:
			d.Access, d.Why = "not read", "no expression uses it"
		case f.vector.first != f.input && slices.ContainsFunc(list,
			func(o *inputFile) bool { return o.input == f.vector.first }):
			d.Access, d.Why = "rasterised", "together with "+f.vector.first+", which is the same"
		default:
			d.Access, d.Why = "rasterised",
				fmt.Sprintf("once, when the run begins, to a file of at most %s in %s", units.FormatSize(f.vector.pixelBytes()),
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
		largest = max(largest, f.vector.pixelBytes())
	}
	// GDAL rasterizes in strips of at most its cache size, and writes them through the cache.
	need := func(n int) int64 {
		return baseBytes + gdalBytes + int64(n)*min(largest, cache) + min(int64(n)*largest, cache)
	}
	r.rasters.parallel = min(len(list), p.Workers, runtime.GOMAXPROCS(0))
	for r.rasters.parallel > 1 && need(r.rasters.parallel) > p.BudgetBytes {
		r.rasters.parallel--
	}
	if need(1) > p.BudgetBytes {
		const least = 4 << 20 // a row of tiles of a wide raster
		cache = max(least, (p.BudgetBytes-baseBytes-gdalBytes)/2)
		r.rasters.cache = cache
	}
	p.MemoryBytes = max(p.MemoryBytes, need(r.rasters.parallel))
	return nil
}

// rasterize makes the rasters of all vectors that are read, each distinct request once, and opens
// them as inputs.
func (r *run) rasterize(ctx context.Context) (err error) {
	list := r.in.vectorsToRasterize()
	if len(list) == 0 {
		return nil
	}
	r.at("rasterising")
	defer r.at("blocks")
	base := r.vectorDirectory()
	if r.rasters.folder, err = makeRunDirectory(base); err != nil {
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
		if text := f.vector.unburnedNote(f.input + " (" + f.path + ")"); text != "" {
			r.notes = append(r.notes, text)
		}
	}
	for _, f := range r.in.files {
		if f.vector == nil || len(f.layers) == 0 {
			continue
		}
		if err := f.openRaster(r.rasterPath(f)); err != nil {
			return fmt.Errorf("vector %s: %w", f.input, err)
		}
	}
	return nil
}

func (r *run) rasterPath(f *inputFile) string {
	return filepath.Join(r.rasters.folder.path, f.vector.key+".tif")
}

// checkVectorSpace returns an error if the disk can't hold even empty rasters.
func (r *run) checkVectorSpace(list []*inputFile) error {
	dir := r.rasters.folder.path
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil // writing will show it
	}
	least := int64(0)
	for _, f := range list {
		least += 4096 + f.vector.pixelBytes()/1000 // deflate compresses to a thousandth at best
	}
	if free := int64(st.Bavail) * int64(st.Bsize); free < least {
		return r.vectorDiskFull(fmt.Errorf("%s are free, and the rasters of the vectors take %s at least", units.FormatSize(free),
			units.FormatSize(least)))
	}
	return nil
}

func (r *run) vectorDiskFull(err error) error {
	return fmt.Errorf("the disk of %s, where vectors are rasterised, is full: free some space, or name another folder (--tmpdir, or --shared-temp with workers on other machines): %w", filepath.Dir(r.rasters.folder.path), err)
}

// burn rasterizes one request.
func (r *run) burn(ctx context.Context, f *inputFile) error {
	defer r.timings.Start("rasterising", f.input, timing.NoBlock).Stop()
	path := r.rasterPath(f)
	err := fault.Error("apply.rasterise")
	if err == nil {
		f.vector.burned, err = gdal.Rasterize(ctx, f.vector.request, f.vector.grid, path)
	}
	if err != nil {
		if ctx.Err() == nil && r.full() {
			return r.vectorDiskFull(err)
		}
		return fmt.Errorf("vector %s can't be rasterised (in %s): %w", f.input, filepath.Dir(r.rasters.folder.path),
			err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("vector %s: %w", f.input, err)
	}
	v := jobspec.Vector(r.job.Vectors[f.input])
	now := vectorState(&v, slices.Collect(f.vector.stateFiles(vectorFile(&v))))
	if text := f.vector.since(f.path, now); text != "" {
		return fmt.Errorf("vector %s: %s while it was rasterised: run again when it is complete", f.input, text)
	}
	fault.Point("apply.rasterised")
	return nil
}

// full reports whether the disk of the rasters is almost full.
func (r *run) full() bool {
	var st unix.Statfs_t
	return unix.Statfs(r.rasters.folder.path, &st) == nil && int64(st.Bavail)*int64(st.Bsize) < 1<<20
}

// openRaster replaces a vector's placeholder by its raster.
func (f *inputFile) openRaster(path string) error {
	src, err := geotiff.Open(path)
	if err != nil {
		return err
	}
	info, want := src.Info(), f.src.Info()
	if info.Grid.Width != want.Grid.Width || info.Grid.Height != want.Grid.Height || len(info.Bands) != 1 ||
		info.Bands[0].Type != f.typ {
		return errors.Join(fmt.Errorf("GDAL made a raster of %d x %d pixels of %v", info.Grid.Width, info.Grid.Height,
			info.Bands[0].Type), src.Close())
	}
	f.src, f.owned, f.info = src, true, info
	f.from, f.version = path, versionOf(src, path)
	return nil
}

// dropRasters closes and removes the vectors' rasters.
func (r *run) dropRasters() {
	folder := r.rasters.folder
	if folder == nil {
		return
	}
	r.rasters.folder = nil
	var errs []error
	for _, f := range r.in.files {
		if f.vector != nil && f.owned {
			errs = append(errs, f.src.Close())
			f.owned = false
		}
	}
	if err := errors.Join(append(errs, folder.remove())...); err != nil {
		r.log.Warn("removing the folder in which vectors were rasterised", "folder", folder.path, "error", err)
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
	o := &r.outs[0].spec
	if dir := o.tempDir(); dir != "" {
		return absolute(dir)
	}
	return filepath.Dir(realPath(o.Path))
}
