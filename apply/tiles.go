package apply

import (
	"leat/block"
	"leat/raster"
)

// shareTiles lets blocks that need the same stored tile decode it once, where memory allows.
func (r *run) shareTiles() {
	if r.plan.CacheBytes == 0 {
		return
	}
	cache := raster.NewTileCache(r.plan.CacheBytes)
	for _, f := range r.in.files {
		t, ok := f.src.(raster.Tiled)
		if !ok {
			continue
		}
		t.SetCache(cache, func(w block.Window) int { return r.touching(w.Shift(-f.dc, -f.dr)) })
	}
}
