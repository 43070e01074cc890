package resolve

import (
	"fmt"
	"math"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/georef"
	"leat/internal/tiffwrite"
	"leat/raster"
)

// Two grids of longitudes may differ by a turn: one from 0 to 360 degrees, the other from -180 to
// 180. Their pixels are aligned, but half of the places have other columns.

const turn = 360 // degrees

// maxTurned is the number of columns up to which a file may have other longitudes than a grid:
// rasters around the earth repeat a column at their end.
const maxTurned = 1.5

// maxCompared bounds the files with which each file is compared.
const maxCompared = 1000

// isLongitude reports whether the columns of g are longitudes in degrees.
func isLongitude(g raster.Grid) bool {
	crs := g.CRS
	if !georef.Geographic(crs) && !georef.Projected(crs) {
		if keys, err := tiffwrite.KeysOfCode(crs.Code); err == nil {
			crs = raster.CRS{Keys: keys}
		}
	}
	return g.HasTransform && !georef.Rotated(g.Transform) && georef.Geographic(crs)
}

// turnedColumns returns the largest number of columns of a that b has after some turns, and not
// where it is. Places outside box, which may be nil, do not count, whatever their longitudes.
func turnedColumns(a, b raster.Grid, box *[4]float64) (columns float64) {
	ax0, ay0, ax1, ay1 := a.Bounds()
	bx0, by0, bx1, by1 := b.Bounds()
	south, north := max(ay0, by0), min(ay1, by1)
	if box != nil {
		south, north = max(south, box[1]), min(north, box[3])
	}
	if !(south < north) {
		return 0
	}
	for k := -3.0; k <= 3; k++ {
		shift := float64(k * turn)
		from, to := max(ax0, bx0+shift), min(ax1, bx1+shift)
		inside := box == nil || min(to, box[2]) > max(from, box[0]) || min(to, box[2]+shift) > max(from, box[0]+shift)
		if k != 0 && from < to && inside {
			known := max(0, min(to, bx1)-max(from, bx0))
			columns = max(columns, (to-from-known)/math.Abs(a.Transform[1]))
		}
	}
	return columns
}

// turnNote returns a note on two files that have places in common only after a turn; its
// Text is "" if there are none. The files need only agree in the box, if it is not nil.
func turnNote(job *jobspec.Job, in *Inputs, ref raster.Grid, box *[4]float64) (note outcome.Note) {
	if !isLongitude(ref) {
		return note
	}
	type placed struct {
		*File
		grid raster.Grid
	}
	var files []placed
	west, east := math.Inf(1), math.Inf(-1)
	for _, f := range in.Files {
		grid := f.Info.Grid
		if f.Warp != nil { // it lies near the reference, but counts where it is for a pixel size
			if grid = f.Warp.Original.Grid; job.Controls.PixelSize[0] == 0 || !isLongitude(grid) {
				continue
			}
		}
		minX, _, maxX, _ := grid.Bounds()
		west, east = min(west, minX), max(east, maxX)
		files = append(files, placed{f, grid})
	}
	if !(east-west > turn+maxTurned*math.Abs(ref.Transform[1])) {
		return note
	}
	for _, g := range files[:min(len(files), maxCompared)] {
		for _, f := range files {
			if f.File == g.File || turnedColumns(g.grid, f.grid, box) <= maxTurned {
				continue
			}
			note = outcome.Note{Field: "Controls.Reference", Value: in.Files[0].Name, Text: fmt.Sprintf(
				"%s (%s) has longitudes %s and %s (%s) %s: pixels of one place that are 360 degrees apart do not meet",
				g.Name, g.Path, longitudes(g.grid), f.Name, f.Path, longitudes(f.grid))}
			if job.Controls.Reference != "" || job.Controls.PixelSize[0] > 0 {
				note.Field = "Controls.Grid"
			}
			return note
		}
	}
	return note
}

func longitudes(g raster.Grid) string {
	minX, _, maxX, _ := g.Bounds()
	return plainNumber(minX) + " to " + plainNumber(maxX)
}

// offText describes how g differs from the grid ref, for a file that is warped onto it.
func offText(g, ref raster.Grid) string {
	if text := OffGrid(g, ref); text != "" {
		return text
	}
	return "pixels of it lie 360 degrees from theirs"
}
