package apply

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply/outcome"
	"leat/ndarray"
)

// blockJob returns a job that makes an output in blocks of 16 x 16, one after the other.
func blockJob(t *testing.T, o Output, f Func) Job {
	g := mapGrid(64, 64, 0, 0)
	o.Path, o.TileSize, o.NoOverviews = filepath.Join(t.TempDir(), "o.tif"), 16, true
	return Job{Outputs: map[string]Output{"o": o}, Controls: Controls{Grid: &g, WindowWidth: 16, WindowHeight: 16},
		Concurrency: Concurrency{Workers: 1, Readers: 1}, Func: f}
}

func TestFunctionResultChecked(t *testing.T) {
	give := func(at int, types ...ndarray.DType) Func { // types[0] until block at, then types[1]
		return func(_ context.Context, b *Block) error {
			typ := types[0]
			if b.Number >= at {
				typ = types[1]
			}
			a := b.NewOut(typ, 1)
			clear(a.Raw())
			b.SetOut("o", a)
			return nil
		}
	}
	shape := func(shape ...int) Func {
		return func(_ context.Context, b *Block) error {
			b.SetOut("o", ndarray.New(ndarray.Uint8, shape...))
			return nil
		}
	}
	for name, c := range map[string]struct {
		out  Output
		f    Func
		want []string
	}{
		"a later block of another type": {Output{}, give(5, ndarray.Uint8, ndarray.Float32),
			[]string{"output o", "block 5", "float32", "block 0 gave", "uint8"}},
		"a declared type": {Output{Type: ndarray.Uint16}, give(0, ndarray.Uint8, ndarray.Uint8),
			[]string{"output o", "block 0", "uint8", "declared", "uint16"}},
		"declared bands": {Output{Bands: 2}, give(0, ndarray.Uint8, ndarray.Uint8),
			[]string{"output o", "block 0", "1 band", "declared", "2 bands"}},
		"a shape that is not the block's": {Output{}, shape(1, 16, 15),
			[]string{"block 0", `output "o"`, "[1 16 15]", "(bands, 16, 16)"}},
		"no dimension for bands": {Output{}, shape(16, 16), []string{"[16 16]", "(bands, 16, 16)"}},
		"no band":                {Output{}, shape(0, 16, 16), []string{"[0 16 16]"}},
		"an output that is not set": {Output{}, func(context.Context, *Block) error { return nil },
			[]string{"block 0", `set no output "o"`}},
		"an unknown output": {Output{},
			func(_ context.Context, b *Block) error { Out[uint8](b, "p"); return nil },
			[]string{"block 0", `no output "p"`}},
		"an unknown input": {Output{},
			func(_ context.Context, b *Block) error { b.In("i"); return nil }, []string{"block 0", `no input "i"`}},
		"a nodata that does not fit": {Output{Nodata: "300"}, give(0, ndarray.Uint8, ndarray.Uint8),
			[]string{"output o", "nodata 300", "uint8"}},
		"a declared nodata that does not fit": {Output{Type: ndarray.Uint8, Nodata: "-1"}, nothing,
			[]string{"output o", "nodata -1", "uint8"}},
		"more band names than bands": {Output{LayerNames: []string{"a", "b"}},
			give(0, ndarray.Uint8, ndarray.Uint8), []string{"output o", "2 band names", "1 band"}},
		"a predictor for floats only": {Output{Predictor: 3}, give(0, ndarray.Uint8, ndarray.Uint8),
			[]string{"predictor 3", "uint8"}},
		"a function's own error": {Output{},
			func(context.Context, *Block) error { return errors.New("my reason") }, []string{"block 0", "my reason"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := blockJob(t, c.out, c.f)
			err := failRun(t, job, c.want...)
			t.Log(err)
			noTracesBut(t, err, filepath.Dir(job.Outputs["o"].Path), job.Outputs)
		})
	}
}

func TestFunctionPanic(t *testing.T) {
	job := blockJob(t, Output{}, func(_ context.Context, b *Block) error {
		if b.Number == 3 {
			var none []int
			none[b.Number]++
		}
		Out[uint8](b, "o")
		return nil
	})
	err := failRun(t, job, "block 3", "panicked", "index out of range")
	var p *outcome.PanicError
	if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "types_test.go") {
		t.Errorf("%T", err)
	}
}

func TestBlockMisusePanics(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "a.tif"), mapGrid(20, 20, 0, 0), terrain[uint8](20, 20, 1), nil)
	for want, f := range map[string]func(b *Block){
		"Slice[uint16] of an array of uint8": func(b *Block) { Band[uint16](b, "a", 1) },
		`band 2 of input "a"`:                func(b *Block) { Band[uint8](b, "a", 2) },
		`band 0 of input "a"`:                func(b *Block) { Band[uint8](b, "a", 0) },
		`input "l" is a list: use InList`:    func(b *Block) { b.In("l") },
		`band 4 of input "a"`:                func(b *Block) { b.Nodata("a", 4) },
		`there is no input "z"`:              func(b *Block) { b.Valid("z") },
	} {
		failRun(t, Job{Inputs: map[string]Input{"a": File(path), "l": Files(path)},
			Func: func(_ context.Context, b *Block) error { f(b); return nil }}, want)
	}
}

func TestTypeOfFirstBlock(t *testing.T) {
	for _, typ := range []ndarray.DType{ndarray.Uint8, ndarray.Int8, ndarray.Uint16, ndarray.Int16, ndarray.Uint32,
		ndarray.Int32, ndarray.Uint64, ndarray.Int64,
		ndarray.Float16, ndarray.Float32, ndarray.Float64, ndarray.Complex64, ndarray.Complex128} {
		t.Run(typ.String(), func(t *testing.T) {
			job := blockJob(t, Output{Nodata: "3"}, func(_ context.Context, b *Block) error {
				a := b.NewOut(typ, 3)
				clear(a.Raw())
				b.SetOut("o", a)
				return nil
			})
			res := mustRun(t, job)
			info := open(t, job.Outputs["o"].Path).Info()
			wide := typ
			if typ == ndarray.Float16 {
				wide = ndarray.Float32
			}
			if len(info.Bands) != 3 || info.Bands[2].Type != wide || info.Bands[0].NodataText != "3" ||
				res.Outputs[0].Type != typ {
				t.Errorf("%d bands of %v, nodata %s", len(info.Bands), info.Bands[0].Type, info.Bands[0].NodataText)
			}
		})
	}
}

func TestOutputIsInputArray(t *testing.T) {
	const w, h = 90, 70
	dir := t.TempDir()
	px := terrain[int16](w, h, 1)
	path := write(t, filepath.Join(dir, "a.tif"), mapGrid(w, h, 0, 0), px, nil)
	outs := map[string]Output{}
	for _, n := range []string{"same", "own", "rows"} {
		outs[n] = Output{Path: filepath.Join(dir, n+".tif"), TileSize: 32}
	}
	mustRun(t, Job{Inputs: map[string]Input{"a": File(path)}, Outputs: outs,
		Controls: Controls{Overlap: 3, WindowWidth: 32, WindowHeight: 32}, Concurrency: Concurrency{Workers: 4},
		Func: func(_ context.Context, b *Block) error {
			b.SetOut("same", b.In("a"))
			b.SetOut("own", cut(px, w, h, b.Window))
			// Rows with gaps, in memory of the function.
			wide := ndarray.New(ndarray.Int16, 1, b.Rows(), b.Columns()+5)
			for y := range b.Rows() {
				copy(ndarray.Slice[int16](wide.At(0).At(y)), ndarray.Slice[int16](b.In("a").At(0).At(y)))
			}
			wide.Shape[2] = b.Columns()
			b.SetOut("rows", wide)
			return nil
		}})
	for n, o := range outs {
		samePixels(t, n, w, pixels[int16](t, o.Path), px)
	}
}
