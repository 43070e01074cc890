package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"leat/apply"
	"leat/block"
	"leat/internal/gdal"
)

// footprints are what --footprint takes.
var footprints = []string{"intersection", "union", "reference"}

// margins are what --margin takes.
var margins = []string{"nodata", "reflect", "nearest"}

// gridFlags are the options of the grid and of warping onto it.
type gridFlags struct {
	footprint, reference, grid string
	resample, useOverviews     []string // [NAME=]METHOD, NAME
	bbox, srcwin, bboxCRS      string
	pixelSize, crs, cutline    string
	extents                    []string
	margin                     string

	// What Finalize reads.
	edge   block.Margin
	cover  apply.Footprint
	box    *[4]float64
	pixels *block.Window
	warps  []namedValue[string]
	size   [2]float64
	cut    string
}

// AddFlags adds the options.
func (f *gridFlags) AddFlags(fl *pflag.FlagSet) {
	fl.StringVar(&f.footprint, "footprint", "",
		"`WHICH`: the pixels to cover: intersection of the inputs (default; with --grid: reference), union, or reference: those of the grid")
	group(fl, "footprint", "Grid")
	fl.StringVar(&f.reference, "reference", "",
		"`NAME`: the input, or another raster, whose grid is meant (default: the first input by name); inputs on other grids are warped onto it by GDAL")
	fl.StringVar(&f.grid, "grid", "", "`GRID`: the grid onto which inputs on others are warped: a raster that has it, or CRS,MINX,MINY,MAXX,MAXY,SIZE[,SIZEY] such as EPSG:32631,500000,5190000,509990,5200000,10; CRS may also be a raster, a file .prj or .wkt, or none")
	fl.StringVar(&f.pixelSize, "pixel-size", "", "`SIZE[,SIZEY]`: a grid of pixels of this size, whose edges are multiples of it, as gdalwarp -tap makes it; inputs on others are warped onto it")
	fl.StringVar(&f.crs, "crs", "", "`CRS`: that of the grid of --pixel-size, such as EPSG:32631, a raster or a file .prj or .wkt (default: that of the reference)")
	addList(fl, &f.resample, "resample", "",
		"`[NAME=]METHOD`: how an input is warped: near (default), bilinear, cubic, cubicspline, lanczos, average, rms, mode, min, max, median, q1 or q3")
	addList(fl, &f.useOverviews, "use-overviews", "",
		"`NAME`: an input may be warped from its overviews where they have the resolution that is needed (default: from its pixels)")
	fl.StringVar(&f.bbox, "bbox", "", "`X,Y,X,Y`: cover only pixels whose centres lie in a box: smallest x and y, largest x and y, in the grid's coordinates")
	fl.StringVar(&f.bboxCRS, "bbox-crs", "", "`CRS`: that of the coordinates of --bbox, such as EPSG:4326 (default: that of the grid)")
	addList(fl, &f.extents, "extent", "",
		"`FILE`: cover only what a raster, or the layers of a file of vectors, cover, in whatever CRS; again for the box around several")
	fl.StringVar(&f.cutline, "cutline", "", "`FILE`: pixels whose centre lies in none of its polygons are nodata in all outputs; it is the vector cutline for --layer, --where, --sql, --all-touched and --open-option")
	fl.StringVar(&f.srcwin, "srcwin", "", "`COL,ROW,W,H`: cover only a window of the footprint's pixels")
	fl.StringVar(&f.margin, "margin", "", "`WHAT`: what focal functions see around all inputs: nodata (default), reflect or nearest")
}

// Finalize reads the values of the options, as far as they are right.
func (f *gridFlags) Finalize() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch f.footprint {
	case "":
		if f.grid != "" {
			f.cover = apply.Reference
		}
	case "intersection":
		f.cover = apply.Intersection
	case "union":
		f.cover = apply.Union
	case "reference":
		f.cover = apply.Reference
	default:
		bad("--footprint %s: %w", f.footprint, unknownWord(f.footprint, footprints))
	}
	if f.bbox != "" {
		v, err := numbers(f.bbox)
		if err != nil || len(v) != 4 {
			bad("--bbox %s: write it as MINX,MINY,MAXX,MAXY", f.bbox)
		} else {
			f.box = &[4]float64{v[0], v[1], v[2], v[3]}
		}
	}
	f.size = [2]float64{}
	if f.pixelSize != "" {
		v, err := numbers(f.pixelSize)
		usable := func(n float64) bool { return n > 0 && !math.IsInf(n, 0) }
		if err != nil || len(v) == 0 || len(v) > 2 || !usable(v[0]) || !usable(v[len(v)-1]) {
			bad("--pixel-size %s: write a size above 0, such as 30, or a width and a height, such as 30,20", f.pixelSize)
		} else {
			f.size = [2]float64{v[0], v[len(v)-1]}
		}
	}
	if f.pixelSize != "" && f.grid != "" {
		bad("--pixel-size and --grid: give one of them: a grid has a size of its own")
	}
	if f.crs != "" && f.pixelSize == "" {
		bad("--crs %s: it is for --pixel-size, which is missing", shorten(f.crs))
	}
	switch b := f.box; {
	case f.bboxCRS != "" && f.bbox == "":
		bad("--bbox-crs %s: it is for --bbox, which is missing", shorten(f.bboxCRS))
	case f.bboxCRS == "" || b == nil:
	case b[0]-b[0] != 0 || b[1]-b[1] != 0 || b[2]-b[2] != 0 || b[3]-b[3] != 0:
		bad("--bbox %s: with --bbox-crs, give finite numbers", f.bbox)
	case !(b[0] < b[2]) || !(b[1] < b[3]):
		bad("--bbox %s: the box is empty: give smallest x and y, then largest x and y", f.bbox)
	}
	if f.cutline != "" {
		var err error
		if f.cut, err = localName(f.cutline); err != nil {
			bad("--cutline %s: %w", shown(f.cutline), err)
		}
	}
	if f.srcwin != "" {
		v, err := integers(f.srcwin)
		if err != nil || len(v) != 4 || v[2] <= 0 || v[3] <= 0 {
			bad("--srcwin %s: write it as COLUMN,ROW,WIDTH,HEIGHT", f.srcwin)
		} else {
			f.pixels = &block.Window{Col: v[0], Row: v[1], Width: v[2], Height: v[3]}
		}
	}
	switch f.margin {
	case "", "nodata":
	case "reflect":
		f.edge = block.MarginReflect
	case "nearest":
		f.edge = block.MarginNearest
	default:
		bad("--margin %s: %w", f.margin, unknownWord(f.margin, margins))
	}
	if f.grid != "" && f.reference != "" {
		bad("--grid and --reference: give one of them")
	}
	if len(f.extents) > 0 && f.bbox != "" {
		bad("--bbox and --extent: give one of them")
	}
	if (len(f.resample) > 0 || len(f.useOverviews) > 0) && f.grid == "" && f.reference == "" &&
		f.footprint != "reference" && f.pixelSize == "" {
		bad("--resample and --use-overviews are for inputs that are warped: say onto which grid, with --reference, --grid or --pixel-size")
	}
	var err error
	f.warps, err = parseNamed("--resample", f.resample, parseMethod)
	return errors.Join(append(errs, err)...)
}

// parseMethod checks the name of a resampling method.
func parseMethod(s string) (string, error) {
	if strings.EqualFold(s, "sum") {
		return s, gdal.CheckMethod(s)
	}
	lower := strings.ToLower(s)
	switch lower {
	case "nearest":
		return "near", nil
	case "med":
		return "median", nil
	}
	if methods := gdal.Methods(); !slices.Contains(methods, lower) {
		err := fmt.Errorf("use one of %s", strings.Join(methods, " "))
		if other := otherMethods[lower]; other != "" {
			return s, hintedError{err, fmt.Sprintf("did you mean %s?", other)}
		}
		return s, didYouMean(err, lower, methods)
	}
	return lower, nil
}

// setOptions sets the grid of a job that has its inputs, as far as they could be read.
func (f *gridFlags) setOptions(ctx context.Context, job *apply.Job) error {
	c := &job.Controls
	c.Footprint, c.Reference, c.BBox, c.Window, c.PixelSize = f.cover, f.reference, f.box, f.pixels, f.size
	c.Margin = f.edge
	if c.Footprint == apply.Reference && c.Reference == "" && f.grid == "" && len(job.Inputs) > 0 {
		c.Reference = sortedNames(job.Inputs)[0]
	}
	var errs []error
	if f.grid != "" && f.reference == "" {
		g, err := gridOf(ctx, job, f.grid)
		if err != nil {
			errs = append(errs, err)
		} else {
			c.Grid = &g
		}
	}
	if f.crs != "" && f.size[0] > 0 {
		crs, err := systemOf(ctx, job, "--crs", f.crs)
		if err != nil {
			errs = append(errs, err)
		} else {
			c.CRS = &crs
		}
	}
	if f.bboxCRS != "" && f.box != nil {
		crs, err := systemOf(ctx, job, "--bbox-crs", f.bboxCRS)
		if err != nil {
			errs = append(errs, err)
		} else {
			c.Extents = append(c.Extents, gridOfBox(*f.box, crs))
		}
		c.BBox = nil
	}
	if f.bbox == "" {
		for _, path := range f.extents {
			grids, err := extentsOf(ctx, job, path)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			c.Extents = append(c.Extents, grids...)
		}
	}
	if len(errs) > 0 && c.Grid == nil && c.Reference == "" {
		c.Footprint = apply.Intersection // else the footprint of a grid that could not be read is called wrong, too
	}
	return errors.Join(errs...)
}

// cutlineName is the name of the vector of --cutline.
const cutlineName = "cutline"

// addCutline adds the vector of --cutline to a job that has its inputs and vectors.
func (f *gridFlags) addCutline(job *apply.Job) error {
	if f.cut == "" {
		return nil
	}
	_, input := job.Inputs[cutlineName]
	_, vector := job.Vectors[cutlineName]
	if input || vector {
		return fmt.Errorf("--cutline %s: there is an input %s already: give it another name", shown(f.cutline), cutlineName)
	}
	job.Vectors[cutlineName] = apply.Vector{Path: f.cut}
	job.Controls.Cutline = cutlineName
	return nil
}

// setWarps sets how inputs off the grid are warped onto it.
func (f *gridFlags) setWarps(job *apply.Job) error {
	var errs []error
	for _, w := range f.warps {
		if _, ok := job.Inputs[w.name]; w.named && !ok {
			errs = append(errs, unknownInput(job, "--resample", w.text, w.name))
			continue
		}
		for _, n := range sortedNames(job.Inputs) {
			if in := job.Inputs[n]; n == w.name || !w.named {
				in.Resample = w.value
				job.Inputs[n] = in
			}
		}
	}
	for i, name := range f.useOverviews {
		in, ok := job.Inputs[name]
		if !ok {
			errs = append(errs, unknownInput(job, "--use-overviews", name, name))
			continue
		}
		if slices.Contains(f.useOverviews[:i], name) {
			errs = append(errs, givenAlready("--use-overviews", name, "", name))
		}
		in.Overviews = true
		job.Inputs[name] = in
	}
	return errors.Join(errs...)
}

// unknownInput is the error for an option that names no input that can be warped.
func unknownInput(job *apply.Job, option, text, name string) error {
	if _, ok := job.Vectors[name]; ok {
		return fmt.Errorf("%s %s: %s is a vector (-v), which is burned onto the grid and not warped", option, text, name)
	}
	return fmt.Errorf("%s %s: %w", option, text, unknownName("input", name, sortedNames(job.Inputs)))
}
