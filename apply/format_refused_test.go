package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/ndarray"
)

func TestFormatsRejectedBeforeRun(t *testing.T) {
	t.Parallel()
	needFormat(t, "HFA", "PNG", "JPEG", "XYZ", "AAIGrid", "MRF", "PCRaster", "SGI")
	dir := t.TempDir()
	u8, f32 := ndarray.Uint8, ndarray.Float32
	for name, c := range map[string]struct {
		o     Output
		bands int
		want  []string
	}{
		"unknown": {Output{Path: "o.img", Format: "ERDAS", Type: u8}, 1,
			[]string{"output out", "no format ERDAS", "HFA"}},
		"misspelt":   {Output{Path: "o.nc", Format: "netcf", Type: u8}, 1, []string{"is it netCDF"}},
		"VRT":        {Output{Path: "o.vrt", Format: "vrt", Type: u8}, 1, []string{"holds no pixels"}},
		"read alone": {Output{Path: "o.x", Format: "ESAT", Type: u8}, 1, []string{"can't write", "ESAT"}},
		"an ending of another": {Output{Path: "o.img", Type: u8}, 1,
			[]string{"field Output.Format=HFA", "expected .tif"}},
		"a VRT's ending": {Output{Path: "o.vrt", Type: u8}, 1, []string{"holds no pixels"}},
		"GeoTIFF's ending": {Output{Path: "o.tif", Format: "HFA", Type: u8}, 1,
			[]string{"field Output.Format=GTiff", "whose ending is .img"}},
		"an ending of a third": {Output{Path: "o.png", Format: "HFA", Type: u8}, 1,
			[]string{"that of PNG, but the format is HFA", "field Output.Format=PNG", "whose ending is .img"}},
		"of a format without": {Output{Path: "o.jpeg", Format: "ENVI", Type: u8}, 1,
			[]string{"that of JPEG", "ENVI", "whose ending is .envi"}},
		"creation option": {Output{Path: "o.img", Format: "HFA", Options: []string{"COMPRESED=YES"}, Type: u8},
			1, []string{"no creation option COMPRESED", "COMPRESSED"}},
		"value of an option": {Output{Path: "o.png", Format: "PNG", Options: []string{"ZLEVEL=lots"}, Type: u8,
			Bands: 1}, 1, []string{"ZLEVEL"}},
		"type": {Output{Path: "o.png", Format: "PNG", Type: f32}, 1,
			[]string{"can't hold pixels of type float32", "uint16"}},
		"type of the first block": {Output{Path: "o.png", Format: "PNG", Nodata: "1"}, 1,
			[]string{"can't hold pixels of type float32"}},
		"bands":         {Output{Path: "o.png", Format: "PNG", Type: u8, Bands: 5}, 5, []string{"5 bands"}},
		"bands of JPEG": {Output{Path: "o.jpg", Format: "JPEG", Type: u8, Bands: 2}, 2, []string{"2 bands"}},
		"a COG":         {Output{Path: "o.img", Format: "HFA", Type: u8, COG: true}, 1, []string{"field Output.COG"}},
		"compression": {Output{Path: "o.img", Format: "HFA", Type: u8, Compression: "zstd", Predictor: 2,
			Level: 3}, 1, []string{"compression", "predictor", "level", "field Output.Options"}},
		"tiles": {Output{Path: "o.img", Format: "HFA", Type: u8, TileSize: 64, BigTIFF: true,
			PixelInterleave: true}, 1, []string{"tile size", "BigTIFF", "interleave"}},
		"histogram": {Output{Path: "o.img", Format: "HFA", Type: u8, HistAux: true}, 1,
			[]string{"sidecar with the histogram"}},
		"URL": {Output{Path: "s3://bucket/o.img", Format: "HFA", Type: u8}, 1,
			[]string{"local disk", "field Output.Format"}},
		"nodata": {Output{Path: "o.xyz", Format: "XYZ", Type: ndarray.Int32, Bands: 1, Nodata: "3"}, 1,
			[]string{"nodata value 3", "field Output.Nodata"}},
		"overviews": {Output{Path: "o.nc", Format: "netCDF", Type: f32, Bands: 1, Overviews: []int{2}}, 1,
			[]string{"overviews", "field Output.Overviews"}},
		"overviews of MRF": {Output{Path: "o.mrf", Format: "MRF", Type: u8, Bands: 1, Overviews: []int{2}}, 1,
			[]string{"overviews", "gdaladdo"}},
		"levels of COG": {Output{Path: "o.tif", Format: "COG", Type: f32, Bands: 1, Overviews: []int{2}}, 1,
			[]string{"its own"}},
		"colours": {Output{Path: "o.asc", Format: "AAIGrid", Type: u8, Bands: 1, Colors: palette()}, 1,
			[]string{"AAIGrid"}},
		"no name": {Output{Format: "HFA", Type: u8}, 1, []string{"no file is given"}},
		"options of GeoTIFF": {Output{Path: "o.tif", Options: []string{"COMPRESS=LZW"}, Type: u8}, 1,
			[]string{"Compression"}},
		"a NUL": {Output{Path: "o.img", Format: "HFA", Type: u8, Bands: 1,
			LayerNames: []string{"a\x00b"}}, 1, []string{"NUL"}},
		"a directory": {Output{Path: "folder.img", Format: "HFA", Type: u8, Bands: 1}, 1,
			[]string{"folder"}},
		"written wrongly by GDAL": {Output{Path: "o.fit", Format: "FIT", Type: ndarray.Int16, Bands: 2}, 2,
			[]string{"can't write", "FIT"}},
		"GDAL's crash": {Output{Path: "o.kml", Format: "KMLSUPEROVERLAY", Type: u8, Bands: 4}, 4,
			[]string{"can't write", "KMLSUPEROVERLAY"}},
		"bytes for PCRaster": {Output{Path: "o.map", Format: "PCRaster", Type: u8, Bands: 1}, 1,
			[]string{"0 and 1", "field Output.Type=int32"}},
		"too wide for SGI": {Output{Path: "o.rgb", Format: "SGI", Type: u8, Bands: 1}, -1, []string{"65535"}},
		"too wide":         {Output{Path: "o.jpg", Format: "JPEG", Type: u8, Bands: 1}, -1, []string{"65500"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.o
			if o.Path != "" && !strings.Contains(o.Path, "://") {
				o.Path = filepath.Join(dir, o.Path)
			}
			if name == "a directory" {
				if err := os.MkdirAll(filepath.Join(o.Path, "precious"), 0o700); err != nil {
					t.Fatal(err)
				}
				defer os.RemoveAll(o.Path)
			}
			grid := mapGrid(600, 600, 0, 0)
			if c.bands < 0 {
				grid.Width, c.bands = 70000, 1
			}
			calls := 0
			job := Job{Controls: Controls{Grid: &grid}, Outputs: map[string]Output{"out": o},
				Func: func(_ context.Context, b *Block) error {
					calls++
					b.SetOut("out", b.NewOut(f32, c.bands))
					return nil
				}}
			job.Concurrency.Workers = 1
			failRun(t, job, c.want...)
			if known := o.Type.Valid(); known && calls > 0 || calls > 1 {
				t.Errorf("%d blocks were computed", calls)
			}
			if name == "a directory" {
				return
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%v was left, %v", left, err)
			}
		})
	}
}

func TestFormatSampleErrors(t *testing.T) {
	needFormat(t, "BYN")
	path := filepath.Join(t.TempDir(), "o.byn")
	o := Output{Path: path, Format: "BYN", Type: ndarray.Int16, Bands: 1, NoOverviews: true}
	_, err := MakePlan(t.Context(), sliceJob(mapGrid(600, 600, 0, 0), terrain[int16](600, 600, 1), o))
	if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "leat-") {
		t.Errorf("the error is %v", err)
	}
}

func TestOutputsSharingFiles(t *testing.T) {
	needFormat(t, "ENVI")
	dir := t.TempDir()
	px := terrain[uint8](64, 64, 1)
	job := Job{Controls: Controls{Grid: gridOf(64, 64)}, Outputs: map[string]Output{
		"a": {Path: filepath.Join(dir, "x.dat"), Format: "ENVI", Type: ndarray.Uint8, Bands: 1},
		"b": {Path: filepath.Join(dir, "x.bin"), Format: "ENVI", Type: ndarray.Uint8, Bands: 1},
	}, Func: func(_ context.Context, b *Block) error {
		b.SetOut("a", cut(px, 64, 64, b.Window))
		b.SetOut("b", cut(px, 64, 64, b.Window))
		return nil
	}}
	failRun(t, job, "output b", "x.hdr", "output a")
}

func TestFormatKeepsForeignSidecars(t *testing.T) {
	needFormat(t, "ENVI")
	dir := t.TempDir()
	other := filepath.Join(dir, "x.hdr")
	if err := os.WriteFile(other, []byte("of x.bil"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []ndarray.DType{ndarray.Uint8, ndarray.NoType} {
		o := Output{Path: filepath.Join(dir, "x.dat"), Format: "ENVI", Type: typ}
		if typ.Valid() {
			o.Bands = 1
		}
		failRun(t, sliceJob(mapGrid(64, 64, 0, 0), terrain[uint8](64, 64, 1), o), "x.hdr", "belongs to another file")
		if string(fileBytes(t, other)) != "of x.bil" {
			t.Error("it was replaced")
		}
		if _, err := os.Stat(o.Path); err == nil {
			t.Error("there is an output")
		}
	}
}

func TestFormatNoClobber(t *testing.T) {
	needFormat(t, "ENVI")
	dir := t.TempDir()
	path := filepath.Join(dir, "x.dat")
	job := sliceJob(mapGrid(64, 64, 0, 0), terrain[uint8](64, 64, 1),
		Output{Path: path, Format: "ENVI", NoClobber: true})
	work := job.Func
	job.Func = func(ctx context.Context, b *Block) error { // another process is faster
		return errors.Join(os.WriteFile(path, []byte("theirs"), 0o600), work(ctx, b))
	}
	failRun(t, job, "created during the run", "field Output.NoClobber")
	if string(fileBytes(t, path)) != "theirs" {
		t.Error("it was replaced")
	}
	failRun(t, job, "exists", "field Output.NoClobber")
	if _, err := os.Stat(filepath.Join(dir, "x.hdr")); err == nil {
		t.Error("a part of the output was published")
	}
	if _, err := Discard(t.Context(), job.Outputs); err != nil {
		t.Fatal(err)
	}
	noFormatTraces(t, dir)
}
