package apply

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
	"leat/block"
	"leat/expr"
	"leat/internal/gdal"
	"leat/internal/units"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
)

// Vector is an input made of vectors. The run rasterizes them onto its grid, as gdal_rasterize
// does, once and before the first block. A function or expression sees an input of one file with
// one band. Its pixels are defined in margins too, even outside the grid, and all of them are valid
// unless Nodata says otherwise. Until the last block is done, the raster is stored in the directory
// of the first unfinished output (Output.TempDir), or in Concurrency.SharedTemp if workers on other
// machines read it.
type Vector struct {
	Path string // OGR's name of the source: a file, a directory, a database, or a name such as one under /vsizip/
	// Layer is the name of a layer or, if no layer has that name, its number from 0. "" is the only
	// layer of the source.
	Layer string
	SQL   string // a statement whose result is rasterized instead of a layer
	Where string // rasterize only features that meet this condition; not with SQL

	// Attribute is the name of the attribute whose value each feature is burned with; GDAL uses 0
	// for a feature without a value. With "", all features are burned with Burn, or 1 if that is
	// nil.
	Attribute string
	Burn      *float64
	// Null is the value of pixels outside all features; 0 if nil.
	Null *float64
	// Type is the type of the pixels. The default for a constant value is the first of uint8, int32
	// and float64 that can represent it and Null; for an attribute it is int32 or int64 if the
	// attribute is an integer of 32 or 64 bits, else float64. A value that the type can't represent
	// is an error; only float32 rounds.
	Type ndarray.DType
	// AllTouched burns all pixels that a line or polygon touches. By default a polygon burns the
	// pixels whose centre it covers, and a line those on it.
	AllTouched bool
	// Nodata is the value of invalid pixels, for example that of Null. "" or "none" makes all
	// pixels valid.
	Nodata string
	// OpenOptions are options of the format's driver in OGR, as KEY=VALUE.
	OpenOptions []string
}

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

// label returns the source's name for messages and files, without passwords.
func (v *Vector) label() string {
	words := strings.Fields(v.Path)
	if len(words) == 1 || !strings.Contains(v.Path, "=") {
		return objstore.Redact(v.Path)
	}
	for i, w := range words { // of a database, such as PG:dbname=a password=b
		if key, _, ok := strings.Cut(w, "="); ok && strings.Contains(strings.ToLower(key), "pass") {
			words[i] = key + "=..."
		}
	}
	return strings.Join(words, " ")
}

// file returns the path of the source if it is a file or directory on this machine, else "".
func (v *Vector) file() string {
	if _, err := os.Stat(v.Path); err != nil && gdalName(v.Path) {
		return ""
	}
	return absolute(v.Path)
}

func (v *Vector) request() gdal.VectorRequest {
	return gdal.VectorRequest{Path: v.Path, Layer: v.Layer, SQL: v.SQL, Where: v.Where, Attribute: v.Attribute,
		Burn: v.Burn, Null: v.Null, Type: v.Type,
		AllTouched: v.AllTouched, OpenOptions: v.OpenOptions, NoNodata: true, Exact: true}
}

// validateVectors returns the errors in a job's vectors that can be found without opening them:
// errors in the job, and an error about what this machine lacks.
func validateVectors(job *Job) (wrong []error, lacking error) {
	if len(job.Vectors) == 0 {
		return nil, nil
	}
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, name := range sortedKeys(job.Vectors) {
		v := job.Vectors[name]
		if job.Expressions != nil {
			if err := expr.CheckName(name); err != nil {
				wrong = append(wrong, plain(err))
			}
		}
		if _, ok := job.Inputs[name]; ok {
			bad("%s is the name of an input and of a vector: give each a name of its own", name)
		}
		switch {
		case v.Path == "":
			bad("vector %s: no file is given", name)
		case objstore.IsURL(v.Path):
			bad("vector %s: %s is in a store: bring it to local disk first, with: leat stage get %s, or give GDAL's own name for it (/vsis3/BUCKET/NAME, /vsicurl/URL and the like)", name, v.label(), v.label())
		}
	}
	c := &job.Controls
	if _, ok := job.Vectors[c.Reference]; ok {
		bad("the reference %s (--reference) is a vector, which has no pixels to make a grid: name an input",
			c.Reference)
	}
	if len(job.Inputs) == 0 && c.Grid == nil {
		bad("vectors have no grid: give an input that has one, or a grid (--grid)")
	}
	if on := job.Concurrency.On; on != nil && !on.Capabilities().Local && job.Concurrency.SharedTemp == "" {
		const remedy = "name a folder that all of them can reach (--shared-temp), or burn the vectors first, with gdal_rasterize"
		if on.Capabilities().NoSharedFS {
			bad("vectors are rasterised to a file, and workers of %s share no folder with this machine in which they could read it: %s", on.Name(), remedy)
		} else if !slices.ContainsFunc(slices.Collect(maps.Values(job.Outputs)),
			func(o Output) bool { return !o.inStore() }) {
			bad("vectors are rasterised to a file next to the first output, and no output is a file that workers of %s could reach too: %s", on.Name(), remedy)
		}
	}
	if err := gdal.Available(); err != nil {
		lacking = fmt.Errorf("vector %s: vectors are read through GDAL: %w", sortedKeys(job.Vectors)[0], err)
	}
	return wrong, lacking
}

// addVectors opens and checks the vectors, and adds their future rasters to the inputs.
func (r *run) addVectors(ctx context.Context, grid raster.Grid) error {
	job, in := r.job, r.in
	overlap := job.Controls.Overlap
	grid = grid.Sub(grid.Window().Grow(overlap))
	first := map[string]string{}
	var errs []error
	for _, name := range sortedKeys(job.Vectors) {
		v := job.Vectors[name]
		f, err := v.input(ctx, name, grid)
		if err == nil {
			f.colOffset, f.rowOffset = overlap, overlap
			err = f.resolve(Input{Nodata: []string{v.Nodata}}, job.Controls.NoMask)
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

// input checks a vector and describes its future raster.
func (v *Vector) input(ctx context.Context, name string, grid raster.Grid) (*inputFile, error) {
	request := v.request()
	info, err := gdal.CheckVector(ctx, request, grid)
	if err != nil {
		return nil, err
	}
	request.Type = info.Type
	if request.SQL == "" {
		request.Layer = info.Name // a layer by its number and by its name are the same
	}
	f := &inputFile{input: name, path: v.label(), from: v.Path, mode: accessLocal,
		vector: &vectorInput{request: request, key: gdal.VectorKey(request), layer: info.VectorLayer, onto: info.Onto,
			state: v.state(info.Files), grid: grid}}
	f.src = &pendingRaster{raster.Info{Path: v.label(), Driver: "GTiff", Grid: grid,
		Bands:     []raster.Band{{Type: info.Type, Color: raster.ColorGray, Scale: 1}},
		TileWidth: rasterTile, TileHeight: rasterTile, Interleave: "band", Compression: "deflate", Predictor: 1}}
	return f, nil
}

// rasterTile is the side of the tiles of the rasters that gdal.Rasterize makes.
const rasterTile = 512

// state returns the state of all files of the source.
func (v *Vector) state(files []string) jobspec.FileVersion {
	var s jobspec.FileVersion
	local := v.file()
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
func (v *vectorInput) describe(f *inputFile, spec Vector, d *jobspec.DescribedFile) {
	q := &v.request
	d.Path = cmp.Or(spec.file(), f.path)
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

// vectorDirectory returns the directory in which the run makes its directory for rasters: one that
// worker processes on other machines can reach, else that of unfinished outputs.
func (r *run) vectorDirectory() string {
	if on := r.job.Concurrency.On; on != nil && !on.Capabilities().Local {
		return r.sharedBase()
	}
	if len(r.outs) == 0 {
		return os.TempDir()
	}
	o := &r.outs[0].spec
	if dir := o.tempDir(); dir != "" {
		return absolute(dir)
	}
	return filepath.Dir(realPath(o.Path))
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
