package stores

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"leat/apply"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
)

// signalling is a raster that calls reading before each read.
type signalling struct {
	apply.Remote
	reading func()
}

func (s signalling) Read(ctx context.Context, bands []int, w raster.Window, dst *ndarray.Array) error {
	s.reading()
	return s.Remote.Read(ctx, bands, w, dst)
}

func TestFailureEndsPrefetch(t *testing.T) {
	s := newShop(t)
	scene(t, s.path("a.tif"), testGrid, 1, 1, nil)
	// the first blocks do not need it
	scene(t, s.path("b.tif"), testGrid.Sub(block.Window{Row: 256, Width: 700, Height: 264}), 1, 2, nil)
	s.hang = func(r *http.Request) bool {
		return r.URL.Path == "/b.tif" && !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-")
	}
	stores := newStores(t, "")
	waits := make(chan struct{})
	reading := sync.OnceFunc(func() { close(waits) })
	failed := errors.New("the function has failed")
	job := apply.Job{Inputs: map[string]apply.Input{"a": apply.File(s.url("a.tif")), "b": apply.File(s.url("b.tif"))},
		Outputs:  map[string]apply.Output{"out": {Path: filepath.Join(t.TempDir(), "out.tif"), TileSize: 64}},
		Controls: apply.Controls{Footprint: apply.Union, WindowWidth: 704, WindowHeight: 64},
		Open: func(ctx context.Context, url string) (raster.Source, error) {
			src, err := stores.Open(ctx, url)
			if err != nil || !strings.HasSuffix(url, "b.tif") {
				return src, err
			}
			return signalling{src.(apply.Remote), reading}, nil
		},
		Func: func(context.Context, *apply.Block) error {
			<-waits
			return failed
		}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // less than the stall time of a request
	defer cancel()
	if _, err := apply.Run(ctx, job); !errors.Is(err, failed) || ctx.Err() != nil {
		t.Errorf("%v; %v", err, ctx.Err())
	}
}
