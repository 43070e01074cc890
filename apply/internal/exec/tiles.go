package exec

import (
	"leat/apply/internal/resolve"
	"leat/block"
	"leat/internal/tilecache"
)

// shareTiles makes blocks that need the same stored tile decode it once, if the plan has memory for
// a cache.
func shareTiles(in *resolve.Inputs, cacheBytes int64, todo *remaining) {
	if cacheBytes == 0 {
		return
	}
	cache := tilecache.New(cacheBytes)
	for _, f := range in.Files {
		t, ok := f.Source.(tilecache.Source)
		if !ok {
			continue
		}
		t.SetCache(cache, func(w block.Window) int { return todo.countTouching(w.Shift(-f.ColOffset, -f.RowOffset)) })
	}
}
