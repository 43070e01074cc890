package output

import (
	"context"
	"fmt"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/colortable"
	"leat/internal/overview"
	"leat/internal/tiffwrite"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
)

// Output is an output of a job. The run's preparation completes it; the run itself only reads it.
type Output struct {
	Name string
	Spec Spec // with defaults
	// Type, Bands and Nodata are those of the file. Type is invalid and Bands 0 if only the first
	// block shows them.
	Type   ndarray.DType
	Bands  int
	Nodata *ndarray.Scalar
	// Copied are the bands of inputs that the output's bands copy unchanged, nil for other bands;
	// empty without expressions.
	Copied []*raster.Band
	// Inherited are by band the scale, offset and unit that selected pixels of inputs keep, with a
	// Scale other than 0; empty without expressions. NotInherited says why a band does not inherit
	// the scale that its pixels have; nil if there is none.
	Inherited    []outcome.Scaling
	NotInherited *outcome.Note
	// Alpha is the band, counted from 1, that marks valid pixels of the others; 0 for none.
	Alpha                 int
	TileWidth, TileHeight int
	Method                overview.Method
	Factors               []int  // of the overviews that are made from blocks, rising
	WKT                   string // of the CRS, for .aux.xml; "" if the file's grid can express it

	format format
}

// New returns an output with defaults filled in, and the errors in its options that can be found
// before the grid is known.
func New(name string, spec Spec, expressions bool) (*Output, []error) {
	o := &Output{Name: name, Spec: spec, Type: spec.Type, Bands: spec.Bands, format: native{}}
	switch {
	case spec.Table != nil:
		o.format, o.Type, o.Bands = table{}, TableType, TableBands
		o.Spec.NoStatistics, o.Spec.NoHistogram, o.Spec.NoOverviews = true, true, true
		if o.Spec.TileSize == 0 {
			o.Spec.TileSize = tableAlign
		}
	case spec.Polygons:
		o.format = &polygons{}
		o.Spec.NoStatistics, o.Spec.NoHistogram, o.Spec.NoOverviews = true, true, true
	case spec.UsesGDAL():
		o.format = &gdalFormat{}
	}
	return o, o.resolve(expressions)
}

// resolve fills in defaults and returns the errors in the options.
func (o *Output) resolve(expressions bool) []error {
	s := &o.Spec
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("output %s: %w", o.Name, jobspec.Errorf("Output."+field, format, args...)))
	}
	var err error
	if o.Method, err = overview.ParseMethod(s.OverviewMethod); err != nil {
		bad("OverviewMethod", "%w", err)
	}
	errs = append(errs, o.format.complete(o)...)
	if s.TileSize < 0 || s.TileSize%16 != 0 || s.TileSize > 4096 {
		bad("TileSize", "tile size %d: expected a multiple of 16 up to 4096", s.TileSize)
	}
	if s.Bands < 0 {
		bad("Bands", "%d bands", s.Bands)
	}
	if s.COG && s.NoOverviews {
		bad("NoOverviews", "a COG has overviews")
	}
	for i, f := range s.Overviews {
		if f < 2 || f&(f-1) != 0 || i > 0 && f <= s.Overviews[i-1] {
			bad("Overviews", "overview levels %s: expected rising powers of two", listText(s.Overviews))
			break
		}
	}
	if !s.Polygons && (s.Sieve != 0 || s.Diagonals) {
		bad("Polygons", "a sieve, and diagonals that connect pixels, are for polygons: the output is a raster")
	}
	if !expressions && (s.Scale != 0 || s.Offset != 0) && s.Scale == 0 {
		bad("Scale", "scale 0")
	}
	if len(s.Colors) > 0 && s.Bands > 1 {
		bad("Colors", "a colour table is for one band, not %d", s.Bands)
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

// SetGrid computes tiles and overviews for a grid.
func (o *Output) SetGrid(grid raster.Grid) {
	side := o.Spec.TileSize
	if side == 0 {
		side = 512
	}
	// A raster smaller than a tile gets a tile of its own size.
	o.TileWidth, o.TileHeight = min(side, RoundUp(grid.Width, 16)), min(side, RoundUp(grid.Height, 16))
	switch {
	case o.Spec.NoOverviews:
	case o.Spec.COG:
		o.Factors = overview.COGLevels(grid.Width, grid.Height)
	case o.Spec.Overviews != nil:
		for _, f := range o.Spec.Overviews {
			if overview.Reduced(max(grid.Width, grid.Height), f) > 1 || max(grid.Width, grid.Height) == f {
				o.Factors = append(o.Factors, f)
			}
		}
	default:
		o.Factors = overview.DefaultLevels(grid.Width, grid.Height)
	}
	o.Factors = o.format.takeOverviews(o, o.Factors)
}

// LaterFactors returns the factors of the overviews that are made when the file is laid out.
func (o *Output) LaterFactors() []int { return o.format.laterFactors() }

// RoundUp returns the smallest multiple of step, above 0, that is not below n.
func RoundUp(n, step int) int { return max(1, (n+step-1)/step) * step }

// CodingText describes for the plan what is known of the coding.
func (o *Output) CodingText() string { return o.format.codingText(o) }

// SetNodata parses the nodata value, once the type is known. It does nothing if there is one.
func (o *Output) SetNodata() error {
	if o.Nodata != nil || o.Spec.Nodata == "" || o.Spec.Nodata == "none" {
		return nil
	}
	v, err := ParseNodata(o.Spec.Nodata, o.Type)
	if err != nil {
		return err
	}
	o.Nodata = &v
	return nil
}

// CheckType returns an error if the options don't fit the type.
func (o *Output) CheckType() error {
	if !o.Method.Picks() && o.Type.IsComplex() && len(o.Factors) > 0 {
		return jobspec.Errorf("Output.OverviewMethod", "overviews of %v pixels can only be made by nearest or center", o.Type)
	}
	if n := len(o.Spec.LayerNames); n > 0 && o.Bands > 0 && n != o.Bands {
		return jobspec.Errorf("Output.LayerNames", "%s for %s: expected one for each", units.Count(n, "band name"),
			units.Count(o.Bands, "band"))
	}
	if n := len(o.Spec.Colors); n > 0 {
		most := 1 << 8
		if o.Type == ndarray.Uint16 {
			most = 1 << 16
		}
		switch {
		case o.Type != ndarray.Uint8 && o.Type != ndarray.Uint16:
			return jobspec.Errorf("Output.Type", "a colour table needs pixels of uint8 or uint16, not %v", o.Type)
		case o.Bands > 1:
			return jobspec.Errorf("Output.Colors", "a colour table is for one band, not %d", o.Bands)
		case n > most:
			return jobspec.Errorf("Output.Colors", "the colour table has a colour for %d, which no pixel of %v can be", n-1, o.Type)
		}
	}
	if err := o.checkColors(); err != nil {
		return err
	}
	_, err := o.format.candidates(o, o.Type)
	return err
}

// checkColors returns an error for names of values and colour interpretations that don't fit the
// bands.
func (o *Output) checkColors() error {
	if n := len(o.Spec.Categories); n > 0 && o.Bands > 1 {
		return jobspec.Errorf("Output.Categories", "names of values are for one band, not %d", o.Bands)
	}
	list := o.Spec.ColorInterp
	if n := len(list); n > o.Bands && o.Bands > 0 {
		return jobspec.Errorf("Output.ColorInterp", "colour interpretation %s of band %d: the output has %s", list[n-1], n,
			units.Count(o.Bands, "band"))
	}
	alpha := 0
	for i, c := range list {
		if c == "" {
			continue
		}
		if _, ok := colortable.ParseMeaning(string(c)); !ok {
			return jobspec.Errorf("Output.ColorInterp", "unknown colour interpretation %q of band %d", c, i+1)
		}
		switch isPalette := o.Spec.Colors != nil || o.Bands > 0 && o.bandInfo(i).Colors != nil; {
		case c == raster.ColorPalette && !isPalette:
			return jobspec.Errorf("Output.ColorInterp", "band %d is a palette and has no colour table", i+1)
		case c != raster.ColorPalette && o.Spec.Colors != nil:
			return jobspec.Errorf("Output.ColorInterp", "a band with a colour table is a palette, not %s", c)
		case c == raster.ColorAlpha && alpha > 0:
			return jobspec.Errorf("Output.ColorInterp", "bands %d and %d are alpha: expected one", alpha, i+1)
		case c == raster.ColorAlpha:
			alpha = i + 1
		}
	}
	return nil
}

// ParseNodata parses a nodata value of the type.
func ParseNodata(text string, t ndarray.DType) (ndarray.Scalar, error) {
	real := t
	switch t {
	case ndarray.Complex64:
		real = ndarray.Float32
	case ndarray.Complex128:
		real = ndarray.Float64
	}
	v, err := ndarray.ParseScalar(text, real)
	if err != nil {
		return v, jobspec.Errorf("Output.Nodata", "nodata %s is not a value of %v", text, t)
	}
	return v, nil
}

// Candidates returns the codings that the options allow for a type.
func (o *Output) Candidates(t ndarray.DType) ([]tiffwrite.Coding, error) {
	return o.format.candidates(o, t)
}

// Sample writes a sample of the output where only that shows what the format keeps, and notes what
// it does not keep. It does nothing on later calls.
func (o *Output) Sample(ctx context.Context, grid raster.Grid) error {
	return o.format.sample(ctx, o, grid)
}

// Files returns the names of the output's files that a sample showed.
func (o *Output) Files() []string { return o.format.files() }

// Notes returns the notes on what the format does not keep.
func (o *Output) Notes() []outcome.Note { return o.format.notes() }
