package main

import (
	"context"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"leat/apply"
	"leat/ndarray"
	"leat/raster"
)

// makeRaster writes a raster of hills, different in each band, the same at the same place of the
// common grid: EPSG:32631, 10 m pixels, its origin at x 500000, y 5000000.
func makeRaster(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: raster FILE WxH TYPE [KEY=VALUE]...")
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		ts.Check(err)
		return n
	}
	w, h, _ := strings.Cut(args[1], "x")
	typ, err := ndarray.ParseDType(args[2])
	ts.Check(err)
	bands, col, row, nodata := 1, 0, 0, ""
	for _, a := range args[3:] {
		key, v, _ := strings.Cut(a, "=")
		switch key {
		case "bands":
			bands = number(v)
		case "nodata":
			nodata = v
		case "at":
			c, r, _ := strings.Cut(v, ",")
			col, row = number(c), number(r)
		default:
			ts.Fatalf("raster knows no %s", key)
		}
	}
	grid := raster.Grid{Width: number(w), Height: number(h), HasTransform: true, CRS: raster.CRS{Code: "EPSG:32631"},
		Transform: raster.Transform{500000, 10, 0, 5000000, 0, -10}.Shift(col, row)}
	_, err = apply.Run(context.Background(), apply.Job{
		Outputs: map[string]apply.Output{"out": {Path: ts.MkAbs(args[0]), Nodata: nodata, NoOverviews: true,
			NoStatistics: true}},
		Controls: apply.Controls{Grid: &grid},
		Func: func(_ context.Context, b *apply.Block) error {
			a := b.NewOut(typ, bands)
			switch typ {
			case ndarray.Uint8:
				hills[uint8](a, b, col, row)
			case ndarray.Uint16:
				hills[uint16](a, b, col, row)
			case ndarray.Int16:
				hills[int16](a, b, col, row)
			case ndarray.Float32:
				hills[float32](a, b, col, row)
			default:
				ts.Fatalf("raster makes no %v", typ)
			}
			b.SetOut("out", a)
			return nil
		}})
	ts.Check(err)
}

// hills are between 0 and 200.
func hills[T ndarray.Real](a *ndarray.Array, b *apply.Block, col, row int) {
	for band := range a.Shape[0] {
		px := ndarray.Slice[T](a.At(band))
		for r := range b.Window.Height {
			for c := range b.Window.Width {
				x, y := float64(b.Window.Col+col+c), float64(b.Window.Row+row+r)
				v := 100 + 80*math.Sin(x/37+float64(band))*math.Cos(y/23) + math.Mod(x*7+y*13, 20)
				px[r*b.Window.Width+c] = T(v)
			}
		}
	}
}

func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate FILE BYTES")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.Chmod(ts.MkAbs(args[0]), 0o644)) // the real rasters are read-only
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// sameRasters compares the place and the pixels of two rasters, as GDAL reads them.
func sameRasters(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: same FILE FILE")
	}
	describe := func(path string) string {
		text, err := exec.Command("gdalinfo", "-checksum", ts.MkAbs(path)).Output()
		ts.Check(err)
		var lines []string
		for line := range strings.Lines(string(text)) {
			for _, key := range []string{"Size is", "Origin =", "Pixel Size =", "Checksum="} {
				if strings.Contains(line, key) {
					lines = append(lines, strings.TrimSpace(line))
				}
			}
		}
		if len(lines) < 4 {
			ts.Fatalf("gdalinfo %s:\n%s", path, text)
		}
		return strings.Join(lines, "\n")
	}
	if a, b := describe(args[0]), describe(args[1]); a != b {
		ts.Fatalf("%s:\n%s\n%s:\n%s", args[0], a, args[1], b)
	}
}
