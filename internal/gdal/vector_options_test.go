package gdal

import (
	"path/filepath"
	"testing"
)

func TestUnknownOpenOptions(t *testing.T) {
	need(t, "GTiff")
	path := filepath.Join(t.TempDir(), "a.csv")
	writeFile(t, path, "lon,lat\n3,50\n")
	g := vectorGrid()
	g.CRS.Code = ""
	for options, words := range map[[2]string][]string{
		{"X_POSSIBLE_NAMES=lon", "y_possible_names=lat"}: nil,
		{"X_POSSIBLE_NAMES=lon", "Y_POSIBLE_NAMES=lat"}: {path, "no open option Y_POSIBLE_NAMES",
			"Y_POSSIBLE_NAMES"},
		{"X_POSSIBLE_NAMES=lon", "AUTODETECT_TYPE=SOMETIMES"}: {path, "AUTODETECT_TYPE", "SOMETIMES", "YES or NO"},
	} {
		_, err := CheckVector(t.Context(), VectorRequest{Path: path, OpenOptions: options[:]}, g)
		if words == nil {
			if err != nil {
				t.Error(options, err)
			}
			continue
		}
		holds(t, err, words...)
	}
}
