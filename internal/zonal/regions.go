package zonal

import (
	"iter"
	"slices"

	"leat/ndarray"
)

// Regions divides windows by the zone numbers of a raster. It reuses memory between calls and is
// not safe for concurrent use.
type Regions struct {
	numbers map[int64]int // to index in masks
	masks   []Mask
	order   []int64
}

// Split yields the zones of a window of zone numbers in increasing order, each with its pixels.
// Invalid pixels belong to no zone. The arrays are as for [Collector.Add]; the type of ids is an
// integer type other than uint64. A mask is valid until the next call. Split panics when the arrays
// do not fit.
func (g *Regions) Split(ids, valid *ndarray.Array) iter.Seq2[int64, *Mask] {
	if g.numbers == nil {
		g.numbers = map[int64]int{}
	}
	clear(g.numbers)
	g.order = g.order[:0]
	switch ids.Type {
	case ndarray.Uint8:
		splitRows(g, rowsOf[uint8](ids), ids, valid)
	case ndarray.Int8:
		splitRows(g, rowsOf[int8](ids), ids, valid)
	case ndarray.Uint16:
		splitRows(g, rowsOf[uint16](ids), ids, valid)
	case ndarray.Int16:
		splitRows(g, rowsOf[int16](ids), ids, valid)
	case ndarray.Uint32:
		splitRows(g, rowsOf[uint32](ids), ids, valid)
	case ndarray.Int32:
		splitRows(g, rowsOf[int32](ids), ids, valid)
	case ndarray.Int64:
		splitRows(g, rowsOf[int64](ids), ids, valid)
	default:
		panic("zonal: zones of type " + ids.Type.String())
	}
	return func(yield func(int64, *Mask) bool) {
		for _, id := range slices.Sorted(slices.Values(g.order)) {
			if !yield(id, &g.masks[g.numbers[id]]) {
				return
			}
		}
	}
}

// splitRows lists the runs of equal numbers in each row.
func splitRows[T uint8 | int8 | uint16 | int16 | uint32 | int32 | int64](g *Regions, ids rows[T],
	shape, valid *ndarray.Array) {
	var ok rows[uint8]
	if valid != nil {
		ok = rowsOf[uint8](valid)
	}
	height := shape.Shape[len(shape.Shape)-2]
	for y := range height {
		row := ids.at(y, 0, ids.width)
		var mask []uint8
		if valid != nil {
			mask = ok.at(y, 0, ids.width)
		}
		for x := 0; x < len(row); {
			if mask != nil && mask[x] == 0 {
				x++
				continue
			}
			id, start := row[x], x
			for x++; x < len(row) && row[x] == id && (mask == nil || mask[x] != 0); x++ {
			}
			m := g.mask(int64(id))
			m.Runs = append(m.Runs, Run{y, start, x - start})
		}
	}
}

// mask returns the mask of a zone in this window.
func (g *Regions) mask(id int64) *Mask {
	i, ok := g.numbers[id]
	if !ok {
		i = len(g.order)
		g.numbers[id] = i
		g.order = append(g.order, id)
		if i == len(g.masks) {
			g.masks = append(g.masks, Mask{})
		}
		g.masks[i].Reset()
	}
	return &g.masks[i]
}
