package exec

import (
	"errors"
	"os"
	"slices"
	"testing"

	"leat/apply/internal/output"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/worker/coordinator"
	"leat/ndarray"
	"leat/raster"
)

func TestPlacesInResultMemory(t *testing.T) {
	m, err := newResultMemory(2, 1, []int{4096, 0, 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	if len(m.handles) != 2 || len(m.areas[1]) != 8192 {
		t.Fatalf("%d areas of %d bytes", len(m.handles), len(m.areas[1]))
	}
	m.areas[1][8191] = 7
	for _, c := range []struct {
		worker, at, bytes int
		ok                bool
	}{
		{1, 8190, 2, true}, {1, 0, 8192, true}, {1, 8191, 2, false}, {1, 8193, 1, false}, {1, 0, 8193, false},
		{2, 0, 1, false}, {-1, 0, 1, false}, {0, 1 << 62, 1 << 62, false}, {0, -1, 1, false},
	} {
		o := &answerOutput{Shared: c.bytes, At: c.at}
		data, err := m.data(&coordinator.Result{Number: c.worker}, o)
		if (err == nil) != c.ok || c.ok && (len(data) != c.bytes || cap(data) != c.bytes || data[c.bytes-1] != 7) {
			t.Errorf("%+v: %d bytes, %v", c, len(data), err)
		}
		if c.ok {
			continue
		}
		if _, err := m.record(nil, block.Block{}, nil, &coordinator.Result{Number: c.worker}, o); !errors.Is(err,
			spool.ErrRecord) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	var none *resultMemory
	if _, err := none.data(&coordinator.Result{}, &answerOutput{Shared: 1}); err == nil {
		t.Error("a run without shared memory takes tiles from there")
	}
	if err := none.close(); err != nil {
		t.Error(err)
	}
}

// TestResultMemoryIsNoFile: arrays in files are for those that must be shared.
func TestResultMemoryIsNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LEAT_TEMP_FOLDER", dir)
	m, err := newResultMemory(1, 1, []int{1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

func TestRecordBytes(t *testing.T) {
	writer := func(o output.Output) *output.Writer { return &output.Writer{Output: o} }
	got := recordBytes(raster.Grid{Width: 1000, Height: 100}, block.Plan{WindowWidth: 512, WindowHeight: 256},
		[]*output.Writer{
			writer(output.Output{Type: ndarray.Uint16, Bands: 3, TileWidth: 256, TileHeight: 128}),
			writer(output.Output{Type: ndarray.Uint8, Bands: 1, TileWidth: 256, TileHeight: 128, Factors: []int{2, 8}}),
			writer(output.Output{TileWidth: 256, TileHeight: 128}),
		})
	want := []int{512*128*6 + recordSlack, output.RoundUp(512*128+256*50+64*13+recordSlack, recordAlign), 0}
	if !slices.Equal(got, want) {
		t.Errorf("%v instead of %v", got, want)
	}
}

func TestSlotsShareNoMemory(t *testing.T) {
	area := make([]byte, 3*(100+50))
	parts := slotMemory(area, 3, []int{100, 0, 50})
	n := byte(0)
	for _, slot := range parts {
		for _, part := range slot {
			if len(part) != cap(part) {
				t.Errorf("%d bytes, capacity %d", len(part), cap(part))
			}
			n++
			for i := range part {
				if part[i] != 0 {
					t.Fatal("two parts overlap")
				}
				part[i] = n
			}
		}
	}
	if len(parts) != 3 || area[len(area)-1] != 9 {
		t.Errorf("%d slots, last byte %d", len(parts), area[len(area)-1])
	}
	if parts := slotMemory(area, 4, []int{100, 0, 50}); parts != nil {
		t.Error("memory for three slots is divided among four")
	}
}
