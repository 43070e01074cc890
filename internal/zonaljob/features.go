package zonaljob

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"leat/internal/gdal"
	"leat/internal/table"
)

// checkFeatures returns an error for an output that would replace the zones, and for one of
// features that can't be written, before the zones are read.
func (r *run) checkFeatures() error {
	if r.o.Raster != nil && r.format.driver != "" {
		return fmt.Errorf("%s: the zones of a raster have no polygons, expected a name that ends in .csv or .parquet",
			r.o.Path)
	}
	zones, output := r.statZones(), statFile(r.o.Path)
	if zones != nil && output != nil && os.SameFile(zones, output) {
		return fmt.Errorf("%s: it is the file of the zones, expected another name", r.o.Path)
	}
	return nil
}

// statZones returns the file information of the zones, or nil if they are not in a regular file.
func (r *run) statZones() fs.FileInfo { return statFile(r.o.Zones.Path) }

func statFile(path string) fs.FileInfo {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	return st
}

// featureTypes are the types of columns. No format of features has unsigned 64-bit integers.
var featureTypes = map[table.Type]gdal.FeatureType{table.Int64: gdal.FeatureInteger, table.Float64: gdal.FeatureReal,
	table.Text: gdal.FeatureText}

// featureFile returns the description of an output of features.
func (r *run) featureFile() (*gdal.FeatureFile, error) {
	f := &gdal.FeatureFile{Driver: r.format.driver, Layer: "zones", Geometry: r.zones.geometry}
	names := map[string]string{}
	for _, c := range r.columns {
		typ, ok := featureTypes[c.Type]
		if !ok {
			return nil, jobErrorf("%s: the column %s has unsigned 64-bit integers, which %s can't hold, expected .csv or .parquet",
				r.o.Path, c.Name, r.format.name)
		}
		lower := strings.ToLower(c.Name)
		if first, again := names[lower]; again {
			return nil, jobErrorf("%s: the columns %s and %s have the same name in %s, which ignores case", r.o.Path, first, c.Name,
				r.format.name)
		}
		names[lower] = c.Name
		f.Columns = append(f.Columns, gdal.FeatureColumn{Name: c.Name, Type: typ})
	}
	return f, f.Check(r.o.Zones)
}

// writeFeatures writes the zones with their polygons, which it reads a second time.
func (r *run) writeFeatures(ctx context.Context, f *os.File) error {
	changed := fmt.Errorf("%s: the zones changed while their statistics were computed",
		cmp.Or(r.o.Zones.Name, r.o.Zones.Path))
	if !same(r.source, r.statZones()) {
		return changed
	}
	rows := r.newRows()
	i := 0
	err := r.features.Copy(ctx, r.o.Zones, f, func(fid int64) ([]any, error) {
		if i >= len(r.zones.fids) || r.zones.fids[i] != fid {
			return nil, changed
		}
		i++
		return rows.row(i - 1)
	})
	switch {
	case err != nil:
		return err
	case i < len(r.zones.fids), !same(r.source, r.statZones()):
		return changed
	}
	return nil
}

// same reports whether a file is unchanged. Both are nil if it is not a regular file.
func same(before, after fs.FileInfo) bool {
	if before == nil || after == nil {
		return before == nil && after == nil
	}
	return os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime())
}
