package gdal

import (
	"fmt"
	"math"

	"leat/internal/units"
)

// Upper bounds on the bytes that making polygons takes, measured with GDAL 3.6.2 and rounded up.
// Those of a corner include the geometry and the record in the file.
const (
	partBytes   = 40 // in GDALSieveFilter and in GDALPolygonize
	cornerBytes = 160
)

// PolygonMemoryError is returned when polygons would take more memory than allowed.
type PolygonMemoryError struct {
	Groups  int64 // of connected pixels of equal value
	Corners int64 // of outlines that are in memory at the same time
	Bytes   int64 // that the polygons would take
	Allowed int64
}

func (e *PolygonMemoryError) Error() string {
	text := units.Count(e.Groups, "group") + " of connected pixels"
	if e.Corners > 0 {
		text += " with " + units.Count(e.Corners, "corner") + " at the same time"
	}
	return fmt.Sprintf("making polygons of %s takes about %s of memory, more than the %s that remain for it", text,
		units.FormatSize(e.Bytes), units.FormatSize(e.Allowed))
}

// checkMemory returns an error if groups of pixels and the corners of outlines take more memory
// than allowed.
func (o *Polygons) checkMemory(m *outlineMeter, corners int64) error {
	if m.parts > math.MaxInt32 {
		return errGroups
	}
	bytes := partBytes*m.parts + cornerBytes*corners
	if o.MemoryBytes == 0 || bytes <= o.MemoryBytes {
		return nil
	}
	return &PolygonMemoryError{Groups: m.groups, Corners: corners, Bytes: bytes, Allowed: o.MemoryBytes}
}

// outlineMeter measures what the memory for polygons depends on. It is given the rows of a raster
// from the top and holds only a few of them.
type outlineMeter struct {
	diagonals bool
	// invalid includes the outlines of invalid pixels: newer versions of GDAL treat these pixels as
	// one polygon while each row has some.
	invalid bool

	// parts counts the pixels that continue no group of the pixels before them, where a group gets
	// a number. A group has several parts if they join further down. Invalid pixels count.
	parts int64
	// groups counts the groups of valid pixels, after finish.
	groups int64
	// peak is the largest number of corners of incomplete polygons.
	peak int64

	rows         int
	above, row   []int64 // with a pixel outside at each end
	older, ids   []int32 // labels of the groups of the pixels
	labels       int32   // of the groups in the row above
	parents      []int32 // by label, as in pixelGroups
	corners      []int64 // by label, before those of other labels are added
	kept         []int64 // becomes corners of the next row
	next         []int32 // the label in the next row, by label
	open         int64   // corners of polygons that GDAL has not written
	closed, last int64   // those of polygons that end some rows above, and in the row above
	invalidOpen  int64
}

const (
	outsidePixel = math.MinInt64
	// emitRows is the number of rows after which GDAL writes complete polygons.
	emitRows = 8
)

func newOutlineMeter(width int, diagonals bool) *outlineMeter {
	m := &outlineMeter{diagonals: diagonals, invalid: version >= 3_07_00_00,
		above: make([]int64, width+2), row: make([]int64, width+2),
		older: make([]int32, width+2), ids: make([]int32, width+2), parents: make([]int32, 2*width),
		corners: make([]int64, 2*width), kept: make([]int64, 2*width), next: make([]int32, 2*width)}
	for i := range m.above {
		m.above[i], m.row[i], m.ids[i], m.older[i] = outsidePixel, outsidePixel, noGroup, noGroup
	}
	return m
}

// add counts the next row.
func (m *outlineMeter) add(row []int32) {
	for x, v := range row {
		m.row[x+1] = int64(v)
	}
	m.advance()
}

// finish counts the outlines below the last row.
func (m *outlineMeter) finish() {
	for i := range m.row {
		m.row[i] = outsidePixel
	}
	m.advance()
}

func (m *outlineMeter) advance() {
	m.older, m.ids = m.ids, m.older
	anyInvalid := m.label()
	m.outline()
	m.peak = max(m.peak, m.open)
	m.close(anyInvalid)
	m.above, m.row = m.row, m.above
	m.rows++
}

// label finds the groups of the row, and reports whether pixels are invalid.
func (m *outlineMeter) label() (anyInvalid bool) {
	n := m.labels
	for i := range n {
		m.parents[i] = i
	}
	for x := 1; x < len(m.row)-1; x++ {
		v := m.row[x]
		id := int32(noGroup)
		if v == outsidePixel {
			m.ids[x] = id
			continue
		}
		join := func(other int32) {
			if id == noGroup {
				id = other
			} else if other != noGroup {
				a, b := m.find(id), m.find(other)
				m.parents[max(a, b)] = min(a, b)
			}
		}
		known := m.row[x-1] == v || m.above[x] == v ||
			m.diagonals && (m.above[x-1] == v || m.above[x+1] == v)
		if !known {
			m.parts++
		}
		if v == int64(PolygonNodata) {
			m.ids[x], anyInvalid = noGroup, true
			continue
		}
		if m.row[x-1] == v {
			join(m.ids[x-1])
		}
		if m.above[x] == v {
			join(m.older[x])
		}
		if m.diagonals && m.above[x-1] == v {
			join(m.older[x-1])
		}
		if m.diagonals && m.above[x+1] == v {
			join(m.older[x+1])
		}
		if id == noGroup {
			id = n
			m.parents[n], m.corners[n] = n, 0
			n++
		}
		m.ids[x] = id
	}
	m.labels = n
	return anyInvalid
}

func (m *outlineMeter) find(id int32) int32 {
	for m.parents[id] != id {
		m.parents[id] = m.parents[m.parents[id]]
		id = m.parents[id]
	}
	return id
}

// outline counts the corners between the row and the one above.
func (m *outlineMeter) outline() {
	count := func(v int64, id int32, left, over, across int64) {
		if v == outsidePixel || (left == v) != (over == v) || left == v && across == v {
			return
		}
		switch {
		case id != noGroup:
			m.corners[id]++
			m.open++
		case m.invalid:
			m.invalidOpen++
			m.open++
		}
	}
	for x := 1; x < len(m.row); x++ {
		a, b, c, d := m.above[x-1], m.above[x], m.row[x-1], m.row[x]
		if a == b && c == d { // an edge, or none
			continue
		}
		count(a, m.older[x-1], b, c, d)
		count(b, m.older[x], a, d, c)
		count(c, m.ids[x-1], d, a, b)
		count(d, m.ids[x], c, b, a)
	}
}

// close ends the groups that have no pixel in the row, and gives the others new labels.
func (m *outlineMeter) close(anyInvalid bool) {
	var ended int64
	for id := range m.labels {
		m.next[id] = noGroup
		ended += m.corners[id]
		if root := m.find(id); root != id {
			m.corners[root] += m.corners[id]
			m.corners[id] = 0
		} else {
			m.groups++
		}
	}
	var labels int32
	for x, id := range m.ids {
		if id == noGroup {
			continue
		}
		root := m.find(id)
		if m.next[root] == noGroup {
			m.next[root] = labels
			m.kept[labels] = m.corners[root]
			ended -= m.corners[root]
			labels++
		}
		m.ids[x] = m.next[root]
	}
	m.labels = labels
	m.groups -= int64(labels) // they go on
	m.corners, m.kept = m.kept, m.corners
	if !anyInvalid {
		ended += m.invalidOpen
		m.invalidOpen = 0
	}
	if m.rows%emitRows == emitRows-1 {
		m.open -= m.closed
		m.closed = 0
	}
	m.closed += m.last
	m.last = ended
}
