package ranged

import (
	"slices"
	"sort"
)

// span is a run of bytes of an object.
type span struct{ at, bytes int64 }

func (s span) end() int64 { return s.at + s.bytes }

// piece is a run of bytes that is in memory or requested.
type piece struct {
	at, bytes int64
	ready     chan struct{} // closed when data or err is set
	data      []byte
	err       error

	refs    int // users, among them its request
	dropped bool
	used    uint64 // clock at its last release
}

func (p *piece) end() int64 { return p.at + p.bytes }

// pieces is a list of disjoint pieces, ordered by offset. Unused pieces are evicted beyond the
// limit, least recently used first. Not safe for concurrent use.
type pieces struct {
	list  []*piece
	limit int64
	kept  int64 // bytes of unused pieces
	clock uint64
	slack int64 // bytes of gaps that may still be fetched to join spans
}

// from returns the index of the first piece that ends after byte at.
func (s *pieces) from(at int64) int {
	return sort.Search(len(s.list), func(i int) bool { return s.list[i].end() > at })
}

// put inserts a piece, which overlaps no other.
func (s *pieces) put(p *piece) {
	s.list = slices.Insert(s.list, s.from(p.at), p)
}

// missing returns the parts of the spans that no piece covers.
func (s *pieces) missing(spans []span) []span {
	var out []span
	for _, w := range spans {
		at := w.at
		for i := s.from(at); at < w.end() && i < len(s.list) && s.list[i].at < w.end(); i++ {
			if p := s.list[i]; p.at > at {
				out = append(out, span{at, p.at - at})
			}
			at = s.list[i].end()
		}
		if at < w.end() {
			out = append(out, span{at, w.end() - at})
		}
	}
	return out
}

// covers reports whether pieces cover the whole span.
func (s *pieces) covers(w span) bool {
	at := w.at
	for i := s.from(at); at < w.end() && i < len(s.list) && s.list[i].at <= at; i++ {
		at = s.list[i].end()
	}
	return at >= w.end()
}

// gapAround returns the bounds of the gap between pieces around a missing span.
func (s *pieces) gapAround(w span, size int64) (first, last int64) {
	first, last = 0, size
	i := s.from(w.at)
	if i > 0 {
		first = s.list[i-1].end()
	}
	if i < len(s.list) {
		last = s.list[i].at
	}
	return first, last
}

// widen extends missing spans that are smaller than a block to whole blocks, but not over existing
// pieces.
func (s *pieces) widen(missing []span, block, size int64) []span {
	var out []span
	for _, w := range missing {
		if w.bytes < block {
			first, last := s.gapAround(w, size)
			a, b := max(first, w.at/block*block), min(last, (w.end()+block-1)/block*block)
			w = span{a, b - a}
		}
		if n := len(out); n > 0 && out[n-1].end() > w.at { // both were extended into one block
			w.bytes -= out[n-1].end() - w.at
			w.at = out[n-1].end()
		}
		if w.bytes > 0 {
			out = append(out, w)
		}
	}
	return out
}

// join merges missing spans that are close together with no piece in between.
func (s *pieces) join(missing []span) []span {
	for _, w := range missing {
		s.slack += w.bytes / slackShare
	}
	var out []span
	for _, w := range missing {
		if n := len(out); n > 0 {
			gap := w.at - out[n-1].end()
			_, last := s.gapAround(out[n-1], w.end())
			if gap <= min(maxGap, s.slack) && last >= w.at {
				s.slack -= gap
				out[n-1].bytes = w.end() - out[n-1].at
				continue
			}
		}
		out = append(out, w)
	}
	return out
}

// hold returns the pieces that cover the spans, which must be covered, and adds a reference to
// each.
func (s *pieces) hold(spans []span) []*piece {
	var out []*piece
	for _, w := range spans {
		for i := s.from(w.at); i < len(s.list) && s.list[i].at < w.end(); i++ {
			p := s.list[i]
			if n := len(out); n > 0 && out[n-1] == p {
				continue
			}
			if p.refs == 0 {
				s.kept -= p.bytes
			}
			p.refs++
			out = append(out, p)
		}
	}
	return out
}

// release drops a reference. An unused piece stays in memory within the limit.
func (s *pieces) release(p *piece) {
	if p.refs--; p.refs > 0 || p.dropped {
		return
	}
	s.idle(p)
}

// idle keeps an unused piece, and evicts the least recently used ones beyond the limit.
func (s *pieces) idle(p *piece) {
	s.clock++
	p.used = s.clock
	s.kept += p.bytes
	for s.kept > s.limit {
		var oldest *piece
		for _, q := range s.list {
			if q.refs == 0 && (oldest == nil || q.used < oldest.used) {
				oldest = q
			}
		}
		if oldest == nil {
			return
		}
		s.kept -= oldest.bytes
		s.drop(oldest)
	}
}

// drop removes a piece from the list; its users keep its bytes.
func (s *pieces) drop(p *piece) {
	p.dropped = true
	if i := slices.Index(s.list, p); i >= 0 {
		s.list = slices.Delete(s.list, i, i+1)
	}
}
