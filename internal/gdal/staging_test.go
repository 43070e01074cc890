package gdal

import (
	"os"
	"path/filepath"
	"testing"

	"leat/ndarray"
	"leat/raster"
)

func TestOldSidecarsAreRemoved(t *testing.T) {
	need(t, "PNG", "EHdr")
	for name, spec := range map[string]*Spec{
		"a.png": {Driver: "PNG", Options: []string{"WORLDFILE=YES"}, Grid: utm(20, 20), Bands: 1, Type: ndarray.Uint8},
		"a.bil": {Driver: "EHdr", Grid: utm(20, 20), Bands: 1, Type: ndarray.Uint8,
			BandInfo: []raster.Band{{Colors: []raster.RGBA{{R: 255, A: 255}}}}},
	} {
		path := write(t, name, spec, noise(ndarray.Uint8, 1, 20, 20))
		worldFile := filepath.Join(filepath.Dir(path), "ab.wld")
		if err := os.WriteFile(worldFile, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if f := open(t, path).Info(); !f.Grid.HasTransform || spec.BandInfo != nil && f.Bands[0].Colors == nil {
			t.Fatalf("%s: %+v", name, f)
		}
		plain := &Spec{Driver: spec.Driver, Grid: raster.Grid{Width: 20, Height: 20, Transform: raster.Identity},
			Bands: 1, Type: ndarray.Uint8}
		w, err := Create(path, plain)
		if err != nil {
			t.Fatal(err)
		}
		if err := writeAll(t, w, noise(ndarray.Uint8, 1, 20, 20)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f := open(t, path).Info(); f.Grid.HasTransform || !f.Grid.CRS.IsZero() || f.Bands[0].Colors != nil {
			t.Errorf("%s has something of the old one: %+v", name, f)
		}
		if _, err := os.Stat(worldFile); err != nil {
			t.Errorf("what belongs to something else is gone: %v", err)
		}
	}
}

func TestCopySpace(t *testing.T) {
	need(t, "PNG")
	const width = 20000
	path := filepath.Join(t.TempDir(), "a.png")
	w, err := Create(path, &Spec{Driver: "PNG", Grid: utm(width, 2), Bands: 1, Type: ndarray.Uint8})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeAll(t, w, noise(ndarray.Uint8, 1, 2, width)); err != nil {
		t.Fatal(err)
	}
	onThread(func() { c.GDALFlushCache(w.h) })
	if n, err := sizeOf(w.staged.scratch()); err != nil || n > 20*width {
		t.Errorf("%d bytes are taken, %v", n, err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}
