package tiffwrite

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"leat/internal/pytest"
	"leat/ndarray"
	"leat/raster"
)

const (
	wgs84 = `GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,AUTHORITY["EPSG","7030"]],AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4326"]]`
	egm96 = `VERT_CS["EGM96 height",VERT_DATUM["EGM96 geoid",2005,AUTHORITY["EPSG","5171"]],UNIT["metre",1],AXIS["Gravity-related height",UP],AUTHORITY["EPSG","5773"]]`
)

// geographicWKT returns a geographic system on a custom ellipsoid.
func geographicWKT(spheroid, meridian, more string) string {
	return `GEOGCS["unknown",DATUM["Unknown based on ` + spheroid + `",SPHEROID[` + spheroid + `]` + more +
		`],PRIMEM[` + meridian + `],UNIT["degree",0.0174532925199433,AUTHORITY["EPSG","9122"]]]`
}

func projectedWKT(base, method, unit, axes string, parameters map[string]float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, `PROJCS["a system",%s,PROJECTION["%s"]`, base, method)
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		fmt.Fprintf(&b, `,PARAMETER["%s",%v]`, name, parameters[name])
	}
	return b.String() + "," + unit + axes + "]"
}

func TestGDALReadsCRSOfWKT(t *testing.T) {
	const metre, foot = `UNIT["metre",1]`, `UNIT["Foot_US",0.304800609601219,AUTHORITY["EPSG","9003"]]`
	sphere := strings.ReplaceAll(geographicWKT(`"Sphere",6371007.181,0`, `"Greenwich",0`, ""),
		`Unknown based on "Sphere",6371007.181,0`, "unknown")
	clarke := strings.ReplaceAll(geographicWKT(`"Clarke 1880 (IGN).",6378249.2,293.466021293627`, `"Paris",2.33722917`,
		""), `Unknown based on "Clarke 1880 (IGN).",6378249.2,293.466021293627`, "unknown")
	shifted := `GEOGCS["unknown",DATUM["Unknown using towgs84=-87,-98,-121",SPHEROID["International 1924",6378388,297],TOWGS84[-87,-98,-121,0,0,0,0]],PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]]`
	values := map[string]float64{"latitude_of_origin": 41.5, "central_meridian": 9.25, "longitude_of_center": -96,
		"latitude_of_center": 40.5, "standard_parallel_1": 25,
		"standard_parallel_2": 60, "scale_factor": 0.9996, "false_easting": 500000, "false_northing": -12345.5}
	systems := map[string]string{
		"longitude and latitude": sphere,
		"another meridian":       clarke,
		"a shift": projectedWKT(shifted, "Transverse_Mercator", foot, "",
			map[string]float64{"latitude_of_origin": 1, "central_meridian": 9, "scale_factor": 0.9996,
				"false_easting": 1640416.66666667, "false_northing": 0}),
		"a code": wgs84,
		"MODIS": projectedWKT(strings.ReplaceAll(sphere, `"unknown"`,
			`"Not specified (based on custom spheroid)"`), "Sinusoidal", metre, "",
			map[string]float64{"longitude_of_center": 0, "false_easting": 0, "false_northing": 0}),
		"ESRI:102422": strings.TrimSuffix(projectedWKT(wgs84, "Equirectangular", metre,
			`,AXIS["Easting",EAST],AXIS["Northing",NORTH]`,
			map[string]float64{"standard_parallel_1": 41.12682127, "central_meridian": 0, "false_easting": 0,
				"false_northing": 0}), "]") + `,AUTHORITY["ESRI","102422"]]`,
		"south pole": projectedWKT(wgs84, "Polar_Stereographic", metre,
			`,AXIS["Easting",NORTH],AXIS["Northing",NORTH]`,
			map[string]float64{"latitude_of_origin": -71, "central_meridian": 0, "false_easting": 0,
				"false_northing": 0}),
		"north pole": projectedWKT(wgs84, "Polar_Stereographic", metre, "",
			map[string]float64{"latitude_of_origin": 90, "central_meridian": 0, "scale_factor": 0.994,
				"false_easting": 2000000, "false_northing": 2000000}),
		"heights": `COMPD_CS["both",` + wgs84 + "," + egm96 + `]`,
		"heights without code": `COMPD_CS["both",` + projectedWKT(clarke, "Lambert_Conformal_Conic_1SP", metre, "",
			map[string]float64{"latitude_of_origin": 46.5, "central_meridian": 0, "scale_factor": 0.99987742,
				"false_easting": 600000, "false_northing": 2200000}) + "," + egm96 + `]`,
	}
	for method, p := range projections {
		parameters := map[string]float64{}
		for name := range p.keys {
			if _, optional := p.fixed[name]; !optional {
				parameters[name] = values[name]
			}
		}
		systems[method] = projectedWKT(wgs84, method, metre, "", parameters)
		systems[method+" of feet"] = projectedWKT(sphere, method, foot, "", parameters)
	}
	for _, code := range []int{2154, 4037, 4048, 4326, 5324, 9311, 32631} {
		systems[fmt.Sprintf("EPSG:%d", code)] = fmt.Sprintf("EPSG:%d", code)
	}
	dir := t.TempDir()
	files := map[string]string{}
	for name, text := range systems {
		g := raster.Grid{HasTransform: true, Transform: raster.Transform{0, 1, 0, 0, 0, -1}, CRS: raster.CRS{WKT: text}}
		if strings.HasPrefix(text, "EPSG:") {
			g.CRS = raster.CRS{Code: text}
		}
		spec := FileSpec{Width: 20, Height: 20, Bands: 1, Type: ndarray.Uint8, TileWidth: 32, TileHeight: 32,
			Coding: defaultCoding(ndarray.Uint8, Deflate), Grid: g}
		if err := spec.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		path := newPicture(spec, 1).describe(t, dir, strings.ReplaceAll(name, ":", "_"), 1).Path
		files[path] = text
		first, _ := geoKeys(g)
		if again, _ := geoKeys(g); !slices.Equal(first.Doubles, again.Doubles) || first.ASCII != again.ASCII {
			t.Errorf("%s: two calls return different keys", name)
		}
	}
	checkSystems(t, dir, files)
}

func checkSystems(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	python := pytest.Python(t, "osgeo.gdal")
	list, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "systems.json")
	if err := os.WriteFile(name, list, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(python, filepath.Join("testdata", "check_crs.py"), name).CombinedOutput()
	if err != nil || !strings.Contains(string(out), fmt.Sprintf("%d systems checked", len(files))) {
		t.Fatalf("%s\n%v", out, err)
	}
}

func TestCRSWithoutGeoKeys(t *testing.T) {
	utm := map[string]float64{"latitude_of_origin": 0, "central_meridian": 3, "scale_factor": 0.9996,
		"false_easting": 500000, "false_northing": 0}
	less := maps.Clone(utm)
	delete(less, "scale_factor")
	more := maps.Clone(utm)
	more["azimuth"] = 3
	const metre = `UNIT["metre",1]`
	for name, c := range map[string]raster.CRS{
		"a vertical code":       {Code: "EPSG:5773"},
		"a compound code":       {Code: "EPSG:5498"},
		"a geocentric code":     {Code: "EPSG:4978"},
		"a code of ESRI":        {Code: "ESRI:102001"},
		"a code of nothing":     {Code: "EPSG:1"},
		"no WKT":                {WKT: "hello"},
		"half a WKT":            {WKT: wgs84[:len(wgs84)-1]},
		"much behind":           {WKT: wgs84 + "]"},
		"many brackets":         {WKT: strings.Repeat("A[", 1e5)},
		"no projection":         {WKT: `PROJCS["a",` + wgs84 + `,UNIT["metre",1]]`},
		"an unknown projection": {WKT: projectedWKT(wgs84, "Geostationary_Satellite", metre, "", utm)},
		"a missing parameter":   {WKT: projectedWKT(wgs84, "Transverse_Mercator", metre, "", less)},
		"a strange parameter":   {WKT: projectedWKT(wgs84, "Transverse_Mercator", metre, "", more)},
		"a latitude": {WKT: projectedWKT(wgs84, "Mercator_1SP", metre, "",
			map[string]float64{"latitude_of_origin": 40, "central_meridian": 0, "scale_factor": 1, "false_easting": 0,
				"false_northing": 0})},
		"an unknown unit": {WKT: projectedWKT(wgs84, "Transverse_Mercator", `UNIT["pace",0.75]`, "", utm)},
		"other axes": {WKT: projectedWKT(wgs84, "Transverse_Mercator", metre,
			`,AXIS["W",WEST],AXIS["S",SOUTH]`, utm)},
		"an extension": {WKT: projectedWKT(wgs84, "Transverse_Mercator", metre,
			`,EXTENSION["PROJ4","+proj=etmerc"]`, utm)},
		"gradians": {WKT: strings.ReplaceAll(strings.ReplaceAll(wgs84, `,AUTHORITY["EPSG","4326"]`, ""),
			"0.0174532925199433", "0.015707963267949")},
		"heights without code": {WKT: `COMPD_CS["both",` + wgs84 +
			`,VERT_CS["mine",VERT_DATUM["mine",2005],UNIT["metre",1],AXIS["Up",UP]]]`, Code: "EPSG:4326"},
		"version 2": {WKT: `PROJCRS["a",BASEGEOGCRS["b"]]`},
	} {
		if k, err := geoKeys(raster.Grid{CRS: c}); err == nil {
			t.Errorf("%s: %v", name, k)
		}
	}
}

// The lists are of one version of EPSG's data set; newer versions have more codes.
func TestEPSGCodesEqualPROJ(t *testing.T) {
	const db = "/usr/share/proj/proj.db"
	if _, err := os.Stat(db); err != nil {
		t.Skipf("no data of PROJ: %v", err)
	}
	python := pytest.Python(t, "sqlite3")
	for _, c := range []struct{ list, query string }{
		{"geographic", "geodetic_crs where type = 'geographic 2D' and"}, {"projected", "projected_crs where"},
		{"vertical", "vertical_crs where"},
	} {
		out, err := exec.Command(python, "-c",
			`import sqlite3,sys; print(*(r[0] for r in sqlite3.connect(sys.argv[1]).execute("select code from " + sys.argv[2] + " auth_name = 'EPSG'")))`, db, c.query).CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%v", out, err)
		}
		known := map[string]bool{}
		for _, code := range strings.Fields(string(out)) {
			known[code] = true
		}
		n := 0
		for _, r := range epsgCodes()[c.list] {
			for code := r[0]; code <= r[1]; code++ {
				if n++; !known[fmt.Sprint(code)] {
					t.Errorf("PROJ does not know %d among %s", code, c.query)
				}
				if !epsgCodes()[c.list].has(code) {
					t.Fatalf("code %d not found", code)
				}
			}
		}
		if n < 200 {
			t.Errorf("%d codes", n)
		}
	}
}

func FuzzWKT(f *testing.F) {
	f.Add(`COMPD_CS["both",` + wgs84 + "," + egm96 + `]`)
	f.Add(`A["a ""quote""",(1.5),B(2)]`)
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := keysOfWKT(text); err == nil && len(k.Directory) < 8 {
			t.Errorf("%v", k)
		}
	})
}
