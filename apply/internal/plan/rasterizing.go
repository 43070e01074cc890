package plan

import (
	"fmt"
	"runtime"
	"slices"

	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/internal/gdal"
	"leat/internal/units"
)

// addVectors adds the vectors' costs to the plan, and computes how many are rasterized at once.
func (p *Plan) addVectors(job *resolve.Job) error {
	list := job.Inputs.VectorsToRasterize()
	z := &p.Rasterizing
	z.Dir, z.DirField = rasterDir(&job.Values.Concurrency, job.Outputs), "Output.TempDir"
	if on := job.Values.Concurrency.On; on != nil && !on.Capabilities().Local {
		z.DirField = "Concurrency.SharedTemp"
	}
	for i := range p.Inputs {
		f := job.Inputs.Files[i]
		if f.Vector == nil {
			continue
		}
		if text := f.Vector.Nowhere(); text != "" {
			p.note(outcome.Note{Text: fmt.Sprintf("no feature of %s (%s) %s", f.Name, f.Path, text)})
		}
		d := &p.Inputs[i]
		d.Description, d.Decodes = f.Vector.Text(), 1
		switch {
		case len(f.Layers) == 0:
			d.Access, d.Why = "not read", "no expression uses it"
		case f.Vector.First != f.Name && slices.ContainsFunc(list,
			func(o *resolve.File) bool { return o.Name == f.Vector.First }):
			d.Access, d.Why = "rasterized", "together with "+f.Vector.First+", which is the same"
		default:
			d.Access, d.Why = "rasterized",
				fmt.Sprintf("once, when the run begins, to a file of at most %s in %s", units.FormatSize(f.Vector.PixelBytes()),
					z.Dir)
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
	z.Parallel = min(len(list), p.Workers, runtime.GOMAXPROCS(0))
	for z.Parallel > 1 && need(z.Parallel) > p.BudgetBytes {
		z.Parallel--
	}
	if need(1) > p.BudgetBytes {
		const least = 4 << 20 // a row of tiles of a wide raster
		cache = max(least, (p.BudgetBytes-baseBytes-resolve.GDALBytes)/2)
		z.CacheBytes = cache
	}
	p.MemoryBytes = max(p.MemoryBytes, need(z.Parallel))
	return nil
}
