package raster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get reads a tile whose bytes all equal its column.
func get(t *testing.T, c *TileCache, col, size, uses int, decoded *atomic.Int64) {
	t.Helper()
	err := c.Get(t.Context(), TileKey{Source: c, Col: col}, size, uses, func(dst []byte) error {
		decoded.Add(1)
		for i := range dst {
			dst[i] = byte(col)
		}
		return nil
	}, func(data []byte) {
		for i, v := range data {
			if v != byte(col) || len(data) != size {
				t.Errorf("byte %d of tile %d is %d, of %d bytes", i, col, v, len(data))
				return
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTileDecodedOnceThenDropped(t *testing.T) {
	c := NewTileCache(1000)
	var decoded atomic.Int64
	var wg sync.WaitGroup
	for range 6 {
		for col := range 10 {
			wg.Go(func() { get(t, c, col, 100, 6, &decoded) })
		}
	}
	wg.Wait()
	if n := decoded.Load(); n != 10 {
		t.Errorf("10 tiles were decoded %d times", n)
	}
	if len(c.tiles) != 0 {
		t.Errorf("%d tiles are kept after their last use", len(c.tiles))
	}
}

func TestTileCacheLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(0, 500).Draw(rt, "limit")
		c := NewTileCache(int64(limit))
		var decoded atomic.Int64
		var wg sync.WaitGroup
		for g := range 3 {
			cols := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 40).Draw(rt, "columns")
			wg.Go(func() {
				for _, col := range cols {
					get(t, c, col, 50+10*(col%3), 4+g, &decoded)
				}
			})
		}
		wg.Wait()
		if c.Peak() > int64(limit) {
			rt.Fatalf("%d bytes were held, %d allowed", c.Peak(), limit)
		}
	})
}

func TestDecodeErrorReachesAllWaiters(t *testing.T) {
	c := NewTileCache(1000)
	broken := errors.New("broken")
	release := make(chan struct{})
	started := make(chan struct{})
	key := TileKey{Source: c}
	var wg sync.WaitGroup
	wg.Go(func() {
		err := c.Get(t.Context(), key, 10, 2, func([]byte) error { close(started); <-release; return broken },
			func([]byte) { t.Error("used") })
		if !errors.Is(err, broken) {
			t.Error(err)
		}
	})
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Get(ctx, key, 10, 2, nil, func([]byte) { t.Error("used") }); !errors.Is(err, context.Canceled) {
		t.Error("a cancelled wait gave", err)
	}
	close(release)
	wg.Wait()
	var decoded atomic.Int64
	get(t, c, 0, 10, 1, &decoded)
	if decoded.Load() != 1 {
		t.Error("the failure was remembered")
	}
}

func TestCRSEqualIgnoresCitations(t *testing.T) {
	keys := func(code uint16, citation string) *GeoKeys {
		return &GeoKeys{Directory: []uint16{1, 1, 0, 3, 1024, 0, 1, 1, 1026, 34737, uint16(len(citation)), 0, 3072, 0,
			1, code}, ASCII: citation}
	}
	a, b := CRS{Keys: keys(32631, "UTM 31N|")}, CRS{Keys: keys(32631, "zone 31|")}
	if !a.Equal(b) {
		t.Error("citations were compared")
	}
	if a.Equal(CRS{Keys: keys(32632, "UTM 31N|")}) {
		t.Error("another code is the same system")
	}
	if !(CRS{Code: "EPSG:1", Keys: a.Keys}).Equal(CRS{Code: "EPSG:1"}) {
		t.Error("codes were not compared")
	}
	if a.Equal(CRS{}) || !(CRS{}).Equal(CRS{Keys: &GeoKeys{Directory: []uint16{1, 1, 0, 0}}}) {
		t.Error("no system at all is compared wrongly")
	}
	damaged := CRS{Keys: &GeoKeys{Directory: []uint16{1, 1, 0, 9, 2048, 34736, 5, 60000}}}
	if damaged.Equal(a) {
		t.Error("damaged keys are a system")
	}
}

func TestTransformInvert(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := Transform{rapid.Float64Range(-1e6, 1e6).Draw(t, "x"), 30, 0.5, rapid.Float64Range(-1e6, 1e6).Draw(t, "y"),
			0.25, -30}
		c, r := rapid.Float64Range(-1e4, 1e4).Draw(t, "col"), rapid.Float64Range(-1e4, 1e4).Draw(t, "row")
		x, y := tr.Apply(c, r)
		c2, r2, ok := tr.Invert(x, y)
		if !ok || c2-c > 1e-6 || c-c2 > 1e-6 || r2-r > 1e-6 || r-r2 > 1e-6 {
			t.Fatalf("%v,%v became %v,%v", c, r, c2, r2)
		}
	})
	if _, _, ok := (Transform{}).Invert(1, 1); ok {
		t.Error("a degenerate transform was inverted")
	}
}

func TestTileCacheCountsUsesWithoutMemory(t *testing.T) {
	c := NewTileCache(100)
	var decoded atomic.Int64
	get(t, c, 1, 100, 2, &decoded) // takes all the memory until its second use
	for range 2 {
		get(t, c, 2, 100, 3, &decoded)
	}
	get(t, c, 1, 100, 2, &decoded)
	get(t, c, 2, 100, 3, &decoded) // the last of three
	if decoded.Load() != 4 || c.Decoded() != 4 || len(c.tiles) != 0 || len(c.usedUp) != 0 {
		t.Errorf("%d decodes, %d tiles are kept, %d counted", decoded.Load(), len(c.tiles), len(c.usedUp))
	}
}
