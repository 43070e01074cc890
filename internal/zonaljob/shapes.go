package zonaljob

import (
	"encoding/binary"
	"errors"
	"math"

	"leat/block"
	"leat/internal/zonal"
)

// shapes holds polygons in pixel coordinates compactly: one encoding after the other.
type shapes struct {
	data []byte
	ends []int64 // of each polygon in data
}

// add appends a polygon, or nil for a zone without one.
func (s *shapes) add(p *zonal.Polygon) {
	if p != nil {
		s.data = appendCounts(s.data, p.Parts)
		s.data = appendCounts(s.data, p.Rings)
		for _, v := range p.XY {
			s.data = binary.LittleEndian.AppendUint64(s.data, math.Float64bits(v))
		}
	}
	s.ends = append(s.ends, int64(len(s.data)))
}

// appendCounts appends the number of rising ends and their differences.
func appendCounts(dst []byte, ends []int) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ends)))
	last := 0
	for _, end := range ends {
		dst = binary.AppendUvarint(dst, uint64(end-last))
		last = end
	}
	return dst
}

func (s *shapes) count() int { return len(s.ends) }

// bytes returns the memory that the polygons take.
func (s *shapes) bytes() int64 { return int64(cap(s.data)) + 8*int64(cap(s.ends)) }

var errShapes = errors.New("damaged polygons")

// polygon reads polygon i into p, whose memory it reuses.
func (s *shapes) polygon(i int, p *zonal.Polygon) error {
	from := int64(0)
	if i > 0 {
		from = s.ends[i-1]
	}
	b := s.data[from:s.ends[i]]
	p.XY, p.Rings, p.Parts = p.XY[:0], p.Rings[:0], p.Parts[:0]
	if len(b) == 0 {
		return nil
	}
	ok := true
	if p.Parts, b, ok = readCounts(p.Parts, b); !ok {
		return errShapes
	}
	if p.Rings, b, ok = readCounts(p.Rings, b); !ok || len(b)%16 != 0 {
		return errShapes
	}
	for ; len(b) > 0; b = b[8:] {
		p.XY = append(p.XY, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return nil
}

func readCounts(dst []int, b []byte) ([]int, []byte, bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)) {
		return dst, b, false
	}
	b = b[k:]
	last := 0
	for range n {
		d, k := binary.Uvarint(b)
		if k <= 0 || d > math.MaxInt32 {
			return dst, b, false
		}
		b = b[k:]
		last += int(d)
		dst = append(dst, last)
	}
	return dst, b, true
}

// windows returns the pixels of the grid that each polygon can have.
func (s *shapes) windows(grid block.Window) ([]block.Window, error) {
	list := make([]block.Window, s.count())
	var p zonal.Polygon
	for i := range list {
		if err := s.polygon(i, &p); err != nil {
			return nil, err
		}
		if err := p.Check(); err != nil {
			return nil, err
		}
		if box, ok := p.Bounds(); ok {
			list[i] = box.Window().Intersect(grid)
		}
	}
	return list, nil
}
