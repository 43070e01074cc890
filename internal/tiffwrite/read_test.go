package tiffwrite

import (
	"bytes"
	"maps"
	"path/filepath"
	"testing"

	"leat/internal/geotiff"
	"leat/ndarray"
	"leat/raster"
)

// readBack compares a written picture with what Open reads.
func readBack(t *testing.T, p *picture) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.tif")
	p.write(t, path, 9)
	f, err := geotiff.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &p.spec
	bands := make([]int, s.Bands)
	for i := range bands {
		bands[i] = i + 1
	}
	for level := range p.pixels {
		var src raster.Source = f
		if level > 0 {
			if src, err = f.Overview(level - 1); err != nil {
				t.Fatal(err)
			}
		}
		z := s.Size(level)
		w := raster.Window{Width: z.Width, Height: z.Height}
		got := ndarray.New(s.Type, s.Bands, z.Height, z.Width)
		if err := src.Read(t.Context(), bands, w, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Raw(), p.pixels[level]) {
			t.Fatalf("%v %v: level %d is read as other pixels", s.Type, s.Coding, level)
		}
	}
}

func TestWriteReadRoundTrip(t *testing.T) {
	for i, s := range layouts() {
		readBack(t, newPicture(s, uint64(i)))
	}
	for typ := ndarray.Uint8; typ <= ndarray.Complex128; typ++ {
		if typ == ndarray.Float16 || typ.IsComplex() {
			continue // Read returns another type
		}
		for _, c := range compressionNames() {
			for _, coding := range Candidates(typ, c) {
				readBack(t, newPicture(FileSpec{Width: 90, Height: 70, Bands: 2, Type: typ, TileWidth: 32,
					TileHeight: 48, Coding: coding,
					PixelInterleave: c == Deflate}, 3))
			}
		}
	}
}

func TestMetadataRoundTrip(t *testing.T) {
	nodata := ndarray.ScalarOf(float32(-3.4e38))
	p := newPicture(FileSpec{Width: 50, Height: 40, Bands: 2, Type: ndarray.Float32, TileWidth: 16, TileHeight: 16,
		Nodata: &nodata,
		Grid: raster.Grid{HasTransform: true, PixelIsPoint: true,
			Transform: raster.Transform{0.1, 1.0 / 3, 0, 7, 0, -1.0 / 3}, CRS: raster.CRS{Code: "EPSG:32631"}},
		BandInfo: []raster.Band{
			{Name: "a<&amp;\"é", Scale: 0.1, Offset: -3, Unit: "m²",
				Metadata: map[string]string{"STATISTICS_MEAN": "1.5", "<": "&lt;"}},
			{Name: "b", Scale: 1, Color: raster.ColorAlpha}},
		Metadata: map[string]string{"x": " y\n"}, Domains: map[string]map[string]string{"D": {"k": "v"}}}, 1)
	path := filepath.Join(t.TempDir(), "out.tif")
	p.write(t, path, 1)
	f, err := geotiff.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	i, s := f.Info(), &p.spec
	if i.Grid.Transform != s.Grid.Transform || !i.Grid.PixelIsPoint || i.Grid.CRS.Code != "EPSG:32631" {
		t.Errorf("the grid is read as %+v", i.Grid)
	}
	for n, b := range i.Bands {
		w := s.BandInfo[n]
		if b.Name != w.Name || b.Scale != w.Scale || b.Offset != w.Offset || b.Unit != w.Unit || !maps.Equal(b.Metadata,
			w.Metadata) {
			t.Errorf("band %d is read as %+v", n+1, b)
		}
		if b.Nodata == nil || *b.Nodata != nodata {
			t.Errorf("the nodata of band %d is read as %v", n+1, b.Nodata)
		}
	}
	if i.AlphaBand() != 2 {
		t.Errorf("the alpha band is read as %d", i.AlphaBand())
	}
	for k, v := range s.Metadata {
		if i.Metadata[k] != v {
			t.Errorf("item %s is read as %q", k, i.Metadata[k])
		}
	}
	if !maps.Equal(i.Domains["D"], s.Domains["D"]) {
		t.Errorf("the domain is read as %v", i.Domains)
	}
}
