package gdal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"leat/internal/pytest"

	"github.com/google/go-cmp/cmp"
)

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadAttributeTables(t *testing.T) {
	need(t, "HFA")
	const script = `import json, sys
from osgeo import gdal
gdal.UseExceptions()
directory = json.load(sys.stdin)
rat = gdal.RasterAttributeTable()
for name, typ, use in (("Value", gdal.GFT_Integer, gdal.GFU_MinMax), ("Histogram", gdal.GFT_Real, gdal.GFU_PixelCount), ("Class_Names", gdal.GFT_String, gdal.GFU_Name), ("More", gdal.GFT_Integer, gdal.GFU_Generic)):
    rat.CreateColumn(name, typ, use)
rat.SetRowCount(3)
for i, (n, w) in enumerate(((5, "water"), (7.5, "forest"), (0, "\u00fcbrig"))):
    rat.SetValueAsInt(i, 0, i); rat.SetValueAsDouble(i, 1, n)
    rat.SetValueAsString(i, 2, w); rat.SetValueAsInt(i, 3, -i)
for name, driver in (("a.img", "HFA"), ("a.tif", "GTiff")):
    ds = gdal.GetDriverByName(driver).Create(directory + "/" + name, 4, 4, 2)
    ds.GetRasterBand(1).SetDefaultRAT(rat)
    if driver == "GTiff":
        ds.GetRasterBand(2).SetCategoryNames(["none", "one", "two"])
    ds = None
print("null")`
	dir := t.TempDir()
	pytest.Run(t, []string{"osgeo.gdal"}, script, dir, nil)
	f := open(t, filepath.Join(dir, "a.tif"))
	table, err := f.AttributeTable(1)
	if err != nil {
		t.Fatal(err)
	}
	want := &AttributeTable{[]Column{
		{Name: "Value", Usage: "value", Ints: []int32{0, 1, 2}},
		{Name: "Histogram", Usage: "count", Floats: []float64{5, 7.5, 0}},
		{Name: "Class_Names", Usage: "name", Texts: []string{"water", "forest", "übrig"}},
		{Name: "More", Usage: "generic", Ints: []int32{0, -1, -2}}}}
	if d := cmp.Diff(want, table); d != "" {
		t.Error(d)
	}
	if none, err := f.AttributeTable(2); none != nil || err != nil {
		t.Errorf("band 2 has a table: %v (%v)", none, err)
	}
	if names, err := f.Categories(2); err != nil || !slices.Equal(names, []string{"none", "one", "two"}) {
		t.Errorf("categories %q (%v)", names, err)
	}
	if names, err := f.Categories(1); err != nil || names != nil {
		t.Errorf("categories of band 1: %q (%v)", names, err)
	}
	if h, err := f.Histogram(1); h != nil || err != nil {
		t.Errorf("a histogram: %v (%v)", h, err)
	}
	for _, band := range []int{0, 3} {
		if _, err := f.AttributeTable(band); err == nil {
			t.Errorf("the table of band %d of 2: no error", band)
		}
	}
	table, err = open(t, filepath.Join(dir, "a.img")).AttributeTable(1)
	if err != nil || table == nil {
		t.Fatal(table, err)
	}
	named := slices.IndexFunc(table.Columns, func(c Column) bool { return c.Usage == "name" })
	if named < 0 || !slices.Equal(table.Columns[named].Texts, []string{"water", "forest", "übrig"}) {
		t.Errorf("HFA: %+v", table)
	}
}
