package gdal

import "errors"

// pixelGroups counts the pixels of each group of connected pixels of equal value. It gets the rows
// of a raster from the top. Pixels of PolygonNodata are in no group.
type pixelGroups struct {
	diagonals bool
	rows      int
	// above is the row before. ids has the numbers of the groups of its pixels, and for columns
	// that were visited those of the current row. Groups that turn out to be one keep their
	// numbers.
	above      []int32
	ids, older []int32
	numbers    int32

	// parents leads from a group to one with a smaller number that it is part of, or to itself.
	parents []int32
	// pixels holds the number of pixels by number, up to least.
	pixels []int32
	least  int32
}

const noGroup = -1

// newPixelGroups returns groups that count up to least pixels each. parts is the largest number of
// groups before some turn out to be one, below MaxInt32.
func newPixelGroups(width int, diagonals bool, parts int64, least int32) *pixelGroups {
	return &pixelGroups{diagonals: diagonals, above: make([]int32, width), ids: make([]int32, width),
		older: make([]int32, width), parents: make([]int32, 0, parts), pixels: make([]int32, 0, parts), least: least}
}

var errGroups = errors.New("too many groups of pixels to make polygons of")

// number assigns the next row's pixels to groups. It calls each with the number of a pixel's group
// and those of its neighbours of the same value, noGroup for others.
func (g *pixelGroups) number(row []int32, each func(id, up, left, right int32)) {
	g.ids, g.older = g.older, g.ids
	for x, v := range row {
		if v == PolygonNodata {
			g.ids[x] = noGroup
			continue
		}
		id, up, left, right := int32(noGroup), int32(noGroup), int32(noGroup), int32(noGroup)
		if x > 0 && row[x-1] == v {
			id = g.ids[x-1]
		}
		if g.rows > 0 {
			if g.above[x] == v {
				up = g.older[x]
			}
			if g.diagonals && x > 0 && g.above[x-1] == v {
				left = g.older[x-1]
			}
			if g.diagonals && x+1 < len(row) && g.above[x+1] == v {
				right = g.older[x+1]
			}
		}
		for _, other := range [3]int32{up, left, right} {
			if id == noGroup {
				id = other
			}
		}
		if id == noGroup {
			id = g.numbers
			g.numbers++
		}
		g.ids[x] = id
		each(id, up, left, right)
	}
	copy(g.above, row)
	g.rows++
}

// add counts the pixels of a row.
func (g *pixelGroups) add(row []int32) {
	g.number(row, func(id, up, left, right int32) {
		if int(id) == len(g.parents) {
			g.parents, g.pixels = append(g.parents, id), append(g.pixels, 0)
		}
		g.pixels[id] = min(g.pixels[id], g.least-1) + 1
		for _, other := range [3]int32{up, left, right} {
			if other != noGroup && other != id {
				g.join(id, other)
			}
		}
	})
}

func (g *pixelGroups) join(a, b int32) {
	a, b = g.find(a), g.find(b)
	g.parents[max(a, b)] = min(a, b)
}

// find returns the smallest number of the group that a group is part of.
func (g *pixelGroups) find(id int32) int32 {
	for g.parents[id] != id {
		g.parents[id] = g.parents[g.parents[id]]
		id = g.parents[id]
	}
	return id
}

// finish sums the pixels after the last row, and starts with the first row again.
func (g *pixelGroups) finish() {
	for id := len(g.parents) - 1; id >= 0; id-- {
		if root := g.find(int32(id)); int(root) != id {
			sum := int64(g.pixels[root]) + int64(g.pixels[id])
			g.pixels[root] = int32(min(sum, int64(g.least)))
		}
	}
	g.rows, g.numbers = 0, 0
}

// drop makes pixels of a row invalid if their groups have too few pixels. It must run after finish.
// It reports whether it changed the row.
func (g *pixelGroups) drop(row []int32) (changed bool) {
	// The groups get the same numbers as in add.
	g.number(row, func(int32, int32, int32, int32) {})
	for x, id := range g.ids {
		if id != noGroup && g.pixels[g.find(id)] < g.least {
			row[x], changed = PolygonNodata, true
		}
	}
	return changed
}
