package gdal

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

// scene returns pixels like those of a satellite: neighbours are alike.
func scene(bands, height, width int) *ndarray.Array {
	a := ndarray.New(ndarray.Uint16, bands, height, width)
	s := ndarray.Slice[uint16](a)
	seed := uint32(1)
	for i := range s {
		seed = seed*1664525 + 1013904223
		s[i] = uint16(3000 + (i%width)/8 + (i/width)/16 + int(seed>>26))
	}
	return a
}

// BenchmarkBlockReads reads a raster of 2 x 4096 x 4096 pixels block by block through the binding, and by a program in C that does the
// same with the same library.
func BenchmarkBlockReads(b *testing.B) {
	need(b, "GTiff", "HFA")
	const side = 4096
	pixels := scene(2, side, side)
	dir := b.TempDir()
	baseline := filepath.Join(dir, "baseline")
	if out, err := exec.Command("cc", "-O2", "-o", baseline, "testdata/baseline.c", "-ldl", "-lpthread").CombinedOutput(); err != nil {
		b.Logf("no C compiler, so no baseline: %v %s", err, out)
		baseline = ""
	}
	library := ""
	for _, name := range candidates() {
		if h, err := dlopen(name); err == nil {
			dlclose(h)
			library = name
			break
		}
	}
	cache := c.GDALGetCacheMax64()
	defer c.GDALSetCacheMax64(cache)
	c.GDALSetCacheMax64(32 << 20) // less than the raster: blocks are decoded in each round
	for _, f := range []struct {
		name, driver string
		options      []string
		block        int
	}{
		{"plain.tif", "GTiff", []string{"TILED=YES", "BLOCKXSIZE=512", "BLOCKYSIZE=512"}, 512},
		{"deflate.tif", "GTiff", []string{"TILED=YES", "BLOCKXSIZE=512", "BLOCKYSIZE=512", "COMPRESS=DEFLATE", "PREDICTOR=2"}, 512},
		{"small.tif", "GTiff", []string{"TILED=YES", "BLOCKXSIZE=128", "BLOCKYSIZE=128"}, 128},
		{"a.img", "HFA", []string{"COMPRESSED=YES"}, 512},
	} {
		w, err := Create(filepath.Join(dir, f.name), &Spec{Driver: f.driver, Options: f.options, Grid: utm(side, side), Bands: 2, Type: ndarray.Uint16})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.WriteBlock(b.Context(), raster.Window{Width: side, Height: side}, pixels); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		for _, readers := range []int{1, 2} {
			rate := func(b *testing.B, seconds, cpu float64) {
				b.ReportMetric(float64(len(pixels.Data))*float64(b.N)/seconds/1e6, "MB/s")
				b.ReportMetric(cpu*1e3/float64(b.N), "cpu-ms/op")
			}
			b.Run(fmt.Sprintf("%s/%d readers/leat", f.name, readers), func(b *testing.B) {
				s, err := Open(w.path, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				b.ResetTimer()
				before := cpuSeconds(b)
				readBlocks(b, s, f.block, readers, b.N)
				rate(b, b.Elapsed().Seconds(), cpuSeconds(b)-before)
			})
			if baseline == "" {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d readers/C", f.name, readers), func(b *testing.B) {
				out, err := exec.Command(baseline, library, w.path, strconv.Itoa(f.block), strconv.Itoa(readers), strconv.Itoa(b.N)).CombinedOutput()
				var seconds, cpu float64
				if _, err2 := fmt.Sscan(string(out), &seconds, &cpu); err != nil || err2 != nil {
					b.Fatalf("%v %s", err, out)
				}
				b.ReportMetric(seconds*1e9/float64(b.N), "ns/op")
				rate(b, seconds, cpu)
			})
		}
	}
}

// cpuSeconds is what the process has had of processors: what counts on a machine that others use too.
func cpuSeconds(b *testing.B) float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

func readBlocks(b *testing.B, s *File, block, readers, rounds int) {
	g := s.Info().Grid
	bands := bandsOf(s.Info())
	across, down := (g.Width+block-1)/block, (g.Height+block-1)/block
	var next atomic.Int64
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			buf := ndarray.New(s.Info().Bands[0].Type, len(bands), block, block)
			for {
				n := int(next.Add(1)) - 1
				if n >= across*down*rounds {
					return
				}
				n %= across * down
				w := raster.Window{Col: n % across * block, Row: n / across * block}
				w.Width, w.Height = min(block, g.Width-w.Col), min(block, g.Height-w.Row)
				dst := ndarray.Over(buf.Type, buf.Data, len(bands), w.Height, w.Width)
				if err := s.Read(context.Background(), bands, w, dst); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkOpenAndClose(b *testing.B) {
	need(b, "GTiff")
	path := write(b, "a.tif", &Spec{Driver: "GTiff", Grid: utm(20, 20), Bands: 1, Type: ndarray.Uint8}, ndarray.New(ndarray.Uint8, 1, 20, 20))
	for b.Loop() {
		f, err := Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is the price of one small call of C.
func BenchmarkCall(b *testing.B) {
	need(b)
	for b.Loop() {
		c.CPLErrorReset()
	}
}
