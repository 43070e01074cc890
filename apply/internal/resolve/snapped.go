package resolve

import (
	"fmt"
	"math"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/gdal"
	"leat/raster"
)

// coverage holds the pixels of the job's grid that files count as covering.
type coverage map[*File]block.Window

// of returns the pixels of a file, which are its own if nothing else is known.
func (c coverage) of(f *File) block.Window {
	if w, ok := c[f]; ok {
		return w
	}
	return f.Extent()
}

// ofItem returns the window around the pixels of the files of one item of a list.
func (c coverage) ofItem(files []*File) block.Window {
	w := c.of(files[0])
	for _, f := range files[1:] {
		w = w.Union(c.of(f))
	}
	return w
}

// snappedGrid returns the grid of Controls.PixelSize around all files, whose edges are multiples of
// the size, as with gdalwarp -tap. Its CRS is Controls.CRS or that of the grid base. It also
// returns the pixels that each file touches.
func snappedGrid(job *jobspec.Job, in *Inputs, base raster.Grid, baseName string) (raster.Grid, coverage, error) {
	c := &job.Controls
	crs := base.CRS
	if c.CRS != nil {
		crs = *c.CRS
	}
	at := lattice{x: c.PixelSize[0], y: c.PixelSize[1], crs: crs}
	cover := coverage{}
	all, err := at.window(base, baseName)
	if err != nil {
		return base, nil, err
	}
	if c.Footprint != jobspec.Reference {
		all = block.Window{}
	}
	for _, f := range in.Files {
		w, err := at.window(f.Info.Grid, f.Name+" ("+f.Path+")")
		if err != nil {
			return base, nil, err
		}
		cover[f] = w
		if c.Footprint != jobspec.Reference {
			all = all.Union(w)
		}
	}
	for f, w := range cover {
		cover[f] = w.Shift(-all.Col, -all.Row)
	}
	return raster.Grid{Width: all.Width, Height: all.Height, HasTransform: true, CRS: crs,
		Transform: raster.Transform{float64(all.Col) * at.x, at.x, 0, -float64(all.Row) * at.y, 0, -at.y}}, cover, nil
}

// lattice divides the plane of a CRS into pixels. The upper left corner of one of them is the
// origin. Rows run south.
type lattice struct {
	x, y float64 // size of a pixel
	crs  raster.CRS
}

// window returns the pixels that a grid touches. Edges within the tolerance for aligned grids count
// as lying on edges of pixels.
func (l lattice) window(g raster.Grid, name string) (w block.Window, err error) {
	var box [4]float64
	switch {
	case !g.HasTransform:
		return w, jobspec.JobErrorf("Controls.PixelSize", "%s is %w", name, outcome.ErrNotGeoreferenced)
	case g.CRS.IsZero() != l.crs.IsZero():
		return w, jobspec.JobErrorf("Controls.CRS", "%s has the CRS %v, and the grid %v", name, g.CRS, l.crs)
	case g.CRS.IsZero() || gdal.SameCRS(g.CRS, l.crs):
		box[0], box[1], box[2], box[3] = g.Bounds()
	default:
		if err := gdal.Available(); err != nil {
			return w, jobspec.Errorf("Controls.CRS", "%s has the CRS %v, and the grid %v, which needs GDAL: %w", name, g.CRS, l.crs, err)
		}
		if box, err = gdal.Extent(g, l.crs); err != nil {
			return w, fmt.Errorf("%s: %w", name, err)
		}
	}
	left, right := math.Floor(box[0]/l.x+alignTolerance), math.Ceil(box[2]/l.x-alignTolerance)
	top, bottom := math.Floor(-box[3]/l.y+alignTolerance), math.Ceil(-box[1]/l.y-alignTolerance)
	for _, v := range []float64{left, right, top, bottom} {
		if !(math.Abs(v) < 1<<40) {
			return w, &outcome.JobError{Err: jobspec.Errorf("Controls.PixelSize",
				"%s lies %.3g pixels of %v x %v from the origin, expected larger ones", name, math.Abs(v), l.x, l.y)}
		}
	}
	return block.Window{Col: int(left), Row: int(top), Width: max(1, int(right-left)),
		Height: max(1, int(bottom-top))}, nil
}
