package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/gdal"
	"leat/internal/geotiff"
	"leat/internal/units"
	"leat/internal/vectorcopy"
	"leat/ndarray"
	"leat/raster"
)

// VectorInput is the part of a File that describes vectors to rasterize.
type VectorInput struct {
	Request gdal.VectorRequest
	Key     string // of the request: inputs with the same key share one raster
	First   string // name of the first input with the same key
	local   *vectorcopy.Copy
	layer   gdal.VectorLayer
	onto    *[4]float64         // its extent in the grid's CRS; nil if unknown
	state   jobspec.FileVersion // of the source
	Grid    raster.Grid         // to rasterize onto: the job's grid with its margin
}

// pendingRaster is the placeholder of a raster that is not made yet.
type pendingRaster struct{ info raster.Info }

func (u *pendingRaster) Info() *raster.Info { return &u.info }
func (u *pendingRaster) Close() error       { return nil }
func (u *pendingRaster) Read(context.Context, []int, raster.Window, *ndarray.Array) error {
	return fmt.Errorf("%s was not rasterized", u.info.Path)
}

// VectorFile returns the path of the source if it is a file or directory on this machine, else "".
func VectorFile(v *jobspec.Vector) string {
	if _, err := os.Stat(v.Path); err != nil && IsGDALName(v.Path) {
		return ""
	}
	return Absolute(v.Path)
}

func vectorRequest(v *jobspec.Vector) gdal.VectorRequest {
	return gdal.VectorRequest{Path: v.Path, Layer: v.Layer, SQL: v.SQL, Where: v.Where, Attribute: v.Attribute,
		Burn: v.Burn, Null: v.Null, Type: v.Type,
		AllTouched: v.AllTouched, OpenOptions: v.OpenOptions, NoNodata: true, Exact: true}
}

// addVectors opens and checks the vectors, and adds their future rasters to the inputs.
func (in *Inputs) addVectors(ctx context.Context, job *jobspec.Job, grid raster.Grid, store any) error {
	overlap := job.Controls.Overlap
	grid = grid.Sub(grid.Window().Grow(overlap))
	first := map[string]string{}
	copies, err := in.copyVectors(ctx, job, store)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(job.Vectors)) {
		v := job.Vectors[name]
		cutline := name == job.Controls.Cutline
		f, err := openVector(ctx, name, &v, grid, copies[v.Path], cutline)
		if err == nil && cutline {
			err = checkPolygons(&f.Vector.layer)
		}
		if err == nil {
			f.ColOffset, f.RowOffset = overlap, overlap
			err = f.resolve(jobspec.Input{Nodata: []string{v.Nodata}}, job.Controls.NoMask)
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			errs = append(errs, fmt.Errorf("vector %s: %w", name, err))
			continue
		}
		if _, again := first[f.Vector.Key]; !again {
			first[f.Vector.Key] = name
		}
		f.Vector.First = first[f.Vector.Key]
		in.Files = append(in.Files, f)
		in.ByName[name] = []*File{f}
	}
	return errors.Join(errs...)
}

// checkPolygons returns an error if a layer for a cutline can have no polygons.
func checkPolygons(l *gdal.VectorLayer) error {
	if strings.Contains(l.Geometry, "Point") || strings.Contains(l.Geometry, "Line") {
		return jobspec.JobErrorf("Controls.Cutline", "the layer %s of the cutline has geometries of the type %s, expected polygons", l.Name, l.Geometry)
	}
	return nil
}

// openVector checks a vector and describes its future raster. local is its copy; nil if it is in no
// store.
func openVector(ctx context.Context, name string, v *jobspec.Vector, grid raster.Grid,
	local *vectorcopy.Copy, cutline bool) (*File, error) {
	request := vectorRequest(v)
	request.Cutline = cutline
	if local != nil {
		request.Path, request.Name = local.Path, v.Label()
	}
	info, err := gdal.CheckVector(ctx, request, grid)
	if unmet := new(*gdal.RequestError); errors.As(err, unmet) {
		return nil, &outcome.JobError{Err: err}
	}
	if err != nil {
		return nil, err
	}
	request.Type = info.Type
	if request.SQL == "" {
		request.Layer = info.Name // a layer by its number and by its name are the same
	}
	f := &File{Name: name, Path: v.Label(), From: v.Path, Mode: jobspec.ReadLocal,
		Vector: &VectorInput{Request: request, Key: gdal.VectorKey(request), layer: info.VectorLayer, onto: info.Onto,
			local: local, Grid: grid}}
	f.Vector.state = f.Vector.State(v, info.Files)
	f.Source = &pendingRaster{raster.Info{Path: v.Label(), Driver: "GTiff", Grid: grid,
		Bands:     []raster.Band{{Type: info.Type, Color: raster.ColorGray, Scale: 1}},
		TileWidth: rasterTile, TileHeight: rasterTile, Interleave: "band", Compression: "deflate", Predictor: 1}}
	return f, nil
}

// rasterTile is the side of the tiles of the rasters that gdal.Rasterize makes.
const rasterTile = 512

// State returns the state of all files of the source now. That of a copy is its object's.
func (i *VectorInput) State(v *jobspec.Vector, files []string) jobspec.FileVersion {
	if i.local != nil {
		return jobspec.FileVersion{FileState: stateInStore(i.local.Version)}
	}
	var s jobspec.FileVersion
	local := VectorFile(v)
	if local != "" {
		s.FileState, _ = stateOf(local)
	}
	for _, name := range files {
		// SQLite changes this file when it reads
		if name = Absolute(name); name == local || strings.HasSuffix(name, "-shm") {
			continue
		}
		key := name
		// a file in a directory keeps its whole name
		if suffix := strings.TrimPrefix(name, local); local != "" && !filepath.IsAbs(suffix) {
			key = suffix
		}
		if state, ok := stateOf(name); ok {
			s.Add(key, state)
		}
	}
	return s
}

// Transformed reports whether the vectors are in another CRS than the grid.
func (v *VectorInput) Transformed() bool { return !gdal.SameCRS(v.layer.CRS, v.Grid.CRS) }

// Since describes how the source differs from its state when it was checked; "" if it does not.
func (v *VectorInput) Since(name string, now jobspec.FileVersion) string {
	if text := v.state.FileState.Changes(now.FileState); text != "" {
		return name + " " + text
	}
	for _, key := range slices.Sorted(maps.Keys(v.state.Sidecars)) {
		if text := v.state.Sidecars[key].Changes(now.Sidecars[key]); text != "" {
			return jobspec.SidecarName(name, key) + " " + text
		}
	}
	return ""
}

// burnText describes the values that are burned.
func (v *VectorInput) burnText() string {
	q := &v.Request
	what := "1"
	if q.Attribute != "" {
		what = "attribute " + q.Attribute
	} else if q.Burn != nil {
		what = number(*q.Burn)
	}
	text := fmt.Sprintf("%s burned as %v, %s where there is none", what, q.Type, numberText(q.Null))
	if q.AllTouched {
		text += ", all that they touch"
	}
	return text
}

// Text describes the vectors for the plan.
func (v *VectorInput) Text() string {
	l, q := &v.layer, &v.Request
	text := "layer " + l.Name
	if q.SQL != "" {
		text = "the result of " + strconv.Quote(q.SQL)
	}
	if l.Features >= 0 {
		text += ", " + units.Count(int(l.Features), "feature")
	}
	if q.Where != "" {
		text += ", those with " + q.Where
	}
	text += fmt.Sprintf(" (%s) in %v", l.Geometry, l.CRS)
	if e := l.Extent; e != nil {
		text += fmt.Sprintf(", x %s to %s, y %s to %s", plainNumber(e[0]), plainNumber(e[2]), plainNumber(e[1]),
			plainNumber(e[3]))
	}
	return text + "; " + v.burnText()
}

// Nowhere explains why no feature lies on the grid, if that is known; else "".
func (v *VectorInput) Nowhere() string {
	if v.layer.Features == 0 {
		return v.none()
	}
	e := v.onto
	if e == nil {
		return ""
	}
	minX, minY, maxX, maxY := v.Grid.Bounds()
	if e[0] <= maxX && e[2] >= minX && e[1] <= maxY && e[3] >= minY {
		return ""
	}
	return fmt.Sprintf("lies on the grid: they lie in x %.9g to %.9g, y %.9g to %.9g, not in x %.9g to %.9g, y %.9g to %.9g", e[0], e[2], e[1], e[3], minX, maxX, minY, maxY)
}

// none explains why nothing is burned if no feature has a geometry.
func (v *VectorInput) none() string {
	switch {
	case v.Request.SQL != "":
		return "is burned: the statement gives none with a geometry"
	case v.Request.Where != "":
		return "is burned: there is none with a geometry and " + v.Request.Where
	}
	return "is burned: there is none with a geometry in the layer " + v.layer.Name
}

// UnburnedNote describes the features that were not burned, after reading them; "" if there are
// none, or if the plan says so.
func (v *VectorInput) UnburnedNote(n *gdal.RasterizeResult, name string) string {
	switch {
	case n.Features == 0 && v.layer.Features != 0:
		return fmt.Sprintf("no feature of %s %s", name, v.none())
	case n.Unplaced > 0:
		return fmt.Sprintf("%s %s, with points that have no place in %v: feature %d is the first",
			units.Plural(n.Unplaced, "feature was left out of", "features were left out of"), name, v.Grid.CRS, n.First)
	}
	return ""
}

// numberText formats a number whose default is 0.
func numberText(v *float64) string {
	if v == nil {
		return "0"
	}
	return number(*v)
}

// Describe completes the description of an input that is rasterized.
func (v *VectorInput) Describe(f *File, spec *jobspec.Vector, d *jobspec.DescribedFile) {
	q := &v.Request
	d.Path = cmp.Or(VectorFile(spec), f.Path)
	d.FileVersion = v.state
	d.Vector = &jobspec.DescribedVector{Layer: q.Layer, SQL: q.SQL, Where: q.Where, Attribute: q.Attribute,
		Null: numberText(q.Null), AllTouched: q.AllTouched, OpenOptions: q.OpenOptions}
	if q.Attribute == "" {
		d.Vector.Burn = "1"
		if q.Burn != nil {
			d.Vector.Burn = number(*q.Burn)
		}
	}
}

// PixelBytes returns the size of the raster before compression.
func (v *VectorInput) PixelBytes() int64 {
	return block.Window{Width: v.Grid.Width, Height: v.Grid.Height}.Pixels() * int64(v.Request.Type.Size())
}

// StateFiles yields the files other than the source's own whose state is known.
func (v *VectorInput) StateFiles(local string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range v.state.Sidecars {
			if !yield(jobspec.SidecarName(local, key)) {
				return
			}
		}
	}
}

// VectorsToRasterize returns the vectors that are read, one for each distinct request.
func (in *Inputs) VectorsToRasterize() (list []*File) {
	seen := map[string]bool{}
	for _, f := range in.Files {
		if f.Vector != nil && len(f.Layers) > 0 && !seen[f.Vector.Key] {
			seen[f.Vector.Key] = true
			list = append(list, f)
		}
	}
	return list
}

// WithRaster returns the file of a vector with its open raster in place of the placeholder. The
// caller closes the raster.
func (f *File) WithRaster(path string) (*File, error) {
	src, err := geotiff.Open(path)
	if err != nil {
		return nil, err
	}
	info, want := src.Info(), f.Source.Info()
	if info.Grid.Width != want.Grid.Width || info.Grid.Height != want.Grid.Height || len(info.Bands) != 1 ||
		info.Bands[0].Type != f.Type {
		return nil, errors.Join(fmt.Errorf("GDAL made a raster of %d x %d pixels of %v", info.Grid.Width,
			info.Grid.Height, info.Bands[0].Type), src.Close())
	}
	with := *f
	with.Source, with.Owned, with.Info = src, false, info
	with.From, with.Version = path, versionOf(src, path)
	return &with, nil
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
