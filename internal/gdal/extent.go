package gdal

import (
	"context"
	"fmt"
	"math"
	"slices"

	"leat/ndarray"
	"leat/raster"
)

// Extent returns the box (min x, min y, max x, max y) around a grid in another CRS. Since straight
// edges become curves, it transforms points along the grid's edges and inside.
func Extent(g raster.Grid, to raster.CRS) (box [4]float64, err error) {
	err = onPlane(g, to, func(l *transformer) error {
		box, _, err = planeBox(l, g)
		return err
	})
	return box, err
}

// ExtentOn is [Extent] in the CRS of another grid, shifted to where it overlaps that grid:
// longitudes repeat after 360 degrees, and the grid may use another range than the CRS itself, such
// as 0 to 360. An extent at both ends of the grid but not between them is an error.
func ExtentOn(g, on raster.Grid) (box [4]float64, err error) {
	err = onPlane(g, on.CRS, func(l *transformer) error {
		var x []float64
		if box, x, err = planeBox(l, g); err != nil {
			return err
		}
		turn, err := periodOfPlane(l, g)
		if err != nil || turn == 0 {
			return err
		}
		from, to, err := arc(l, g, box, x, turn)
		if err != nil {
			return err
		}
		box[0], box[2], err = onto(from, to, turn, on)
		return err
	})
	return box, err
}

// onPlane calls f with the transformer between a grid and another CRS, whose coordinates it treats
// as columns and rows of a lattice.
func onPlane(g raster.Grid, to raster.CRS, f func(l *transformer) error) error {
	if err := load(); err != nil {
		return err
	}
	err := func() error {
		bands := []raster.Band{{Type: ndarray.Uint8}}
		text, err := virtual(g, bands, "", nil)
		if err != nil {
			return err
		}
		src, err := openVirtual(text, &raster.Info{Path: "the extent", Grid: g, Bands: bands}, nil, 1)
		if err != nil {
			return err
		}
		defer src.Close()
		w := &Warped{src: src, grid: raster.Grid{Transform: raster.Identity, HasTransform: true, CRS: to},
			lenses: map[hDataset]*transformer{}}
		defer w.dropTransformers()
		if w.crs, err = referenceText(to); err != nil {
			return err
		}
		h, err := src.acquire(context.Background())
		if err != nil {
			return err
		}
		defer src.release(h)
		l, err := w.transformer(h)
		if err != nil {
			return err
		}
		return f(l)
	}()
	if err != nil {
		return fmt.Errorf("transforming an extent in %v to %v: %w", g.CRS, to, err)
	}
	return nil
}

// planeBox returns the box around a grid in the plane, and the x of its points.
func planeBox(l *transformer, g raster.Grid) (box [4]float64, found []float64, err error) {
	x, y, ok, err := planePoints(l, g)
	if err != nil {
		return box, nil, err
	}
	if box[0], box[1], box[2], box[3] = bounds(x, y, ok); box[0] > box[2] {
		return box, nil, errNoImage
	}
	for i := range x {
		if ok[i] {
			found = append(found, x[i])
		}
	}
	return box, found, nil
}

func planePoints(l *transformer, g raster.Grid) (x, y []float64, ok []bool, err error) {
	x, y = inputPoints(raster.Size{Width: g.Width, Height: g.Height})
	ok = make([]bool, len(x))
	return x, y, ok, l.toLattice(x, y, ok)
}

// periodOfPlane returns the distance after which the plane's x repeat, or 0.
func periodOfPlane(l *transformer, g raster.Grid) (float64, error) {
	x, y, ok, err := planePoints(l, g)
	if err != nil {
		return 0, err
	}
	return periodOf(l, x, y, ok, period(raster.Identity))
}

// arc returns the range of x, modulo turn, that a grid with points at these x covers: all but the
// widest gap between them, if the grid does not cover that gap.
func arc(l *transformer, g raster.Grid, box [4]float64, x []float64, turn float64) (from, to float64, err error) {
	round := make([]float64, len(x))
	for i, v := range x {
		round[i] = v - float64(math.Floor((v-box[0])/turn)*turn) // relative to box[0], below one turn
	}
	slices.Sort(round)
	from, to = round[0], round[len(round)-1]
	widest := from + turn - to // across the seam
	for i, v := range round[1:] {
		if gap := v - round[i]; gap > widest {
			widest, from, to = gap, v, round[i]+turn
		}
	}
	const n = 64
	px, py, ok := make([]float64, n), make([]float64, n), make([]bool, n)
	for i := range n {
		px[i], py[i] = to+float64(widest/2), box[1]+float64((box[3]-box[1])*(float64(i)+0.5)/n)
	}
	if err := l.toInput(px, py, ok); err != nil {
		return 0, 0, err
	}
	for i := range n {
		if ok[i] && px[i] >= 0 && py[i] >= 0 && px[i] <= float64(g.Width) && py[i] <= float64(g.Height) {
			return box[0], box[0] + turn, nil // around a pole, or the whole earth
		}
	}
	return from, to, nil
}

// onto shifts a range of x by whole turns to where it overlaps a grid.
func onto(from, to, turn float64, on raster.Grid) (minX, maxX float64, err error) {
	left, _, right, _ := on.Bounds()
	rounding := float64(1e-3 * math.Abs(on.Transform[1]))
	type part struct{ from, to float64 }
	var parts []part
	for n := math.Floor((left-to)/turn) - 1; n <= math.Ceil((right-from)/turn)+1; n++ {
		p := part{from + float64(n*turn), to + float64(n*turn)}
		if p.from >= left-rounding && p.to <= right+rounding {
			return p.from, p.to, nil
		}
		if p.from < right-rounding && p.to > left+rounding {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return from, to, nil
	}
	for i, p := range parts[1:] {
		if before := parts[i].to; p.from > before+rounding {
			return 0, 0, fmt.Errorf("it meets both ends of the grid, from %.9g on and up to %.9g", p.from, before)
		}
	}
	return parts[0].from, parts[len(parts)-1].to, nil
}
