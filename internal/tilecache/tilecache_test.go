package tilecache

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

func get(t *testing.T, c *Cache, col, size, uses int, decoded *atomic.Int64) {
	t.Helper()
	err := c.Get(t.Context(), Key{Source: c, Col: col}, size, uses, func(dst []byte) error {
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
	c := New(1000)
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

func TestLimit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(0, 500).Draw(rt, "limit")
		c := New(int64(limit))
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
	c := New(1000)
	broken := errors.New("broken")
	release := make(chan struct{})
	started := make(chan struct{})
	key := Key{Source: c}
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

func TestCountsUsesWithoutMemory(t *testing.T) {
	c := New(100)
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
