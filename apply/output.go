package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"leat/apply/internal/spool"
	"leat/internal/tiffwrite"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/overview"
)

// output is one file being written.
type output struct {
	name    string
	spec    Output
	run     *run
	factors []int // of the overviews, rising
	// remote is set in a worker process: the file and its spool are with the coordinator.
	remote bool
	tileW  int
	tileH  int

	// copied are the bands of inputs that the output's bands copy unchanged, nil for other bands;
	// empty without expressions.
	copied []*raster.Band
	// alpha is the band, counted from 1, that marks valid pixels of the others; 0 for none.
	alpha int
	// Properties of the file; typ and bands may be unknown until the first block.
	typ    ndarray.DType
	bands  int
	nodata *ndarray.Scalar

	mu         sync.Mutex
	started    bool
	firstBlock int

	file *spool.File // nil in a worker process
	// resume is the header of the spool that this run resumes from; nil if there is none.
	resume *savedRun
	wkt    string // of the CRS, for .aux.xml; "" if the file's grid can express it
	// layout, chooser and spool are set by begin; spool stays nil in a worker process.
	layout  *spool.Layout
	chooser *spool.Chooser
	spool   *spool.Spool

	gdal gdalOutput // of outputs in other formats
}

// resolveOutputs returns the outputs of a job, and all errors that can be found before the grid is
// known.
func resolveOutputs(job *Job) ([]*output, error) {
	var outs []*output
	var errs []error
	for _, name := range sortedKeys(job.Outputs) {
		o := &output{name: name, spec: job.Outputs[name], typ: job.Outputs[name].Type, bands: job.Outputs[name].Bands,
			firstBlock: -1}
		if err := o.resolve(job); len(err) > 0 {
			errs = append(errs, err...)
		}
		outs = append(outs, o)
	}
	return outs, jobErrors(errs...)
}

// resolve fills in defaults and returns the errors in the options.
func (o *output) resolve(job *Job) []error {
	s := &o.spec
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("output %s: %w", o.name, fmt.Errorf(format, args...)))
	}
	errs = append(errs, o.checkFormatFields()...)
	if s.TileSize < 0 || s.TileSize%16 != 0 || s.TileSize > 4096 {
		bad("tile size %d: use a multiple of 16 up to 4096", s.TileSize)
	}
	if s.Compression == "" && !s.usesGDAL() {
		s.Compression = tiffwrite.Deflate
	}
	s.Compression = strings.ToLower(s.Compression)
	if err := (tiffwrite.Coding{Compression: s.Compression}).Check(ndarray.Uint8); err != nil && !s.usesGDAL() {
		bad("%w", err)
	}
	if s.Bands < 0 {
		bad("%d bands", s.Bands)
	}
	if s.COG && s.NoOverviews {
		bad("a COG has overviews: leave out --cog or --overviews none")
	}
	for i, f := range s.Overviews {
		if f < 2 || f&(f-1) != 0 || i > 0 && f <= s.Overviews[i-1] {
			bad("overview levels %s: use rising powers of two, such as 2,4,8", listText(s.Overviews))
			break
		}
	}
	if n := len(s.Overviews); n > 0 && !s.usesGDAL() && s.Overviews[n-1] > spool.MaxFusedFactor &&
		!slices.Contains(s.Overviews, spool.MaxFusedFactor) {
		bad("overview levels %s: levels above %d are made from level %d: name it too", listText(s.Overviews),
			spool.MaxFusedFactor, spool.MaxFusedFactor)
	}
	if job.Expressions == nil && (s.Scale != 0 || s.Offset != 0) && s.Scale == 0 {
		bad("scale 0")
	}
	if len(s.Colors) > 0 && s.Bands > 1 {
		bad("a colour table is for one band")
	}
	return errs
}

// listText formats numbers as the command line accepts them.
func listText[T any](list []T) string {
	text := make([]string, len(list))
	for i, v := range list {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, ",")
}

// size computes tiles and overviews for a grid.
func (o *output) size(grid raster.Grid) {
	side := o.spec.TileSize
	if side == 0 {
		side = 512
	}
	// A raster smaller than a tile gets a tile of its own size.
	o.tileW, o.tileH = min(side, roundUp(grid.Width, 16)), min(side, roundUp(grid.Height, 16))
	switch {
	case o.spec.NoOverviews:
	case o.spec.COG:
		o.factors = overview.COGLevels(grid.Width, grid.Height)
	case o.spec.Overviews != nil:
		for _, f := range o.spec.Overviews {
			if overview.Reduced(max(grid.Width, grid.Height), f) > 1 || max(grid.Width, grid.Height) == f {
				o.factors = append(o.factors, f)
			}
		}
	default:
		o.factors = overview.DefaultLevels(grid.Width, grid.Height)
	}
	if o.spec.usesGDAL() { // GDAL makes them at the end
		o.gdal.factors, o.factors = o.factors, nil
		if o.spec.Overviews == nil && o.spec.reducesItself() {
			o.gdal.factors = nil
		}
	}
}

// candidates returns the codings that the options allow.
func (o *output) candidates(t ndarray.DType) ([]tiffwrite.Coding, error) {
	if o.spec.usesGDAL() {
		return gdalCoding(t)
	}
	list := tiffwrite.Candidates(t, o.spec.Compression)
	if p := o.spec.Predictor; p != 0 {
		want := tiffwrite.Coding{Compression: o.spec.Compression, Predictor: p, Level: o.spec.Level}
		i := slices.IndexFunc(list, func(c tiffwrite.Coding) bool { return c.Predictor == p })
		if i >= 0 && o.spec.Level == 0 {
			want.Level = list[i].Level
		}
		list = []tiffwrite.Coding{want}
	}
	for i := range list {
		if o.spec.Level != 0 {
			list[i].Level = o.spec.Level
		}
		if err := list[i].Check(t); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// codingText describes for the plan what is known of the coding.
func (o *output) codingText() string {
	if o.spec.usesGDAL() {
		return o.gdalText()
	}
	if !o.typ.Valid() {
		return o.spec.Compression
	}
	list, err := o.candidates(o.typ)
	if err != nil || len(list) == 0 {
		return o.spec.Compression
	}
	if len(list) == 1 {
		return list[0].String()
	}
	return "by trial: " + list[len(list)-1].String() + " unless another is smaller"
}

// checkTyped returns an error if the options don't fit the type.
func (o *output) checkTyped() error {
	if o.spec.OverviewMethod != overview.Nearest && o.typ.IsComplex() && len(o.factors) > 0 {
		return fmt.Errorf("overviews of %v pixels can only be made by nearest", o.typ)
	}
	if n := len(o.spec.LayerNames); n > 0 && o.bands > 0 && n != o.bands {
		return fmt.Errorf("%s for %s: give one for each", units.Count(n, "layer name"), units.Count(o.bands, "band"))
	}
	if n := len(o.spec.Colors); n > 0 {
		most := 1 << 8
		if o.typ == ndarray.Uint16 {
			most = 1 << 16
		}
		switch {
		case o.typ != ndarray.Uint8 && o.typ != ndarray.Uint16:
			return fmt.Errorf("a colour table needs pixels of uint8 or uint16, not %v: ask for one of them (--type)",
				o.typ)
		case o.bands > 1:
			return fmt.Errorf("a colour table is for one band, not %d", o.bands)
		case n > most:
			return fmt.Errorf("the colour table has a colour for %d, which no pixel of %v can be", n-1, o.typ)
		}
	}
	if _, err := o.candidates(o.typ); err != nil {
		return plain(err)
	}
	return nil
}

// begin sets type and bands with the first block, and returns an error for a later block that
// differs.
func (o *output) begin(number int, t ndarray.DType, bands int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.typ.Valid() && o.typ != t || o.bands > 0 && o.bands != bands {
		what := "the output is declared as"
		if o.started && o.spec.Type != o.typ {
			what = fmt.Sprintf("block %d gave", o.firstBlock)
		}
		return fmt.Errorf("output %s: block %d gives %s of %v, but %s %s of %v; nothing is cast in silence: convert in the function, or declare the type",
			o.name, number, units.Count(bands, "band"), t, what, units.Count(max(o.bands, 1), "band"), o.typ)
	}
	if o.started {
		return nil
	}
	o.typ, o.bands, o.firstBlock = t, bands, number
	if o.nodata == nil && o.spec.Nodata != "" && o.spec.Nodata != "none" {
		v, err := parseNodata(o.spec.Nodata, t)
		if err != nil {
			return fmt.Errorf("output %s: %w", o.name, err)
		}
		o.nodata = &v
	}
	if err := o.checkTyped(); err != nil {
		return fmt.Errorf("output %s: %w", o.name, err)
	}
	if err := o.tryFormat(context.Background(), o.run.plan); err != nil {
		return err
	}
	if err := o.open(); err != nil {
		return err
	}
	o.started = true
	return nil
}

func parseNodata(text string, t ndarray.DType) (ndarray.Scalar, error) {
	real := t
	switch t {
	case ndarray.Complex64:
		real = ndarray.Float32
	case ndarray.Complex128:
		real = ndarray.Float64
	}
	v, err := ndarray.ParseScalar(text, real)
	if err != nil {
		return v, fmt.Errorf("nodata %s is not a value of %v", text, t)
	}
	return v, nil
}

// open makes the layout of the records and, unless this is a worker process, the spool. The caller
// holds o.mu.
func (o *output) open() error {
	plan := o.run.plan
	file := tiffwrite.FileSpec{Path: o.spec.label(), Width: plan.Grid.Width, Height: plan.Grid.Height, Bands: o.bands,
		Type: o.typ, TileWidth: o.tileW, TileHeight: o.tileH, PixelInterleave: o.spec.PixelInterleave && o.bands > 1,
		Grid: o.fileGrid(), Nodata: o.nodata, BigTIFF: o.spec.BigTIFF}
	for _, f := range o.factors {
		file.Levels = append(file.Levels,
			raster.Size{Width: overview.Reduced(plan.Grid.Width, f), Height: overview.Reduced(plan.Grid.Height, f)})
	}
	candidates, err := o.candidates(o.typ)
	if err != nil {
		return err
	}
	o.layout, err = spool.NewLayout(spool.Spec{Output: o.name, File: file, Blocks: plan.Blocks, Candidates: candidates,
		Factors: o.factors, Method: o.spec.OverviewMethod, Alpha: o.alpha,
		Statistics: !o.spec.NoStatistics, Histogram: !o.spec.NoHistogram})
	if err != nil {
		return err
	}
	o.chooser = spool.NewChooser(o.layout, o.file)
	if o.remote {
		return nil
	}
	if !o.run.continues { // else the spool has a header
		if err := o.startSpool(); err != nil {
			return err
		}
	}
	o.spool = spool.New(o.file, o.layout, o.chooser, o.run.timings)
	return nil
}

// newEncoder returns an encoder of a started output, whose timings have this lane.
func (o *output) newEncoder(lane string) *spool.Encoder {
	return spool.NewEncoder(o.layout, o.chooser, o.run.timings, lane)
}
