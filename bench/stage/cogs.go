package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"leat/apply"
	"leat/bench/measured"
	"leat/block"
	"leat/ndarray"
	"leat/raster"
	"leat/stores"
)

// Lines of the table of two COGs, and how the server's latency follows them.
const (
	cogLocal        = "local files"
	cogEmpty        = "through an empty stage"
	cogWarm         = "from a stage that has them, compared with their source"
	cogPieces       = "all in pieces"
	cogWindowLocal  = "a window of less than a quarter, local"
	cogWindowPieces = "the same in pieces"

	cogRemote = "%s, %v"
)

// cogRequests is the column of the number of requests to the server.
const cogRequests = "requests"

// cogBase is the line with which another is compared.
func cogBase(line string) string {
	if line == cogWindowLocal || strings.HasPrefix(line, cogWindowPieces) {
		return cogWindowLocal
	}
	return cogLocal
}

// cogLatencies returns the times that the servers of the COGs take for each request.
func cogLatencies() []time.Duration {
	if latency > 0 {
		return []time.Duration{latency}
	}
	return []time.Duration{20 * time.Millisecond, 100 * time.Millisecond}
}

// cogs measures the NDVI of two files behind servers, and of local ones.
func (b *bench) cogs(runs int) error {
	p := b.places[0]
	return p.fresh(0, func(dir string) error {
		files := filepath.Join(dir, "files")
		if err := os.Mkdir(files, 0o700); err != nil {
			return err
		}
		for seed, name := range []string{"red.tif", "nir.tif"} {
			if err := hills(b.ctx, filepath.Join(files, name), b.side, uint64(seed+1)); err != nil {
				return err
			}
		}
		var servers []*server
		defer func() {
			for _, s := range servers {
				_ = s.end()
			}
		}()
		for i, latency := range cogLatencies() {
			s, err := b.startServer(serverTask{Latency: latency, Dir: files})
			if err != nil {
				return err
			}
			servers = append(servers, s)
			if _, err := b.ndvi(dir, task{URL: s.url, Stage: warmStage(dir, i)}); err != nil {
				return err
			}
		}
		for range runs {
			if err := b.cogRound(dir, files, servers); err != nil {
				return err
			}
		}
		return nil
	})
}

func warmStage(dir string, server int) string { return filepath.Join(dir, fmt.Sprint("warm-", server)) }

// cogRound measures each line once.
func (b *bench) cogRound(dir, files string, servers []*server) error {
	one := func(line string, t task) error {
		took, err := b.ndvi(dir, t)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		b.add(cogTable, line, oursTime, took.Seconds())
		return nil
	}
	if err := one(cogLocal, task{Files: files}); err != nil {
		return err
	}
	if err := one(cogWindowLocal, task{Files: files, Side: b.side}); err != nil {
		return err
	}
	empty := filepath.Join(dir, "empty")
	for i, s := range servers {
		for _, x := range []struct {
			line string
			t    task
		}{
			{cogEmpty, task{Stage: empty}},
			{cogWarm, task{Stage: warmStage(dir, i)}},
			{cogPieces, task{}},
			{cogWindowPieces, task{Side: b.side}},
		} {
			before, err := s.counts()
			if err != nil {
				return err
			}
			line := fmt.Sprintf(cogRemote, x.line, cogLatencies()[i])
			x.t.URL = s.url
			if err := one(line, x.t); err != nil {
				return err
			}
			after, err := s.counts()
			if err != nil {
				return err
			}
			b.add(cogTable, line, cogRequests, float64(after.Reads+after.Checks-before.Reads-before.Checks))
			if err := os.RemoveAll(empty); err != nil {
				return err
			}
		}
	}
	return nil
}

// ndvi has a process compute an NDVI, and compares it with the first of the same window.
func (b *bench) ndvi(dir string, t task) (time.Duration, error) {
	syscall.Sync() // nothing that was before is to be written back meanwhile
	if err := measured.TouchMemory(dir, 8*int64(b.side)*int64(b.side)); err != nil {
		return 0, err
	}
	t.Op, t.Dir = opNDVI, dir
	a, err := b.one(fmt.Sprintf("ndvi-%v-%v-%d.prof", t.URL != "", t.Stage != "", t.Side), t)
	if err != nil {
		return 0, err
	}
	out, first := filepath.Join(dir, "out.tif"), filepath.Join(dir, fmt.Sprintf("first-%d.tif", t.Side))
	got, err := os.ReadFile(out)
	if err != nil {
		return 0, err
	}
	want, err := os.ReadFile(first)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = os.Rename(out, first)
	case err == nil && !bytes.Equal(got, want):
		err = errors.New("the output differs from the first one")
	}
	return a.Epochs[0].Took, err
}

// ndvi is the job in its process.
func (w *worker) ndvi() (err error) {
	job := apply.Job{Inputs: map[string]apply.Input{},
		Outputs: map[string]apply.Output{"out": {Path: filepath.Join(w.Dir, "out.tif"), NoOverviews: true,
			NoStatistics: true}},
		Expressions: map[string]string{"out": "(nir - red) / (nir + red)"}}
	for _, band := range []string{"red", "nir"} {
		path := filepath.Join(w.Files, band+".tif")
		if w.URL != "" {
			path = w.URL + "/" + band + ".tif"
		}
		job.Inputs[band] = apply.File(path)
	}
	if w.Side > 0 {
		job.Controls.Window = &block.Window{Col: w.Side / 4, Row: w.Side / 4, Width: w.Side * 47 / 100,
			Height: w.Side * 47 / 100}
	}
	if w.URL != "" {
		stores := stores.New(&stores.Options{NoStage: w.Stage == "", StageDir: w.Stage})
		defer func() { err = errors.Join(err, stores.Close()) }()
		job.Open = stores.Open
	}
	_, err = apply.Run(w.ctx, job)
	return err
}

// hills writes a raster that compresses about as a band of a satellite does.
func hills(ctx context.Context, path string, side int, seed uint64) error {
	grid := raster.Grid{Width: side, Height: side, HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"},
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}}
	_, err := apply.Run(ctx, apply.Job{Outputs: map[string]apply.Output{"out": {Path: path, COG: true,
		NoStatistics: true}}, Controls: apply.Controls{Grid: &grid},
		Func: func(_ context.Context, b *apply.Block) error {
			a := b.NewOut(ndarray.Uint16, 1)
			px := ndarray.Slice[uint16](a)
			r := rand.New(rand.NewPCG(seed, uint64(b.Number)))
			for i := range px {
				x, y := float64(i%b.Columns()+b.Window.Col), float64(i/b.Columns()+b.Window.Row)
				px[i] = uint16(2000 + 800*math.Sin(x/97+float64(seed))*math.Cos(y/61) + float64(r.IntN(200)))
			}
			b.SetOut("out", a)
			return nil
		}})
	return err
}

// printCOGs prints the table.
func (b *bench) printCOGs(w io.Writer) {
	rows := [][]string{{"", "time", "÷ local files", cogRequests}}
	for _, l := range b.results {
		if l.table != cogTable {
			continue
		}
		took, base := l.values[oursTime].times(), b.results.find(cogTable, cogBase(l.what)).values[oursTime].times()
		ratio := ""
		if l.what != cogBase(l.what) {
			ratio = took.Ratio(base)
		}
		rows = append(rows, []string{l.what, took.String(), ratio, l.values[cogRequests].String()})
	}
	fmt.Fprintf(w, "leat apply, the NDVI of two COGs of %d x %[1]d uint16 behind servers that take some time for each "+
		"request, and on local files; all outputs are the same bytes:\n\n", b.side)
	measured.Table(w, rows)
}
