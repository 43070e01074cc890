package gdal

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"leat/bench/measured"
	"leat/internal/gdal"
	"leat/ndarray"
	"leat/raster"
)

//go:embed peer/baseline.c
var baseline []byte

// cacheBytes of GDAL's blocks is less than any raster here, so that each round decodes; the peer
// has the same.
const cacheBytes = 32 << 20

// rounds of one run, each over all blocks of a raster.
const rounds = 5

// reads compares blocks read through the binding with those that C reads.
func (b *bench) reads() error {
	c, err := b.compileBaseline()
	if err != nil {
		return err
	}
	if err := gdal.SetCacheBytes(cacheBytes); err != nil {
		return err
	}
	pixels := neighbours(2, b.blocks, b.blocks)
	size := float64(len(pixels.Data)) * rounds
	table := [][]string{{"", "leat", "C", "leat's rate ÷ C's", "leat's processors ÷ C's"}}
	for _, f := range []struct {
		name, what, driver string
		options            []string
		block              int
	}{
		{"plain.tif", "GeoTIFF, tiles of 512, uncompressed", "GTiff",
			[]string{"TILED=YES", "BLOCKXSIZE=512", "BLOCKYSIZE=512"}, 512},
		{"deflate.tif", "GeoTIFF, tiles of 512, deflate", "GTiff",
			[]string{"TILED=YES", "BLOCKXSIZE=512", "BLOCKYSIZE=512", "COMPRESS=DEFLATE", "PREDICTOR=2"}, 512},
		{"small.tif", "GeoTIFF, tiles of 128, uncompressed", "GTiff",
			[]string{"TILED=YES", "BLOCKXSIZE=128", "BLOCKYSIZE=128"}, 128},
		{"a.img", "HFA, compressed, blocks of 512", "HFA", []string{"COMPRESSED=YES"}, 512},
	} {
		path := filepath.Join(b.dir, f.name)
		w, err := gdal.Create(path, &gdal.Spec{Driver: f.driver, Options: f.options,
			Grid: raster.Grid{Width: b.blocks, Height: b.blocks}, Bands: 2, Type: pixels.Type})
		if err != nil {
			return err
		}
		if err := w.WriteBlock(b.ctx, raster.Window{Width: b.blocks, Height: b.blocks}, pixels); err != nil {
			return errors.Join(err, w.Discard())
		}
		if err := w.Close(b.ctx); err != nil {
			return err
		}
		for _, readers := range []int{1, 2} {
			var ours, theirs, oursCPU, theirsCPU measured.Times
			for round := range b.Runs + 1 {
				wall, cpu, err := b.readBlocks(path, f.block, readers)
				if err != nil {
					return err
				}
				cWall, cCPU, err := c.read(path, f.block, readers)
				if err != nil {
					return err
				}
				b.Say("  %d  %-40s %d readers  leat %v, C %v", round, f.what, readers, wall, cWall)
				if round > 0 {
					ours, theirs = append(ours, wall), append(theirs, cWall)
					oursCPU, theirsCPU = append(oursCPU, cpu), append(theirsCPU, cCPU)
				}
			}
			ratio := theirs.Median().Seconds() / ours.Median().Seconds()
			rate := func(t measured.Times) string {
				return fmt.Sprintf("%.0f MB/s", size/t.Median().Seconds()/1e6)
			}
			what := fmt.Sprintf("%s, %d %s", f.what, readers, map[int]string{1: "reader", 2: "readers"}[readers])
			table = append(table, []string{what, rate(ours), rate(theirs), fmt.Sprintf("%.2f", ratio),
				oursCPU.Ratio(theirsCPU)})
			b.target(what+": rate >= 0.95 x C's", fmt.Sprintf("%.2f", ratio), ratio >= .95)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.Out, "Blocks of 2 bands of uint16 of a raster of %d x %d pixels, read %d times through GDAL by threads that each have it open. GDAL's cache holds a part of it only.\n\n", b.blocks, b.blocks, rounds)
	measured.Table(b.Out, table)
	fmt.Fprintln(b.Out)
	return nil
}

// neighbours are pixels like those of a satellite: those side by side are alike.
func neighbours(bands, height, width int) *ndarray.Array {
	a := ndarray.New(ndarray.Uint16, bands, height, width)
	s := ndarray.Slice[uint16](a)
	seed := uint32(1)
	for i := range s {
		seed = seed*1664525 + 1013904223
		s[i] = uint16(3000 + (i%width)/8 + (i/width)/16 + int(seed>>26))
	}
	return a
}

// readBlocks reads all blocks of a raster, the file open before.
func (b *bench) readBlocks(path string, block, readers int) (wall, cpu time.Duration, err error) {
	f, err := gdal.Open(path, &gdal.Options{Handles: readers})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	g := f.Info().Grid
	across, down := (g.Width+block-1)/block, (g.Height+block-1)/block
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, readers)
	before, begin := processors(), time.Now()
	for i := range readers {
		wg.Go(func() {
			buf := ndarray.New(f.Info().Bands[0].Type, 2, block, block)
			for {
				n := int(next.Add(1)) - 1
				if n >= across*down*rounds {
					return
				}
				n %= across * down
				w := raster.Window{Col: n % across * block, Row: n / across * block}
				w.Width, w.Height = min(block, g.Width-w.Col), min(block, g.Height-w.Row)
				if errs[i] = f.Read(b.ctx, []int{1, 2}, w,
					ndarray.FromBytes(buf.Type, buf.Data, 2, w.Height, w.Width)); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begin), processors() - before, errors.Join(errs...)
}

// processors is what this process has had of them.
func processors() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// peer is the program in C, with the library that this process has loaded.
type peer struct{ program, library string }

func (b *bench) compileBaseline() (*peer, error) {
	source, p := filepath.Join(b.dir, "baseline.c"), &peer{program: filepath.Join(b.dir, "baseline")}
	if err := os.WriteFile(source, baseline, 0o666); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(b.ctx, "cc", "-O2", "-o", p.program, source, "-ldl",
		"-lpthread").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling the program in C (install gcc): %w\n%s", err, out)
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	defer maps.Close()
	if p.library, err = mapped(maps, "/libgdal"); err != nil {
		return nil, err
	}
	return p, nil
}

// mapped is the first file whose path has a part.
func mapped(maps io.Reader, part string) (string, error) {
	for s := bufio.NewScanner(maps); s.Scan(); {
		if i := strings.IndexByte(s.Text(), '/'); i >= 0 && strings.Contains(s.Text()[i:], part) {
			return s.Text()[i:], nil
		}
	}
	return "", errors.New("libgdal is not among the files that this process has mapped")
}

func (p *peer) read(path string, block, readers int) (wall, cpu time.Duration, err error) {
	out, err := exec.Command(p.program, p.library, path, strconv.Itoa(block), strconv.Itoa(readers),
		strconv.Itoa(rounds)).CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("the program in C: %w\n%s", err, out)
	}
	var seconds, cpuSeconds float64
	if _, err := fmt.Sscan(string(out), &seconds, &cpuSeconds); err != nil {
		return 0, 0, fmt.Errorf("the program in C printed %q: %w", out, err)
	}
	return time.Duration(seconds * 1e9), time.Duration(cpuSeconds * 1e9), nil
}
