package gdal

import (
	"bytes"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"leat/internal/geotiff"
	"leat/ndarray"
	"leat/raster"
)

func TestCRSFromAnySource(t *testing.T) {
	need(t, "HFA", "ENVI", "AAIGrid", "GTiff")
	// From a GeoTIFF, from ESRI's text and from GDAL's text.
	sinusoidal := `PROJCS["MODIS Sinusoidal",GEOGCS["Unknown",DATUM["Unknown",SPHEROID["Sphere",6371007.181,0]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Sinusoidal"],PARAMETER["longitude_of_center",0],PARAMETER["false_easting",0],PARAMETER["false_northing",0],UNIT["metre",1]]`
	for _, c := range []struct {
		name string
		crs  raster.CRS
		code string
	}{
		{"UTM", raster.CRS{Code: "EPSG:32631"}, "EPSG:32631"},
		{"longitude and latitude", raster.CRS{Code: "EPSG:4326"}, "EPSG:4326"},
		{"Mercator", raster.CRS{Code: "EPSG:3857"}, "EPSG:3857"},
		{"no code", raster.CRS{WKT: sinusoidal}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var first raster.CRS
			for n, f := range []struct{ name, driver string }{{"a.tif", "GTiff"}, {"a.png", "PNG"}, {"a.img", "HFA"},
				{"a.dat", "ENVI"}} {
				g := utm(5, 5)
				g.CRS = c.crs
				i := open(t, write(t, f.name, &Spec{Driver: f.driver, Grid: g, Bands: 1, Type: ndarray.Uint8},
					ndarray.New(ndarray.Uint8, 1, 5, 5))).Info()
				got := i.Grid.CRS
				if got.Code != c.code || got.WKT == "" || got.Keys == nil || got.Name == "" {
					t.Errorf("%s: %+v", f.driver, got)
				}
				if n == 0 {
					first = got
				}
				// HFA and ENVI add items to CRSs that they store as parameters only, such as a zero
				// shift to WGS 84.
				if whole := f.driver != "HFA" && f.driver != "ENVI"; (whole || c.code != "") && !got.Equal(first) {
					t.Errorf("%s: %v is not %v\n%v\n%v", f.driver, got, first, got.Keys, first.Keys)
				}
				if i.Grid.Transform != g.Transform {
					t.Errorf("%s: transform %v", f.driver, i.Grid.Transform)
				}
			}
			// Written again from its keys alone, it is the same.
			g := utm(5, 5)
			g.CRS = raster.CRS{Keys: first.Keys}
			if again := open(t, write(t, "b.tif", &Spec{Driver: "GTiff", Grid: g, Bands: 1, Type: ndarray.Uint8},
				ndarray.New(ndarray.Uint8, 1, 5, 5))).Info().Grid.CRS; !again.Equal(first) {
				t.Errorf("by its keys: %v is not %v", again, first)
			}
		})
	}
}

func TestESRITextHasCode(t *testing.T) {
	need(t, "AAIGrid")
	dir := t.TempDir()
	grid := "ncols 2\nnrows 2\nxllcorner 500000\nyllcorner 5200000\ncellsize 10\nNODATA_value -9999\n1 2\n3 -9999\n"
	esri := `PROJCS["WGS_1984_UTM_Zone_31N",GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984",SPHEROID["WGS_1984",6378137.0,298.257223563]],PRIMEM["Greenwich",0.0],UNIT["Degree",0.0174532925199433]],PROJECTION["Transverse_Mercator"],PARAMETER["False_Easting",500000.0],PARAMETER["False_Northing",0.0],PARAMETER["Central_Meridian",%s],PARAMETER["Scale_Factor",0.9996],PARAMETER["Latitude_Of_Origin",0.0],UNIT["Meter",1.0]]`
	for meridian, code := range map[string]string{"3.0": "EPSG:32631", "3.5": ""} {
		path := filepath.Join(dir, "a"+strings.ReplaceAll(meridian, ".", "-")+".asc")
		writeFile(t, path, grid)
		writeFile(t, strings.TrimSuffix(path, ".asc")+".prj", strings.Replace(esri, "%s", meridian, 1))
		f := open(t, path)
		if got := f.Info().Grid.CRS; got.Code != code || got.WKT == "" {
			t.Errorf("meridian %s: %+v", meridian, got)
		}
	}
}

func TestCRSTextOnAllThreads(t *testing.T) {
	need(t, "GTiff")
	path := write(t, "a.tif", &Spec{Driver: "GTiff", Grid: utm(5, 5), Bands: 1, Type: ndarray.Uint8},
		ndarray.New(ndarray.Uint8, 1, 5, 5))
	var mu sync.Mutex
	var texts []string
	for n := range 3 {
		var wg sync.WaitGroup
		wg.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with its goroutine
			if n == 1 {
				s := c.OSRNewSpatialReference("")
				c.OSRSetFromUserInput(s, "EPSG:32631")
				c.OSRDestroySpatialReference(s)
			}
			f, err := Open(path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			mu.Lock()
			defer mu.Unlock()
			texts = append(texts, f.Info().Grid.CRS.WKT)
		})
		wg.Wait()
	}
	if len(slices.Compact(texts)) != 1 {
		t.Errorf("texts %q", texts)
	}
}

func TestVerticalCRSCode(t *testing.T) {
	need(t, "GTiff")
	g := utm(5, 5)
	g.CRS = raster.CRS{Code: "EPSG:9518"} // WGS 84 with heights above EGM2008
	i := open(t, write(t, "a.tif", &Spec{Driver: "GTiff", Grid: g, Bands: 1, Type: ndarray.Uint8},
		ndarray.New(ndarray.Uint8, 1, 5, 5))).Info()
	if i.Grid.CRS.Code != "EPSG:4326" || !strings.Contains(i.Grid.CRS.WKT, "VERT") {
		t.Errorf("%+v", i.Grid.CRS)
	}
}

func TestFileOfGeoKeys(t *testing.T) {
	keys := &raster.GeoKeys{Directory: []uint16{1, 1, 0, 2, 1024, 0, 1, 1, 1025, 0, 1, 1, 7}, Doubles: []float64{1, 2},
		ASCII: "text|"}
	b, err := fileOfKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	f, err := geotiff.OpenAt(bytes.NewReader(b), int64(len(b)), "keys.tif", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := f.Info().Grid.CRS.Keys
	if got == nil || !slices.Equal(got.Directory, keys.Directory[:12]) || !slices.Equal(got.Doubles, keys.Doubles) ||
		got.ASCII != keys.ASCII {
		t.Errorf("%+v", got)
	}
}
