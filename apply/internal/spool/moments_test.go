package spool

import (
	"math/rand/v2"
	"testing"

	"leat/internal/stats"
	"leat/internal/tiffwrite"
)

// TestTileMomentsInAnyOrder adds tiles in random order. The sums must be those of adding them in
// their own order, to the bit, after each number of tiles, and no table may remain at the end.
func TestTileMomentsInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, tiles := range []int{1, chunkTiles - 1, chunkTiles, chunkTiles + 1, 3*chunkTiles + 7} {
		list := make([]stats.Moments, tiles)
		for i := range list {
			list[i].Total = 100
			if r.IntN(4) > 0 { // others have no valid pixels
				v := r.NormFloat64()
				list[i].Merge(stats.Moments{Valid: 1 + r.Int64N(100), Min: v - 1, Max: v + 1, Mean: v, M2: r.Float64()})
			}
		}
		came := make([]bool, tiles)
		m := newTileMoments(tiles)
		for k, i := range r.Perm(tiles) {
			m.set(i, list[i])
			came[i] = true
			if k%50 != 0 && k < tiles-1 {
				continue
			}
			var want stats.Moments
			for n, ok := range came {
				if ok {
					want.Merge(list[n])
				}
			}
			if got := m.total(); got != want {
				t.Fatalf("%d of %d tiles: %+v, expected %+v", k+1, tiles, got, want)
			}
		}
		for i, chunk := range m.chunks[:tiles/chunkTiles] {
			if chunk != nil {
				t.Errorf("%d tiles: chunk %d remains", tiles, i)
			}
		}
	}
}

func TestPlaceOfTile(t *testing.T) {
	for _, offset := range []int64{0, 1<<32 - 1, 1 << 32, 1<<63 - 1} {
		for _, length := range []int{tiffwrite.FrameBytes, 1<<32 - 1} {
			for _, final := range []bool{false, true} {
				tile := newTile(offset, length, final)
				if tile.ref() != (tiffwrite.TileRef{Offset: offset, Bytes: int64(length)}) || tile.final() != final {
					t.Errorf("%d, %d, %t: %+v, %t", offset, length, final, tile.ref(), tile.final())
				}
			}
		}
	}
}
