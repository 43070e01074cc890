package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply/internal/resolve"
	"leat/internal/gdal"
	"leat/raster"
)

const (
	nad83 = `GEOGCS["NAD83",DATUM["North_American_Datum_1983",SPHEROID["GRS 1980",6378137,298.257222101,AUTHORITY["EPSG","7019"]],AUTHORITY["EPSG","6269"]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4269"]]`
	mllw  = `VERT_CS["MLLW",VERT_DATUM["Mean Lower Low Water of the chart",2005],UNIT["metre",1],AXIS["Depth",DOWN]]`
)

func TestOutputCRSWithoutCode(t *testing.T) {
	t.Parallel()
	needGDAL(t)
	for name, c := range map[string]struct {
		text  string
		aside bool // the CRS is in .aux.xml
	}{
		"a code of ESRI": {"ESRI:102001", false},
		"a method that keys confuse with another": {"ESRI:102422", true},
		"heights above a datum without code":      {`COMPD_CS["NAD83 + MLLW",` + nad83 + "," + mllw + `]`, false},
		"a geostationary satellite": {`PROJCS["geos",` + nad83 +
			`,PROJECTION["Geostationary_Satellite"],PARAMETER["central_meridian",-75],PARAMETER["satellite_height",35786023],PARAMETER["false_easting",0],PARAMETER["false_northing",0],UNIT["metre",1]]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			crs, err := gdal.ParseCRS(c.text)
			if err != nil {
				t.Fatal(err)
			}
			grid := mapGrid(20, 20, 0, 0)
			grid.CRS = crs
			for _, aux := range []bool{false, true} {
				path := write(t, filepath.Join(t.TempDir(), "out.tif"), grid, make([]uint8, 400), func(o *Output) {
					o.HistAux, o.NoStatistics = aux, !aux
				})
				if _, err := os.Stat(path + ".aux.xml"); (err == nil) != (c.aside || aux) {
					t.Errorf("an .aux.xml: %v", err)
				}
				for _, open := range []func(string) (raster.Source, error){resolve.OpenRaster,
					func(path string) (raster.Source, error) { return gdal.Open(path, nil) }} {
					src, err := open(path)
					if err != nil {
						t.Fatal(err)
					}
					if got := src.Info().Grid.CRS; !gdal.SameCRS(raster.CRS{WKT: crs.WKT},
						raster.CRS{WKT: got.WKT, Keys: got.Keys}) {
						t.Errorf("%v became %v", crs.WKT, got)
					}
					src.Close()
				}
			}
		})
	}
}

func TestCRSOfSidecar(t *testing.T) {
	dir := t.TempDir()
	grid := mapGrid(20, 20, 0, 0)
	grid.CRS = raster.CRS{}
	in := write(t, filepath.Join(dir, "in.tif"), grid, make([]uint8, 400), nil)
	const sinusoidal = `PROJCS["MODIS Sinusoidal",GEOGCS["Unknown",DATUM["Not specified",SPHEROID["Custom spheroid",6371007.181,0]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],PROJECTION["Sinusoidal"],PARAMETER["longitude_of_center",0],PARAMETER["false_easting",0],PARAMETER["false_northing",0],UNIT["metre",1]]`
	if err := os.WriteFile(in+".aux.xml",
		[]byte("<PAMDataset><SRS>"+strings.ReplaceAll(sinusoidal, `"`, "&quot;")+"</SRS></PAMDataset>"),
		0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out.tif")
	mustRun(t, Job{Inputs: map[string]Input{"a": File(in)}, Outputs: map[string]Output{"out": {Path: out}},
		Expressions: map[string]string{"out": "a"}})
	src, err := resolve.OpenRaster(out)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if c := src.Info().Grid.CRS; c.Keys == nil || c.Name != "MODIS Sinusoidal" {
		t.Errorf("%+v", c)
	}
}

func TestUnwritableCRS(t *testing.T) {
	grid := mapGrid(20, 20, 0, 0)
	grid.CRS = raster.CRS{WKT: `PROJCS["half`}
	path := filepath.Join(t.TempDir(), "out.tif")
	_, err := MakePlan(t.Context(), sliceJob(grid, make([]uint8, 400), Output{Path: path}))
	wantError(t, err, "can't be written to a GeoTIFF", "not well-formed WKT")
}
