package resolve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"leat/apply/internal/jobspec"
	"leat/internal/gdal"
	"leat/internal/georef"
	"leat/raster"
)

// keepControl gives the grid the ground control points (GCPs) and coefficients (RPCs) of the
// reference input, or else of the first that has them, and returns notes on those that outputs do
// not have. Both count pixels, so they hold for files that are read pixel by pixel; points replace
// a transform, so they hold where there is none.
func keepControl(job *jobspec.Job, in *Inputs, grid *raster.Grid) (notes []string) {
	files := slices.Clone(in.Files)
	if first := in.ByName[job.Controls.Reference]; len(first) > 0 {
		i := slices.Index(files, first[0])
		files = slices.Insert(slices.Delete(files, i, i+1), 0, first[0])
	}
	points := keeper[*raster.GCPs]{what: "ground control points (GCPs)"}
	coefficients := keeper[*raster.RPC]{what: "rational polynomial coefficients (RPCs)"}
	for _, f := range files {
		g, warped := &f.Info.Grid, f.Warp != nil
		if warped {
			g = &f.Warp.Original.Grid
		}
		at := g.Sub(raster.Window{Col: f.ColOffset, Row: f.RowOffset, Width: g.Width, Height: g.Height})
		if g.GCPs != nil {
			points.add(f, at.GCPs, warped || grid.HasTransform, sameGCPs)
		}
		if g.RPC != nil {
			coefficients.add(f, at.RPC, warped, georef.EqualRPC)
		}
	}
	grid.GCPs, grid.RPC = points.kept, coefficients.kept
	if grid.GCPs != nil {
		grid.CRS = raster.CRS{} // it would have no coordinates
	}
	return append(points.notes("the grid has coordinates of its own"), coefficients.notes("it is warped")...)
}

// pointNames returns a note if the grid's points have names: a GeoTIFF has only their numbers.
func pointNames(grid *raster.Grid) string {
	if grid.GCPs == nil {
		return ""
	}
	for i, p := range grid.GCPs.Points {
		if p.Info != "" || p.ID != "" && p.ID != strconv.Itoa(i+1) {
			return "GeoTIFFs do not keep the names of ground control points: they number them from 1"
		}
	}
	return ""
}

// sameGCPs is georef.EqualGCPs with GDAL's knowledge of systems.
func sameGCPs(a, b *raster.GCPs) bool {
	if a == nil || b == nil || !gdal.SameCRS(a.CRS, b.CRS) {
		return a == b
	}
	plain := *b
	plain.CRS = a.CRS
	return georef.EqualGCPs(a, &plain)
}

// keeper chooses among what inputs have of one kind.
type keeper[T any] struct {
	what          string
	of            *File // whose are kept
	kept          T
	others, unfit []string // inputs that have others, and those whose do not fit the grid
}

func (k *keeper[T]) add(f *File, v T, unfit bool, same func(a, b T) bool) {
	switch {
	case unfit:
		k.unfit = append(k.unfit, f.Name)
	case k.of == nil:
		k.of, k.kept = f, v
	case !same(k.kept, v):
		k.others = append(k.others, f.Name)
	}
}

// notes says what is not kept. reason is why some do not fit.
func (k *keeper[T]) notes(reason string) (notes []string) {
	if len(k.unfit) > 0 {
		notes = append(notes, fmt.Sprintf("outputs do not have the %s of %s: %s", k.what, inputNames(k.unfit), reason))
	}
	if len(k.others) > 0 {
		notes = append(notes, fmt.Sprintf("inputs have different %s: outputs have those of %s (%s), not of %s", k.what,
			k.of.Name, k.of.Path, inputNames(k.others)))
	}
	return notes
}

// inputNames lists names of inputs, each once.
func inputNames(names []string) string {
	slices.Sort(names)
	names = slices.Compact(names)
	text := strings.Join(names[:min(len(names), maxNotes)], ", ")
	if n := len(names) - maxNotes; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}
