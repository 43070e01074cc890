package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/block"
	"leat/internal/gdal"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
)

// vectorInput is the part of an inputFile that describes vectors to rasterize.
type vectorInput struct {
	request gdal.VectorRequest
	key     string // of the request: inputs with the same key share one raster
	first   string // name of the first input with the same key
	layer   gdal.VectorLayer
	onto    *[4]float64         // its extent in the grid's CRS; nil if unknown
	state   jobspec.FileVersion // of the source
	grid    raster.Grid         // to rasterize onto: the job's grid with its margin
	burned  gdal.Burned
}

// pendingRaster is the placeholder of a raster that is not made yet.
type pendingRaster struct{ info raster.Info }

func (u *pendingRaster) Info() *raster.Info { return &u.info }
func (u *pendingRaster) Close() error       { return nil }
func (u *pendingRaster) Read(context.Context, []int, raster.Window, *ndarray.Array) error {
	return fmt.Errorf("%s was not rasterised", u.info.Path)
}

// vectorFile returns the path of the source if it is a file or directory on this machine, else "".
func vectorFile(v *jobspec.Vector) string {
	if _, err := os.Stat(v.Path); err != nil && gdalName(v.Path) {
		return ""
	}
	return absolute(v.Path)
}

func vectorRequest(v *jobspec.Vector) gdal.VectorRequest {
	return gdal.VectorRequest{Path: v.Path, Layer: v.Layer, SQL: v.SQL, Where: v.Where, Attribute: v.Attribute,
		Burn: v.Burn, Null: v.Null, Type: v.Type,
		AllTouched: v.AllTouched, OpenOptions: v.OpenOptions, NoNodata: true, Exact: true}
}

// addVectors opens and checks the vectors, and adds their future rasters to the inputs.
func (in *inputs) addVectors(ctx context.Context, job *jobspec.Job, grid raster.Grid) error {
	overlap := job.Controls.Overlap
	grid = grid.Sub(grid.Window().Grow(overlap))
	first := map[string]string{}
	var errs []error
	for _, name := range sortedKeys(job.Vectors) {
		v := job.Vectors[name]
		f, err := openVector(ctx, name, &v, grid)
		if err == nil {
			f.colOffset, f.rowOffset = overlap, overlap
			err = f.resolve(jobspec.Input{Nodata: []string{v.Nodata}}, job.Controls.NoMask)
		}
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			errs = append(errs, fmt.Errorf("vector %s: %w", name, err))
			continue
		}
		if _, again := first[f.vector.key]; !again {
			first[f.vector.key] = name
		}
		f.vector.first = first[f.vector.key]
		in.files = append(in.files, f)
		in.byName[name] = []*inputFile{f}
	}
	return errors.Join(errs...)
}

// openVector checks a vector and describes its future raster.
func openVector(ctx context.Context, name string, v *jobspec.Vector, grid raster.Grid) (*inputFile, error) {
	request := vectorRequest(v)
	info, err := gdal.CheckVector(ctx, request, grid)
	if err != nil {
		return nil, err
	}
	request.Type = info.Type
	if request.SQL == "" {
		request.Layer = info.Name // a layer by its number and by its name are the same
	}
	f := &inputFile{input: name, path: v.Label(), from: v.Path, mode: accessLocal,
		vector: &vectorInput{request: request, key: gdal.VectorKey(request), layer: info.VectorLayer, onto: info.Onto,
			state: vectorState(v, info.Files), grid: grid}}
	f.src = &pendingRaster{raster.Info{Path: v.Label(), Driver: "GTiff", Grid: grid,
		Bands:     []raster.Band{{Type: info.Type, Color: raster.ColorGray, Scale: 1}},
		TileWidth: rasterTile, TileHeight: rasterTile, Interleave: "band", Compression: "deflate", Predictor: 1}}
	return f, nil
}

// rasterTile is the side of the tiles of the rasters that gdal.Rasterize makes.
const rasterTile = 512

// vectorState returns the state of all files of the source.
func vectorState(v *jobspec.Vector, files []string) jobspec.FileVersion {
	var s jobspec.FileVersion
	local := vectorFile(v)
	if local != "" {
		s.FileState, _ = stateOf(local)
	}
	for _, name := range files {
		// SQLite changes this file when it reads
		if name = absolute(name); name == local || strings.HasSuffix(name, "-shm") {
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

// since describes how the source differs from its state when it was checked; "" if it does not.
func (v *vectorInput) since(name string, now jobspec.FileVersion) string {
	if text := v.state.FileState.Changes(now.FileState); text != "" {
		return name + " " + text
	}
	for _, key := range sortedKeys(v.state.Sidecars) {
		if text := v.state.Sidecars[key].Changes(now.Sidecars[key]); text != "" {
			return jobspec.SidecarName(name, key) + " " + text
		}
	}
	return ""
}

// burnText describes the values that are burned.
func (v *vectorInput) burnText() string {
	q := &v.request
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

// text describes the vectors for the plan.
func (v *vectorInput) text() string {
	l, q := &v.layer, &v.request
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

// nowhere explains why no feature lies on the grid, if that is known; else "".
func (v *vectorInput) nowhere() string {
	if v.layer.Features == 0 {
		return v.none()
	}
	e := v.onto
	if e == nil {
		return ""
	}
	minX, minY, maxX, maxY := v.grid.Bounds()
	if e[0] <= maxX && e[2] >= minX && e[1] <= maxY && e[3] >= minY {
		return ""
	}
	return fmt.Sprintf("lies on the grid: they lie in x %.9g to %.9g, y %.9g to %.9g, not in x %.9g to %.9g, y %.9g to %.9g", e[0], e[2], e[1], e[3], minX, maxX, minY, maxY)
}

// none explains why nothing is burned if no feature has a geometry.
func (v *vectorInput) none() string {
	switch {
	case v.request.SQL != "":
		return "is burned: the statement gives none with a geometry"
	case v.request.Where != "":
		return "is burned: there is none with a geometry and " + v.request.Where
	}
	return "is burned: there is none with a geometry in the layer " + v.layer.Name
}

// unburnedNote describes the features that were not burned, after reading them; "" if there are
// none, or if the plan says so.
func (v *vectorInput) unburnedNote(name string) string {
	switch n := &v.burned; {
	case n.Features == 0 && v.layer.Features != 0:
		return fmt.Sprintf("no feature of %s %s", name, v.none())
	case n.Unplaced > 0:
		return fmt.Sprintf("%s %s, with points that have no place in %v: feature %d is the first; if that matters here, cut it to the ground of the grid before, with: ogr2ogr -clipsrc",
			units.Plural(n.Unplaced, "feature was left out of", "features were left out of"), name, v.grid.CRS, n.First)
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

// describe completes the description of an input that is rasterized.
func (v *vectorInput) describe(f *inputFile, spec *jobspec.Vector, d *jobspec.DescribedFile) {
	q := &v.request
	d.Path = cmp.Or(vectorFile(spec), f.path)
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

// pixelBytes returns the size of the raster before compression.
func (v *vectorInput) pixelBytes() int64 {
	return block.Window{Width: v.grid.Width, Height: v.grid.Height}.Pixels() * int64(v.request.Type.Size())
}

// stateFiles yields the files other than the source's own whose state is known.
func (v *vectorInput) stateFiles(local string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range v.state.Sidecars {
			if !yield(jobspec.SidecarName(local, key)) {
				return
			}
		}
	}
}
