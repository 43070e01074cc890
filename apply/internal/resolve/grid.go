package resolve

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/gdal"
	"leat/internal/georef"
	"leat/raster"
)

// alignTolerance is the distance in pixels up to which two grids count as one. A thousandth of a
// pixel over the whole raster is well above the rounding of georeferencing in text and well below
// what resampling could show.
const alignTolerance = 1e-3

// findGrid computes the job's grid: that of the reference, cut to the footprint, the box and the
// window. It sets each file's offset from it. The ground control points and RPCs are left to
// keepControl. domain is the smallest window of the grid that contains the footprint and all files.
// notes are on files that do not meet.
func findGrid(job *jobspec.Job, in *Inputs) (_ raster.Grid, domain block.Window, notes []outcome.Note, _ error) {
	grid, domain, box, err := placeFiles(job, in)
	if err != nil {
		return grid, domain, nil, err
	}
	if note := turnNote(job, in, grid, box); note.Text != "" {
		notes = append(notes, note)
	}
	return grid, domain, notes, nil
}

// placeFiles is findGrid without notes. Where the job restricts the grid to a box, it returns it.
func placeFiles(job *jobspec.Job, in *Inputs) (_ raster.Grid, domain block.Window, box *[4]float64, _ error) {
	c := &job.Controls
	ref, refName, refPath, err := referenceGrid(job, in)
	ref.GCPs, ref.RPC = nil, nil
	if err != nil {
		return ref, domain, nil, err
	}
	if ref.Width <= 0 || ref.Height <= 0 {
		return ref, domain, nil, jobspec.Errorf("Controls.Reference", "%s has %d x %d pixels, expected at least one", refName, ref.Width, ref.Height)
	}
	if ref.Width > jobspec.MaxGridSide || ref.Height > jobspec.MaxGridSide || !georef.Finite(ref.Transform) {
		return ref, domain, nil, fmt.Errorf("%s has %d x %d pixels and the transform %v: expected at most %d a side and finite numbers", refName, ref.Width, ref.Height, ref.Transform, jobspec.MaxGridSide)
	}
	if georef.Rotated(ref.Transform) && c.PixelSize[0] == 0 {
		return ref, domain, nil, &outcome.JobError{Err: rotatedError(ref, refName, refPath, in)}
	}
	var cover coverage
	if c.PixelSize[0] > 0 {
		if ref, cover, err = snappedGrid(job, in, ref, refName); err != nil {
			return ref, domain, nil, err
		}
		refName = fmt.Sprintf("the grid of %s pixels", pixelSize(ref))
		if ref.Width > jobspec.MaxGridSide || ref.Height > jobspec.MaxGridSide {
			return ref, domain, nil, &outcome.JobError{Err: jobspec.Errorf("Controls.PixelSize",
				"the inputs cover %d x %d pixels of %s, expected at most %d a side", ref.Width, ref.Height, pixelSize(ref),
				jobspec.MaxGridSide)}
		}
	}
	var errs []error
	var off []*File
	given := c.Grid != nil || c.Reference != ""
	turns := given && cover == nil && isLongitude(ref)
	for _, f := range in.Files {
		switch d := OffGrid(f.Info.Grid, ref); {
		case d == "" && !(turns && !f.Version.Given && turnedColumns(ref, f.Info.Grid, nil) > maxTurned):
			f.place(ref)
		case given || cover != nil:
			off = append(off, f)
		default:
			errs = append(errs, &outcome.JobError{Err: &outcome.FieldError{Field: "Controls.Reference", Value: in.Files[0].Name,
				Err: fmt.Errorf("inputs are not on one grid: %s (%s) against %s: %s", f.Name, f.Path, refName, d)}})
		}
	}
	if len(errs) > 0 {
		return ref, domain, nil, errors.Join(errs...)
	}
	if err := warpAll(job, off, ref, refName); err != nil {
		return ref, domain, nil, err
	}
	w := ref.Window()
	switch {
	case len(in.Files) == 0 || c.Footprint == jobspec.Reference:
	case c.Footprint == jobspec.Union:
		w = block.Window{}
		for _, f := range in.Files {
			w = w.Union(cover.of(f))
		}
	default:
		first := true
		for item := range in.items() {
			if first {
				w, first = cover.ofItem(item), false
			} else {
				w = w.Intersect(cover.ofItem(item))
			}
		}
	}
	if w.Empty() {
		if note := turnNote(job, in, ref, nil); note.Text != "" {
			return ref, domain, nil, &outcome.JobError{Err: &outcome.FieldError{Field: note.Field, Value: note.Value,
				Err: fmt.Errorf("the inputs have no pixel in common: %s", note.Text)}}
		}
		return ref, domain, nil, jobspec.JobErrorf("Controls.Footprint", "the inputs have no pixel in common:%s", extents(in))
	}
	domain = w
	for _, f := range in.Files {
		domain = domain.Union(f.Extent())
	}
	if limits := c.BBox; limits != nil || len(c.Extents) > 0 {
		if limits == nil {
			around, err := extentsBox(job, ref.Sub(w))
			if err != nil {
				return ref, domain, nil, err
			}
			limits = &around
		}
		inside, err := bboxWindow(ref, *limits)
		if err != nil {
			return ref, domain, nil, err
		}
		if inside = inside.Intersect(w); inside.Empty() {
			return ref, domain, nil, &outcome.JobError{Err: jobspec.Errorf("Controls.BBox", "the bounding box %s has no pixel of the inputs:%s",
				boxText(*limits), extents(in))}
		}
		w, box = inside, limits
	}
	if c.Window != nil {
		if c.Window.Empty() || !(block.Window{Width: w.Width, Height: w.Height}).Contains(*c.Window) {
			return ref, domain, nil, &outcome.JobError{Err: jobspec.Errorf("Controls.Window",
				"the window of %d x %d pixels from column %d, row %d does not lie inside the grid of %d x %d pixels",
				c.Window.Width, c.Window.Height, c.Window.Col, c.Window.Row, w.Width, w.Height)}
		}
		w = c.Window.Shift(w.Col, w.Row)
	}
	if c.Window != nil || c.Footprint == jobspec.Reference {
		minX, minY, maxX, maxY := ref.Sub(w).Bounds()
		box = &[4]float64{minX, minY, maxX, maxY}
	}
	if w.Width > jobspec.MaxGridSide || w.Height > jobspec.MaxGridSide {
		return ref, domain, nil, &outcome.JobError{Err: fmt.Errorf("the grid would have %d x %d pixels: expected at most %d a side", w.Width,
			w.Height, jobspec.MaxGridSide)}
	}
	for _, f := range in.Files {
		f.ColOffset += w.Col
		f.RowOffset += w.Row
	}
	return ref.Sub(w), domain.Shift(-w.Col, -w.Row), box, nil
}

// referenceGrid returns the grid that all files are compared with, its name for messages, and the
// path of its file, if there is one.
func referenceGrid(job *jobspec.Job, in *Inputs) (grid raster.Grid, name, path string, err error) {
	c := &job.Controls
	switch {
	case c.Grid != nil:
		return *c.Grid, "the given grid", "", nil
	case c.Reference != "":
		files := in.ByName[c.Reference]
		if files == nil {
			return grid, "", "", &outcome.JobError{Err: unknownReference(c.Reference, slices.Sorted(maps.Keys(in.ByName)))}
		}
		return files[0].Info.Grid, c.Reference + " (" + files[0].Path + ")", files[0].Path, nil
	case len(in.Files) == 0:
		return grid, "", "", jobspec.Errorf("Controls.Grid", "a job without inputs needs a grid")
	}
	f := in.Files[0]
	return f.Info.Grid, f.Name + " (" + f.Path + ")", f.Path, nil
}

// unknownReference returns an error about a reference that is none of the names of inputs.
func unknownReference(name string, known []string) error {
	return &outcome.FieldError{Field: "Controls.Reference", Err: &outcome.UnknownNameError{Name: name, Known: known,
		Err: fmt.Errorf("the reference %q is not the name of an input; there is %s", name, strings.Join(known, ", "))}}
}

func round(v float64) int { return int(math.Round(v)) }

// OffGrid describes how g differs from the grid ref; "" if the two are a whole number of pixels
// apart.
func OffGrid(g, ref raster.Grid) string {
	var d []string
	switch {
	case g.HasTransform != ref.HasTransform:
		d = append(d, "one is georeferenced and the other is not")
	case georef.Rotated(g.Transform):
		d = append(d, "it is rotated")
	case g.Transform[5]*ref.Transform[5] < 0:
		d = append(d, map[bool]string{true: "its rows run from south to north",
			false: "its rows run from north to south"}[g.Transform[5] > 0]+", and not those of the other")
	case !g.HasTransform && (g.Width != ref.Width || g.Height != ref.Height):
		d = append(d, fmt.Sprintf("%d x %d pixels, not %d x %d, and neither says where they lie", g.Width, g.Height,
			ref.Width, ref.Height))
	default:
		// Over the larger of the two rasters the pixels must stay within the tolerance.
		n := float64(max(g.Width, g.Height, ref.Width, ref.Height))
		dx, dy := g.Transform[1]-ref.Transform[1], g.Transform[5]-ref.Transform[5]
		if math.Abs(dx)*n > alignTolerance*math.Abs(ref.Transform[1]) ||
			math.Abs(dy)*n > alignTolerance*math.Abs(ref.Transform[5]) {
			d = append(d, fmt.Sprintf("pixel size %s, not %s", pixelSize(g), pixelSize(ref)))
		} else if col, row, ok := ref.Transform.Invert(g.Transform[0], g.Transform[3]); !ok {
			d = append(d, "the reference has pixels of size 0")
		} else if fc, fr := col-math.Round(col),
			row-math.Round(row); math.Abs(fc) > alignTolerance || math.Abs(fr) > alignTolerance {
			d = append(d, fmt.Sprintf("its pixels lie %s and %s from theirs", shiftText(fc, "to the right", "to the left"),
				shiftText(fr, "down", "up")))
		} else if math.Abs(col) > math.MaxInt32 || math.Abs(row) > math.MaxInt32 {
			d = append(d, "it lies more than 2^31 pixels away")
		}
	}
	if !gdal.SameCRS(g.CRS, ref.CRS) {
		d = append(d, fmt.Sprintf("CRS %v, not %v", g.CRS, ref.CRS))
	}
	return strings.Join(d, "; ")
}

// shiftText describes a shift in pixels, whose direction is back if it is negative.
func shiftText(pixels float64, forward, back string) string {
	if pixels < 0 {
		forward = back
	}
	return fmt.Sprintf("%.4g pixel %s", math.Abs(pixels), forward)
}

func pixelSize(g raster.Grid) string {
	return number(math.Abs(g.Transform[1])) + " x " + number(math.Abs(g.Transform[5]))
}

// rotatedError returns an error with a grid onto which a job with a rotated reference can warp its
// inputs.
func rotatedError(ref raster.Grid, name, path string, in *Inputs) error {
	err := &outcome.FieldError{Field: "Controls.Grid", Value: NorthUp(ref, path)}
	for _, f := range in.Files {
		if g := f.Info.Grid; f.Path != path && g.HasTransform && !georef.Rotated(g.Transform) {
			err.Field, err.Value = "Controls.Reference", f.Name
			break
		}
	}
	err.Err = fmt.Errorf("%s is rotated: its rows do not run along x, expected a north-up grid", name)
	return err
}

// NorthUp returns a grid, as the command line writes it, that encloses a rotated one, with pixels
// of the same size. path is a file that has its CRS.
func NorthUp(g raster.Grid, path string) string {
	t := g.Transform
	text := strconv.FormatFloat(math.Sqrt(math.Abs(float64(t[1]*t[5])-float64(t[2]*t[4]))), 'g', 4, 64)
	size, err := strconv.ParseFloat(text, 64)
	if err != nil || !(size > 0) {
		return "CRS,MINX,MINY,MAXX,MAXY,SIZE"
	}
	text = plainNumber(size)
	_, decimals, _ := strings.Cut(text, ".")
	edge := func(v float64) string { return strconv.FormatFloat(v*size, 'f', len(decimals), 64) }
	minX, minY, maxX, maxY := g.Bounds()
	system := "none"
	switch {
	case g.CRS.Code != "":
		system = g.CRS.Code
	case !g.CRS.IsZero() && path != "":
		system = path
	case !g.CRS.IsZero():
		system = "CRS"
	}
	return strings.Join([]string{system, edge(math.Floor(minX / size)), edge(math.Floor(minY / size)),
		edge(math.Ceil(maxX / size)), edge(math.Ceil(maxY / size)), text}, ",")
}

// plainNumber formats a coordinate without an exponent.
func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func boxText(box [4]float64) string {
	return plainNumber(box[0]) + "," + plainNumber(box[1]) + "," + plainNumber(box[2]) + "," + plainNumber(box[3])
}

// bboxWindow returns the pixels whose centres lie in the box (min x, min y, max x, max y).
func bboxWindow(g raster.Grid, box [4]float64) (block.Window, error) {
	if !(box[0] < box[2]) || !(box[1] < box[3]) {
		return block.Window{}, &outcome.JobError{Err: jobspec.Errorf("Controls.BBox",
			"the bounding box %s is empty: expected min x, min y, max x, max y", boxText(box))}
	}
	c0, r0, ok := g.Transform.Invert(box[0], box[3])
	c1, r1, _ := g.Transform.Invert(box[2], box[1])
	if !ok {
		return block.Window{}, errors.New("the grid has pixels of size 0")
	}
	if c0 > c1 {
		c0, c1 = c1, c0
	}
	if r0 > r1 {
		r0, r1 = r1, r0
	}
	// A pixel's centre lies inside if its edges, rounded to pixel edges, do. Clamp first: a box may
	// be huge.
	edge := func(v float64) int { return int(math.Round(math.Min(math.Max(v, -1<<40), 1<<40))) }
	w := block.Window{Col: edge(c0), Row: edge(r0)}
	w.Width, w.Height = edge(c1)-w.Col, edge(r1)-w.Row
	return w, nil
}

func extents(in *Inputs) string {
	var s strings.Builder
	for _, f := range in.Files {
		minX, minY, maxX, maxY := f.Info.Grid.Bounds()
		fmt.Fprintf(&s, "\n  %s (%s): x %s to %s, y %s to %s", f.Name, f.Path, plainNumber(minX), plainNumber(maxX),
			plainNumber(minY), plainNumber(maxY))
	}
	return s.String()
}
