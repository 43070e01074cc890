package gdal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTableWithoutGeometries(t *testing.T) {
	needGDAL(t)
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("name,value\na,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := vectorGrid()
	for _, named := range []bool{true, false} {
		if !named {
			g.CRS.Code = ""
		}
		if _, err := CheckVector(t.Context(), VectorRequest{Path: path},
			g); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "no geometries") {
			t.Errorf("a grid with a system %v: %v", named, err)
		}
	}
}
