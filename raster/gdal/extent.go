package gdal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"leat/ndarray"
	"leat/raster"
)

// Extent is the box (min x, min y, max x, max y) around all of a grid in another system: of points along its edges and inside it, as straight edges
// become bent ones.
func Extent(g raster.Grid, to raster.CRS) (box [4]float64, err error) {
	err = onPlane(g, to, func(l *lens) error {
		box, _, err = planeBox(l, g)
		return err
	})
	return box, err
}

// ExtentOn is [Extent] in the system of another grid, where it meets that one: longitudes come round again after 360 degrees, and the grid may have others than
// the system itself, such as those from 0 to 360. An extent that lies on both ends of the grid and not between them is an error.
func ExtentOn(g, on raster.Grid) (box [4]float64, err error) {
	err = onPlane(g, on.CRS, func(l *lens) error {
		var x []float64
		if box, x, err = planeBox(l, g); err != nil {
			return err
		}
		turn, err := turnOfPlane(l, g)
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

// onPlane calls f with what relates a grid to another system, as to a lattice whose columns and rows are coordinates.
func onPlane(g raster.Grid, to raster.CRS, f func(l *lens) error) error {
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
		w := &Warped{src: src, grid: raster.Grid{Transform: raster.Identity, HasTransform: true, CRS: to}, lenses: map[hDataset]*lens{}}
		defer w.dropLenses()
		if w.crs, err = referenceText(to); err != nil {
			return err
		}
		h, err := src.acquire(context.Background())
		if err != nil {
			return err
		}
		defer src.release(h)
		l, err := w.lens(h)
		if err != nil {
			return err
		}
		return f(l)
	}()
	if err != nil {
		return fmt.Errorf("an extent in %v can't be brought into %v: %w", g.CRS, to, err)
	}
	return nil
}

// planeBox is the box around a grid in the plane, and the x of its points.
func planeBox(l *lens, g raster.Grid) (box [4]float64, found []float64, err error) {
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

func planePoints(l *lens, g raster.Grid) (x, y []float64, ok []bool, err error) {
	x, y = inputPoints(raster.Size{Width: g.Width, Height: g.Height})
	ok = make([]bool, len(x))
	return x, y, ok, l.toLattice(x, y, ok)
}

// turnOfPlane is after what the plane's x come round again, 0 where they don't.
func turnOfPlane(l *lens, g raster.Grid) (float64, error) {
	x, y, ok, err := planePoints(l, g)
	if err != nil {
		return 0, err
	}
	return turnOf(l, x, y, ok, turns(raster.Identity))
}

// arc is where on the round of x a grid lies whose points have these x: all but the widest stretch without any, if the grid does leave that out.
func arc(l *lens, g raster.Grid, box [4]float64, x []float64, turn float64) (from, to float64, err error) {
	round := make([]float64, len(x))
	for i, v := range x {
		round[i] = v - math.Floor((v-box[0])/turn)*turn // from box[0] on, less than a turn
	}
	slices.Sort(round)
	from, to = round[0], round[len(round)-1]
	widest := from + turn - to // around the seam
	for i, v := range round[1:] {
		if gap := v - round[i]; gap > widest {
			widest, from, to = gap, v, round[i]+turn
		}
	}
	const n = 64
	px, py, ok := make([]float64, n), make([]float64, n), make([]bool, n)
	for i := range n {
		px[i], py[i] = to+widest/2, box[1]+(box[3]-box[1])*(float64(i)+0.5)/n
	}
	if err := l.toInput(px, py, ok); err != nil {
		return 0, 0, err
	}
	for i := range n {
		if ok[i] && px[i] >= 0 && py[i] >= 0 && px[i] <= float64(g.Width) && py[i] <= float64(g.Height) {
			return box[0], box[0] + turn, nil // around a pole, or all of the earth
		}
	}
	return from, to, nil
}

// onto moves a stretch of x by whole turns to where it meets a grid.
func onto(from, to, turn float64, on raster.Grid) (minX, maxX float64, err error) {
	left, _, right, _ := on.Bounds()
	rounding := 1e-3 * math.Abs(on.Transform[1])
	type part struct{ from, to float64 }
	var parts []part
	for n := math.Floor((left-to)/turn) - 1; n <= math.Ceil((right-from)/turn)+1; n++ {
		p := part{from + n*turn, to + n*turn}
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
			return 0, 0, fmt.Errorf("it lies on both ends of the grid, from %.9g on and up to %.9g: %w", p.from, before, errEnds)
		}
	}
	return parts[0].from, parts[len(parts)-1].to, nil
}

var errEnds = errors.New("run the job for each of them (--bbox), or over a grid that begins elsewhere")
