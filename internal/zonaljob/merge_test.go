package zonaljob

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"leat/block"
	"leat/internal/zonal"
	"leat/ndarray"
)

// rasterParams returns parameters of zones of a raster, and the encoded state of 1000 pixels.
func rasterParams(t *testing.T, stats string) (*params, []byte) {
	t.Helper()
	p, err := newParams(settings{Grid: block.Window{Width: 1000, Height: 1}, Stats: stats, Raster: true,
		Variables: []variable{{"v", ndarray.Float32, 1}}}, shapes{})
	if err != nil {
		t.Fatal(err)
	}
	specs, err := p.specs()
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, 1000)
	for i := range values {
		values[i] = float32(i)
	}
	var st zonal.State
	mask := &zonal.Mask{Runs: []zonal.Run{{Row: 0, Col: 0, Len: 1000}}}
	if err := zonal.NewCollector(specs[0]).Add(&st, mask, ndarray.FromSlice(values, 1, 1000), nil); err != nil {
		t.Fatal(err)
	}
	return p, specs[0].Append(nil, &st)
}

// emitted returns what a block emits of one zone.
func emitted(zone int64, state []byte) []byte {
	return append(binary.AppendUvarint(binary.AppendVarint(nil, zone), 0), state...)
}

func TestZonesOfRasterAreBounded(t *testing.T) {
	p, state := rasterParams(t, "mean")
	m, err := newMerger(p, 4000, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for zone := range 100 {
		err := m.add(emitted(int64(zone), state))
		if zone < m.maxZones && err != nil {
			t.Fatal(err)
		}
		if zone < m.maxZones {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "a quarter of the memory allowed") {
			t.Errorf("%d zones: %v", zone+1, err)
		}
		return
	}
	t.Errorf("100 zones are accepted, the bound is %d", m.maxZones)
}

func TestCloseFreesUnfinishedRun(t *testing.T) {
	p, state := rasterParams(t, "median")
	dir := t.TempDir()
	m, err := newMerger(p, 8000, dir)
	if err != nil {
		t.Fatal(err)
	}
	o := &Options{run: &run{merger: m}}
	open := func() int {
		t.Helper()
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("needs the open files of a process: ", err)
		}
		n := 0
		for _, e := range list {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir) {
				n++
			}
		}
		return n
	}
	for zone := range 5 {
		if err := m.add(emitted(int64(zone), state)); err != nil {
			t.Fatal(err)
		}
	}
	if open() != 1 {
		t.Fatalf("%d temporary files are open, expected one", open())
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if open() != 0 {
		t.Error("the temporary file is open after Close")
	}
	if err := new(Options).Close(); err != nil {
		t.Errorf("Close without a run: %v", err)
	}
}

func TestMemoryOfStatisticsIsPlanned(t *testing.T) {
	for stats, kept := range map[string]bool{"mean": false, "median": true} {
		p, state := rasterParams(t, stats)
		n, err := p.pixelBytes()
		if err != nil {
			t.Fatal(err)
		}
		// Keys in two slices, and the encoded values as a run, a state and what is emitted.
		if least := 16 + 3*int64(len(state))/1000; kept && n < least || !kept && n != 0 {
			t.Errorf("%s: %d bytes for each pixel, expected %d or more", stats, n, least)
		}
		m, err := newMerger(p, 8000, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int64{true: 3000, false: 2000}[kept]; m.bytes() != want {
			t.Errorf("%s: merging takes %d bytes, expected %d", stats, m.bytes(), want)
		}
	}
}
