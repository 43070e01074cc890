package main

import "github.com/spf13/pflag"

// gridFlags are the options of the grid and of warping onto it.
type gridFlags struct {
	footprint, reference, grid string
	resample, useOverviews     []string // [NAME=]METHOD, NAME
	bbox, srcwin               string
	extents                    []string
}

// AddFlags adds the options.
func (f *gridFlags) AddFlags(fl *pflag.FlagSet) {
	fl.StringVar(&f.footprint, "footprint", "",
		"`WHICH`: the pixels to cover: intersection of the inputs (default; with --grid: reference), union, or reference: those of the grid")
	group(fl, "footprint", "Grid")
	fl.StringVar(&f.reference, "reference", "",
		"`NAME`: the input, or another raster, whose grid is meant (default: the first input by name); inputs on other grids are warped onto it by GDAL")
	fl.StringVar(&f.grid, "grid", "", "`GRID`: the grid onto which inputs on others are warped: a raster that has it, or CRS,MINX,MINY,MAXX,MAXY,SIZE[,SIZEY] such as EPSG:32631,500000,5190000,509990,5200000,10; CRS may also be a raster, a file .prj or .wkt, or none")
	fl.StringArrayVar(&f.resample, "resample", nil,
		"`[NAME=]METHOD`: how an input is warped: near (default), bilinear, cubic, cubicspline, lanczos, average, rms, mode, min, max, median, q1 or q3")
	fl.StringArrayVar(&f.useOverviews, "use-overviews", nil,
		"`NAME`: an input may be warped from its overviews where they have the resolution that is needed (default: from its pixels)")
	fl.StringVar(&f.bbox, "bbox", "", "`X,Y,X,Y`: cover only pixels whose centres lie in a box: smallest x and y, largest x and y, in the grid's coordinates")
	fl.StringArrayVar(&f.extents, "extent", nil,
		"`FILE`: cover only what it covers, in whatever CRS; again for the box around several")
	fl.StringVar(&f.srcwin, "srcwin", "", "`COL,ROW,W,H`: cover only a window of the footprint's pixels")
}
