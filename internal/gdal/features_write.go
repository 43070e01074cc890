package gdal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// FeatureFile describes a file of features that have the geometries of a source and attributes of
// their own. [FeatureFile.Copy] writes it.
type FeatureFile struct {
	Driver  string // FormatGeoPackage or FormatGeoJSON
	Layer   string
	Columns []FeatureColumn
	// Geometry is the type of all geometries as WKB numbers it, without dimensions; 0 if they have
	// several types.
	Geometry uint32
}

// GDAL's names of the formats of a FeatureFile.
const (
	FormatGeoPackage = "GPKG"    // features are in the CRS of the source
	FormatGeoJSON    = "GeoJSON" // in WGS 84, by RFC 7946
)

// FeatureColumn is an attribute of a FeatureFile.
type FeatureColumn struct {
	Name string
	Type FeatureType
}

// FeatureType is the type of an attribute's values.
type FeatureType int32

const (
	FeatureInteger FeatureType = ofInteger64 // int64
	FeatureReal    FeatureType = ofReal      // float64
	FeatureText    FeatureType = ofString    // string
)

const (
	ofString = 4
	noFID    = -1 // OGRNullFID
)

// Check returns the errors that Copy would return before it reads a feature of r. It creates an
// empty file in memory.
func (o *FeatureFile) Check(r VectorRequest) error {
	return o.withSource(r, func(l hLayer) error {
		path := fmt.Sprintf("/vsimem/leat-features-%d%s", serial.Add(1), o.ending())
		defer onThread(func() { c.VSIUnlink(path) })
		w, err := o.create(r, l, path, o.Driver)
		if err != nil {
			return err
		}
		return w.close()
	})
}

// Copy reads the features of r's layer in the order of the source and writes them with their
// geometries to an empty file. row returns the values of the columns of a feature: nil, int64,
// float64 or string. NaN, and in GeoJSON infinity, becomes null. While Copy runs, there is a hidden
// directory next to the file.
func (o *FeatureFile) Copy(ctx context.Context, r VectorRequest, to *os.File,
	row func(fid int64) ([]any, error)) error {
	return o.withSource(r, func(l hLayer) (err error) {
		staged, err := newStaging(to.Name())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, staged.remove()) }()
		path := filepath.Join(staged.outputs(), o.Layer+o.ending())
		if err := o.write(ctx, r, l, path, to.Name(), row); err != nil {
			return err
		}
		return copyOnly(to, path)
	})
}

// copyOnly copies a file, which must be the only one in its directory.
func copyOnly(to *os.File, path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	if len(entries) != 1 {
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return fmt.Errorf("%s: GDAL wrote %s, expected one file", to.Name(), list(names))
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, from.Close())
}

// withSource calls f with the layer of the source.
func (o *FeatureFile) withSource(r VectorRequest, f func(l hLayer) error) error {
	if err := o.checkTexts(&r); err != nil {
		return err
	}
	from, err := r.open()
	if err != nil {
		return err
	}
	defer closeDataset(from)
	if _, err := DriverByName(o.Driver); err != nil {
		return err
	}
	return r.withLayer(from, f)
}

func (o *FeatureFile) checkTexts(r *VectorRequest) error {
	errs := []error{r.checkTexts(), checkText(o.Driver, "layer", o.Layer)}
	for _, col := range o.Columns {
		errs = append(errs, checkText(o.Driver, "column", col.Name))
	}
	return errors.Join(errs...)
}

func (o *FeatureFile) ending() string {
	if o.Driver == FormatGeoPackage {
		return ".gpkg"
	}
	return ".geojson"
}

// layerOptions returns the creation options of the layer. GDAL drops the last digits of a few reals
// in GeoJSON, and keeps at least 15.
func (o *FeatureFile) layerOptions() []string {
	if o.Driver == FormatGeoPackage {
		return []string{"FID=" + o.free("fid"), "GEOMETRY_NAME=" + o.free("geom")}
	}
	return []string{"RFC7946=YES", "COORDINATE_PRECISION=9"}
}

// free returns a name that no column has.
func (o *FeatureFile) free(name string) string {
	for slices.ContainsFunc(o.Columns, func(c FeatureColumn) bool { return strings.EqualFold(c.Name, name) }) {
		name += "_"
	}
	return name
}

// featureWriter writes features to an open dataset.
type featureWriter struct {
	file       *FeatureFile
	path, name string // of the dataset, and of the file in errors
	h          hDataset
	layer      hLayer
	definition hDefinition
	t          hTransformation // to the usual order of axes; 0 if the source has it
	keepFIDs   bool
	begun      bool // whether a transaction is open
}

// create creates a file with a layer in the CRS of the source.
func (o *FeatureFile) create(r VectorRequest, from hLayer, path, name string) (*featureWriter, error) {
	// The numbers of a statement's features need not be unique.
	w := &featureWriter{file: o, path: path, name: name, keepFIDs: r.SQL == ""}
	unplaced := false
	err := w.try("create", func() bool {
		s := c.OGR_L_GetSpatialRef(from)
		if unplaced = s == 0 && o.Driver == FormatGeoJSON; unplaced {
			return false
		}
		typ := c.OGR_L_GetGeomType(from)
		if flat(typ) != int32(o.Geometry) {
			typ = 0 // any
		}
		if s != 0 {
			straight := c.OSRClone(s)
			defer c.OSRDestroySpatialReference(straight)
			c.OSRSetAxisMappingStrategy(straight, 0)
			if axesSwapped(s) {
				if w.t = c.OCTNewCoordinateTransformation(s, straight); w.t == 0 {
					return false
				}
			}
			s = straight
		}
		return w.createLayer(s, typ)
	})
	if unplaced {
		err = unplacedError(r.name())
	}
	if err != nil {
		w.abandon()
		return nil, err
	}
	return w, nil
}

// unplacedError is returned for features without a CRS in GeoJSON.
func unplacedError(name string) error {
	return fmt.Errorf("%s: it names no coordinate reference system, and GeoJSON is in WGS 84", name)
}

// createLayer creates the file with an empty layer in a CRS, 0 for none, whose axes are in the
// usual order. It must run within try.
func (w *featureWriter) createLayer(s hSRS, typ int32) bool {
	o := w.file
	if w.h = c.GDALCreate(c.GDALGetDriverByName(o.Driver), w.path, 0, 0, 0, 0, nil); w.h == 0 {
		return false
	}
	w.layer = c.GDALDatasetCreateLayer(w.h, o.Layer, s, typ, cStrings(o.layerOptions()))
	if w.layer == 0 {
		return false
	}
	for _, col := range o.Columns {
		f := c.OGR_Fld_Create(col.Name, int32(col.Type))
		failed := c.OGR_L_CreateField(w.layer, f, 0) != 0
		c.OGR_Fld_Destroy(f)
		if failed {
			return false
		}
	}
	w.definition = c.OGR_L_GetLayerDefn(w.layer)
	if o.Driver != FormatGeoPackage {
		return true // GeoJSON has no transactions
	}
	w.begun = c.GDALDatasetStartTransaction(w.h, 0) == 0
	return w.begun
}

// try is the function try for the file.
func (w *featureWriter) try(op string, f func() bool) error {
	err := try(w.name, op, f)
	var e *Error
	if errors.As(err, &e) {
		e.Text = strings.TrimPrefix(strings.ReplaceAll(e.Text, w.path, w.name), w.name+": ")
	}
	return err
}

// close completes the file.
func (w *featureWriter) close() error {
	err := w.try("write", func() bool {
		return !w.begun || c.GDALDatasetCommitTransaction(w.h) == 0
	})
	if err != nil {
		w.abandon()
		return err
	}
	w.begun = false
	err = w.try("write", func() bool { c.GDALClose(w.h); return true })
	w.h = 0
	w.abandon()
	return err
}

// abandon frees what is left of the writer. Without the rollback, GDAL would first build the
// spatial index of all features, which takes minutes for millions.
func (w *featureWriter) abandon() {
	onThread(func() {
		if w.h != 0 {
			if w.begun {
				c.GDALDatasetRollbackTransaction(w.h)
			}
			c.GDALClose(w.h)
		}
		if w.t != 0 {
			c.OCTDestroyCoordinateTransformation(w.t)
		}
	})
	w.h, w.t, w.begun = 0, 0, false
}

// write writes the file of the features of a layer.
func (o *FeatureFile) write(ctx context.Context, r VectorRequest, from hLayer, path, name string,
	row func(fid int64) ([]any, error)) error {
	w, err := o.create(r, from, path, name)
	if err != nil {
		return err
	}
	var failed error
	_, err = r.eachFeature(ctx, from, 0, func(h hFeature) string {
		var values []any
		if values, failed = row(c.OGR_F_GetFID(h)); failed == nil {
			failed = w.add(h, values)
		}
		if failed != nil {
			c.CPLErrorReset()
			return "failed"
		}
		return ""
	})
	if err = errors.Join(err, failed); err != nil {
		w.abandon()
		return err
	}
	return w.close()
}

// add writes a feature with the geometry of another one. It must run within try.
func (w *featureWriter) add(from hFeature, values []any) error {
	if len(values) != len(w.file.Columns) {
		return fmt.Errorf("%s: %d values of a feature, expected %d", w.name, len(values), len(w.file.Columns))
	}
	fid := c.OGR_F_GetFID(from)
	f := c.OGR_F_Create(w.definition)
	defer c.OGR_F_Destroy(f)
	if w.keepFIDs && fid != noFID && c.OGR_F_SetFID(f, fid) != 0 {
		return lastError(w.name, "write")
	}
	if g := c.OGR_F_GetGeometryRef(from); g != 0 {
		if w.t != 0 && !transformable(g, w.t) {
			return fmt.Errorf("%s: the axes of the geometry of feature %d can't be exchanged", w.name, fid)
		}
		if c.OGR_F_SetGeometry(f, g) != 0 {
			return lastError(w.name, "write")
		}
	}
	for i, v := range values {
		if err := w.set(f, int32(i), v); err != nil {
			return err
		}
	}
	if c.OGR_L_CreateFeature(w.layer, f) != 0 || c.CPLGetLastErrorType() >= classFailure {
		e := lastError(w.name, fmt.Sprintf("write feature %d", fid))
		e.Text = strings.ReplaceAll(e.Text, w.path, w.name)
		return e
	}
	return nil
}

// set sets a value of a feature.
func (w *featureWriter) set(f hFeature, i int32, v any) error {
	typ := w.file.Columns[i].Type
	switch v := v.(type) {
	case nil:
		c.OGR_F_SetFieldNull(f, i)
		return nil
	case int64:
		if typ == FeatureInteger {
			c.OGR_F_SetFieldInteger64(f, i, v)
			return nil
		}
	case float64:
		if typ != FeatureReal {
			break
		}
		if math.IsNaN(v) || w.file.Driver == FormatGeoJSON && math.IsInf(v, 0) {
			c.OGR_F_SetFieldNull(f, i)
		} else {
			c.OGR_F_SetFieldDouble(f, i, v)
		}
		return nil
	case string:
		if typ == FeatureText {
			c.OGR_F_SetFieldString(f, i, v)
			return nil
		}
	}
	return fmt.Errorf("%s: column %s: a value of type %T", w.name, w.file.Columns[i].Name, v)
}
