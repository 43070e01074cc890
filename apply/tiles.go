package apply

import (
	"leat/block"
	"leat/raster"
)

// shareTiles makes blocks that need the same stored tile decode it once, if the plan has memory for
// a cache.
func (r *run) shareTiles() {
	if r.plan.CacheBytes == 0 {
		return
	}
	cache := raster.NewTileCache(r.plan.CacheBytes)
	for _, f := range r.in.Files {
		t, ok := f.Source.(raster.Tiled)
		if !ok {
			continue
		}
		t.SetCache(cache, func(w block.Window) int { return r.countBlocks(w.Shift(-f.ColOffset, -f.RowOffset)) })
	}
}
