package spool

import "leat/internal/stats"

// tileMoments adds up the moments of a band's tiles in the order of the tiles, since sums of floats
// depend on it. It keeps only the moments of tiles that came before an earlier one.
type tileMoments struct {
	tiles  int
	sum    stats.Moments // of the tiles below next
	next   int
	chunks [][]stats.Moments // of chunkTiles tiles; nil if none or all of them came
}

// chunkTiles is the number of tiles whose moments are allocated together.
const chunkTiles = 256

func newTileMoments(tiles int) *tileMoments {
	return &tileMoments{tiles: tiles, chunks: make([][]stats.Moments, (tiles+chunkTiles-1)/chunkTiles)}
}

// set takes the moments of a tile, once. They have pixels, so their Total is not 0.
func (t *tileMoments) set(index int, m stats.Moments) {
	chunk := &t.chunks[index/chunkTiles]
	if *chunk == nil {
		*chunk = make([]stats.Moments, chunkTiles)
	}
	(*chunk)[index%chunkTiles] = m
	for t.next < t.tiles && t.chunks[t.next/chunkTiles] != nil {
		m := t.chunks[t.next/chunkTiles][t.next%chunkTiles]
		if m.Total == 0 {
			return
		}
		t.sum.Merge(m)
		t.next++
		if t.next%chunkTiles == 0 {
			t.chunks[t.next/chunkTiles-1] = nil
		}
	}
}

// total returns the moments of all tiles that came.
func (t *tileMoments) total() stats.Moments {
	sum := t.sum
	for i := t.next; i < t.tiles; i++ {
		if chunk := t.chunks[i/chunkTiles]; chunk != nil {
			sum.Merge(chunk[i%chunkTiles])
		}
	}
	return sum
}
