package apply

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"leat/ndarray"
	"leat/raster"
)

// joinedSource is a raster whose reads wait until want of them are under way.
type joinedSource struct {
	info   raster.Info
	value  uint16
	inside *atomic.Int64
	most   *atomic.Int64
	want   int64
	fails  error
}

func (s *joinedSource) Info() *raster.Info { return &s.info }
func (s *joinedSource) Close() error       { return nil }
func (s *joinedSource) Read(ctx context.Context, _ []int, _ raster.Window, dst *ndarray.Array) error {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); {
		m = s.most.Load()
	}
	for end := time.Now().Add(time.Minute); s.most.Load() < s.want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d reads at once, expected %d", s.most.Load(), s.want)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if s.fails != nil {
		return s.fails
	}
	for y := range dst.Shape[1] {
		row := dst.Data[dst.Offset+y*dst.Strides[1]:][:2*dst.Shape[2]]
		for x := 0; x < len(row); x += 2 {
			row[x], row[x+1] = byte(s.value), byte(s.value>>8)
		}
	}
	return nil
}

// joinedJob adds up six sources, whose reads wait until want are under way, with one reader.
func joinedJob(t *testing.T, want int64) (Job, []*joinedSource) {
	inside, most := new(atomic.Int64), new(atomic.Int64)
	job := Job{Inputs: map[string]Input{}, Expressions: map[string]string{"out": "a + b + c + d + e + f"},
		Outputs: map[string]Output{"out": {Path: filepath.Join(t.TempDir(), "o.tif"), TileSize: 64, NoOverviews: true,
			Type: ndarray.Uint16}},
		Controls: Controls{WindowWidth: 64, WindowHeight: 128}, Concurrency: Concurrency{Workers: 1, Readers: 1}}
	var all []*joinedSource
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		s := &joinedSource{info: raster.Info{Grid: mapGrid(128, 128, 0, 0), TileWidth: 64, TileHeight: 64,
			Compression: "none", Interleave: "band", Bands: []raster.Band{{Type: ndarray.Uint16}}},
			value: 1 << i, inside: inside, most: most, want: want}
		job.Inputs[name] = Input{Files: []string{name}, Source: s}
		all = append(all, s)
	}
	return job, all
}

func TestInputsOfBlockAreReadAtOnce(t *testing.T) {
	job, all := joinedJob(t, 6)
	mustRun(t, job)
	if n := all[0].most.Load(); n != 6 {
		t.Errorf("%d reads at once by one reader of six inputs", n)
	}
	for i, v := range pixels[uint16](t, job.Outputs["out"].Path) {
		if v != 63 {
			t.Fatalf("pixel %d is %d", i, v)
		}
	}
}

func TestErrorOfInputReadTogether(t *testing.T) {
	job, all := joinedJob(t, 6)
	all[3].fails = errors.New("broken")
	_, err := Run(t.Context(), job)
	wantError(t, err, "reading block", " of d: broken")
	if n := all[0].inside.Load(); n != 0 {
		t.Errorf("%d reads go on", n)
	}
}
