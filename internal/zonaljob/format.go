package zonaljob

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"leat/internal/gdal"
	"leat/internal/table"
)

// format is a format of the results: a table, or features that GDAL writes.
type format struct {
	name, ending string
	table        table.Format
	driver       string   // GDAL's name of a format of features; "" for a table
	sidecars     []string // suffixes of files that belong to an older output
}

// formats returns the formats.
func formats() (list []format) {
	for _, f := range table.Formats() {
		list = append(list, format{name: f.Name, ending: f.Ending, table: f})
	}
	return append(list, format{name: "GeoJSON", ending: ".geojson", driver: gdal.FormatGeoJSON},
		// SQLite would apply the journals of an older file to the new one.
		format{name: "GeoPackage", ending: ".gpkg", driver: gdal.FormatGeoPackage,
			sidecars: []string{"-journal", "-wal", "-shm"}})
}

// formatOf returns the format of a file by the ending of its name.
func formatOf(path string) (format, error) {
	ending := strings.ToLower(filepath.Ext(path))
	list := formats()
	i := slices.IndexFunc(list, func(f format) bool { return f.ending == ending })
	if i < 0 {
		return format{}, &FormatError{path}
	}
	return list[i], nil
}

// CheckPath returns a [FormatError] unless the name of a file has the ending of a format.
func CheckPath(path string) error {
	_, err := formatOf(path)
	return err
}

// FormatError is returned for an output whose name has the ending of no format.
type FormatError struct{ Path string }

func (e *FormatError) Error() string {
	var endings []string
	for _, f := range formats() {
		endings = append(endings, f.ending)
	}
	last := len(endings) - 1
	return fmt.Sprintf("%s: expected a name that ends in %s or %s", e.Path, strings.Join(endings[:last], ", "), endings[last])
}
