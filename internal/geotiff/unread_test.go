package geotiff

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnreadSidecarsWarn(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"ERDAS":             {"a.aux", "EHFA_HEADER_TAG\x00", "a.aux"},
		"ERDAS, whole name": {"a.tif.aux", "EHFA_HEADER_TAG\x00", "a.tif.aux"},
		"another file .aux": {"a.aux", `\relax % of LaTeX`, ""},
		"ArcGIS 9": {"a.tif.aux.xml",
			`<GeodataXform xsi:type="typens:PolynomialXform"><PolynomialOrder>1</PolynomialOrder></GeodataXform>`,
			"GeodataXform"},
		"ArcGIS 10": {"a.tif.aux.xml", `<PAMDataset><Metadata domain="xml:ESRI" format="xml">
<GeodataXform><PolynomialOrder>1</PolynomialOrder></GeodataXform></Metadata></PAMDataset>`, "GeodataXform"},
		"where GDAL does not look": {"a.tif.aux.xml", `<PAMDataset><GeodataXform/></PAMDataset>`, ""},
		"RPCs of GeoEye":           {"a_rpc.txt", "LINE_OFF: 1\n", "a_rpc.txt"},
		"RPCs of DigitalGlobe":     {"a.RPB", "satId = \"WV02\";\n", "a.RPB"},
		"statistics":               {"a.tif.aux.xml", `<PAMDataset><PAMRasterBand band="1"/></PAMDataset>`, ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.tif")
		if err := os.WriteFile(path, little(nil, make([]byte, 32)), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), c.file), []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(f.Info().Warnings, "; ")
		f.Close()
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: warnings %q", name, got)
		}
	}
}
