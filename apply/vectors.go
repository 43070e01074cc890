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

	"leat/block"
	"leat/expr"
	"leat/ndarray"
	"leat/objstore"
	"leat/raster"
	"leat/raster/gdal"
)

// Vector is an input made of vectors: the run burns them onto its grid, as gdal_rasterize does, once and before the first block. To a function or an expression it is an
// input of one file with one band. Its pixels are real in margins too, also beyond the grid, and all of them are valid unless Nodata says otherwise. The raster lies, until the
// last block is done, where the first output is made (Output.TempDir), or, where workers on other machines read it, in Concurrency.SharedTemp.
type Vector struct {
	Path string // as OGR calls the source: a file, a folder, a database; a name below /vsizip/ and the like
	// Layer is one by its name, or, where no layer is called so, by its number from 0. "" is the only layer of the source.
	Layer string
	SQL   string // a statement whose result is burned, instead of a layer
	Where string // only features for which this condition holds; not with SQL, which has its own

	// Attribute whose number each feature is burned with; GDAL takes 0 for a feature that has none. "" burns Burn, 1 if nil.
	Attribute string
	Burn      *float64
	// Null is the pixel where no feature lies; 0 if nil.
	Null *float64
	// Type of the pixels. Default, for a value to burn, is the first of uint8, int32 and float64 that holds it and Null; for an attribute int32 or int64 where
	// it is an integer of 32 or 64 bits, else float64. A value that the type can't hold is an error, never cut or rounded (but to the nearest float32).
	Type ndarray.DType
	// AllTouched burns all pixels that a line or polygon touches, not only those whose centre it covers or that lie on the line.
	AllTouched bool
	// Nodata is the value of pixels that do not count, such as that of Null. "" or "none": all count.
	Nodata string
	// OpenOptions are those of the format's driver in OGR, as KEY=VALUE.
	OpenOptions []string
}

// vectorInput is what an inputFile has that is rasterised.
type vectorInput struct {
	request gdal.VectorRequest
	key     string // of the request: what has the same is one raster
	first   string // the name of the first input with the same key
	layer   gdal.VectorLayer
	onto    *[4]float64 // its extent in the grid's system; nil where that is not known
	state   fileVersion // of the source
	grid    raster.Grid // to burn onto: the job's with its margin
	burned  gdal.Burned
}

// unburned stands for a raster that is not made yet.
type unburned struct{ info raster.Info }

func (u *unburned) Info() *raster.Info { return &u.info }
func (u *unburned) Close() error       { return nil }
func (u *unburned) Read(context.Context, []int, raster.Window, *ndarray.Array) error {
	return fmt.Errorf("%s was not rasterised", u.info.Path)
}

// label is the source's name for messages and files, without passwords.
func (v *Vector) label() string {
	words := strings.Fields(v.Path)
	if len(words) == 1 || !strings.Contains(v.Path, "=") {
		return objstore.Redact(v.Path)
	}
	for i, w := range words { // a database's, such as PG:dbname=a password=b
		if key, _, ok := strings.Cut(w, "="); ok && strings.Contains(strings.ToLower(key), "pass") {
			words[i] = key + "=..."
		}
	}
	return strings.Join(words, " ")
}

// file is the path of the source where it is a file or folder of this machine, else "".
func (v *Vector) file() string {
	if _, err := os.Stat(v.Path); err != nil && gdalName(v.Path) {
		return ""
	}
	return absolute(v.Path)
}

func (v *Vector) request() gdal.VectorRequest {
	return gdal.VectorRequest{Path: v.Path, Layer: v.Layer, SQL: v.SQL, Where: v.Where, Attribute: v.Attribute, Burn: v.Burn, Null: v.Null, Type: v.Type,
		AllTouched: v.AllTouched, OpenOptions: v.OpenOptions, NoNodata: true, Exact: true}
}

// validateVectors reports what is wrong with the vectors of a job and can be told without opening them: mistakes in it, and what this machine lacks.
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
		bad("the reference %s (--reference) is a vector, which has no pixels to make a grid: name an input", c.Reference)
	}
	if len(job.Inputs) == 0 && c.Grid == nil {
		bad("vectors make no grid by themselves: give an input whose grid is meant, or a grid of its own (--grid)")
	}
	if on := job.Concurrency.On; on != nil && !on.Facts().Local && job.Concurrency.SharedTemp == "" {
		const remedy = "name a folder that all of them can reach (--shared-temp), or burn the vectors first, with gdal_rasterize"
		if on.Facts().Apart {
			bad("vectors are rasterised to a file, and workers of %s share no folder with this machine in which they could read it: %s", on.Name(), remedy)
		} else if !slices.ContainsFunc(slices.Collect(maps.Values(job.Outputs)), func(o Output) bool { return !o.inStore() }) {
			bad("vectors are rasterised to a file beside the first output, and no output is a file that workers of %s could reach too: %s", on.Name(), remedy)
		}
	}
	if err := gdal.Available(); err != nil {
		lacking = fmt.Errorf("vector %s: vectors are read through GDAL: %w", sortedKeys(job.Vectors)[0], err)
	}
	return wrong, lacking
}

// addVectors opens and checks the vectors, and puts what they will be among the inputs.
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
			f.dc, f.dr = overlap, overlap
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

// input checks a vector and describes the raster that it will be.
func (v *Vector) input(ctx context.Context, name string, grid raster.Grid) (*inputFile, error) {
	request := v.request()
	info, err := gdal.CheckVector(ctx, request, grid)
	if err != nil {
		return nil, err
	}
	request.Type = info.Type
	if request.SQL == "" {
		request.Layer = info.Name // a layer by its number and by its name are one
	}
	f := &inputFile{input: name, path: v.label(), from: v.Path, access: accessLocal,
		vector: &vectorInput{request: request, key: gdal.VectorKey(request), layer: info.VectorLayer, onto: info.Onto, state: v.state(info.Files), grid: grid}}
	f.src = &unburned{raster.Info{Path: v.label(), Driver: "GTiff", Grid: grid, Bands: []raster.Band{{Type: info.Type, Color: raster.ColorGray, Scale: 1}},
		TileWidth: burntTile, TileHeight: burntTile, Interleave: "band", Compression: "deflate", Predictor: 1}}
	return f, nil
}

// burntTile is the side of the tiles of the rasters that gdal.Rasterize makes.
const burntTile = 512

// state is the state of all files of the source.
func (v *Vector) state(files []string) fileVersion {
	var s fileVersion
	local := v.file()
	if local != "" {
		s.fileState, _ = stateOf(local)
	}
	for _, name := range files {
		if name = absolute(name); name == local || strings.HasSuffix(name, "-shm") { // SQLite changes this one when a file is read
			continue
		}
		key := name
		if suffix := strings.TrimPrefix(name, local); local != "" && !filepath.IsAbs(suffix) { // one within a folder keeps its whole name
			key = suffix
		}
		if state, ok := stateOf(name); ok {
			s.add(key, state)
		}
	}
	return s
}

// since says how the source differs from what it was when it was checked.
func (v *vectorInput) since(name string, now fileVersion) string {
	if text := v.state.fileState.change(now.fileState); text != "" {
		return name + " " + text
	}
	for _, key := range sortedKeys(v.state.Beside) {
		if text := v.state.Beside[key].change(now.Beside[key]); text != "" {
			return besideName(name, key) + " " + text
		}
	}
	return ""
}

// burnText says what is burned.
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

// text says what the vectors are.
func (v *vectorInput) text() string {
	l, q := &v.layer, &v.request
	text := "layer " + l.Name
	if q.SQL != "" {
		text = "the result of " + strconv.Quote(q.SQL)
	}
	if l.Features >= 0 {
		text += ", " + count(int(l.Features), "feature")
	}
	if q.Where != "" {
		text += ", those with " + q.Where
	}
	text += fmt.Sprintf(" (%s) in %v", l.Geometry, l.CRS)
	if e := l.Extent; e != nil {
		text += fmt.Sprintf(", x %s to %s, y %s to %s", plainNumber(e[0]), plainNumber(e[2]), plainNumber(e[1]), plainNumber(e[3]))
	}
	return text + "; " + v.burnText()
}

// nowhere says why no feature lies on the grid, where that is known; else "".
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

// none says why nothing is burned where no feature has a geometry.
func (v *vectorInput) none() string {
	switch {
	case v.request.SQL != "":
		return "is burned: the statement gives none with a geometry"
	case v.request.Where != "":
		return "is burned: there is none with a geometry and " + v.request.Where
	}
	return "is burned: there is none with a geometry in the layer " + v.layer.Name
}

// told says what of the vectors was not burned, now that they have been read; "" where that is nothing, or known before.
func (v *vectorInput) told(name string) string {
	switch n := &v.burned; {
	case n.Features == 0 && v.layer.Features != 0:
		return fmt.Sprintf("no feature of %s %s", name, v.none())
	case n.Unplaced > 0:
		return fmt.Sprintf("%s %s, with points that have no place in %v: feature %d is the first; if that matters here, cut it to the ground of the grid before, with: ogr2ogr -clipsrc",
			many(n.Unplaced, "feature was left out of", "features were left out of"), name, v.grid.CRS, n.First)
	}
	return ""
}

// numberText is a number that may be left out and is 0 then.
func numberText(v *float64) string {
	if v == nil {
		return "0"
	}
	return number(*v)
}

// descriptionVector is what a description says of vectors besides their files and the type of the pixels.
type descriptionVector struct {
	Layer       string   `json:"layer,omitempty"`
	SQL         string   `json:"sql,omitempty"`
	Where       string   `json:"where,omitempty"`
	Attribute   string   `json:"attribute,omitempty"`
	Burn        string   `json:"burn,omitempty"`
	Null        string   `json:"null"`
	AllTouched  bool     `json:"all_touched,omitempty"`
	OpenOptions []string `json:"open_options,omitempty"`
}

// describe completes the description of an input that is rasterised.
func (v *vectorInput) describe(f *inputFile, spec Vector, d *descriptionInput) {
	q := &v.request
	d.Path = cmp.Or(spec.file(), f.path)
	d.fileVersion = v.state
	d.Vector = &descriptionVector{Layer: q.Layer, SQL: q.SQL, Where: q.Where, Attribute: q.Attribute, Null: numberText(q.Null), AllTouched: q.AllTouched, OpenOptions: q.OpenOptions}
	if q.Attribute == "" {
		d.Vector.Burn = "1"
		if q.Burn != nil {
			d.Vector.Burn = number(*q.Burn)
		}
	}
}

// vector compares how two inputs are burned.
func (c *changes) vector(of string, was, now *descriptionVector) {
	if was == nil || now == nil {
		c.flag(was != nil, now != nil, of+"it was a raster and is a vector", of+"it was a vector and is a raster")
		return
	}
	text := func(what, was, now string) {
		var own changes
		own.text(what, was, now)
		for _, t := range own {
			c.say("%s%s", of, t)
		}
	}
	text("the layer", was.Layer, now.Layer)
	text("the statement", was.SQL, now.SQL)
	text("the condition", was.Where, now.Where)
	text("the attribute to burn", was.Attribute, now.Attribute)
	if was.Attribute == now.Attribute {
		c.value(of+"the value to burn", was.Burn, now.Burn)
	}
	c.value(of+"the value where no feature lies", was.Null, now.Null)
	c.flag(was.AllTouched, now.AllTouched, of+"pixels that features only touch were not burned and are", of+"pixels that features only touch were burned and are not")
	text("the list of open options", strings.Join(was.OpenOptions, " "), strings.Join(now.OpenOptions, " "))
}

// vectorFolder is where the folder is made in which the run rasterises: where workers elsewhere can reach it, else where unfinished outputs are kept.
func (r *run) vectorFolder() string {
	if on := r.job.Concurrency.On; on != nil && !on.Facts().Local {
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

// pixelBytes is the size of the raster before compression.
func (v *vectorInput) pixelBytes() int64 {
	return block.Window{Width: v.grid.Width, Height: v.grid.Height}.Pixels() * int64(v.request.Type.Size())
}

// stateFiles are the files besides the source's own of which the state is known.
func (v *vectorInput) stateFiles(local string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for key := range v.state.Beside {
			if !yield(besideName(local, key)) {
				return
			}
		}
	}
}
