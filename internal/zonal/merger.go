package zonal

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// MergerOptions configures a Merger.
type MergerOptions struct {
	// MaxBytes bounds the zones' values in memory; others are in a temporary file. 0 means 256 MiB.
	// Other memory does not count: about 100 bytes for each zone, and 50 for each zone and spec.
	MaxBytes int64
	Dir      string // of the temporary file; "": the system's
}

// Merger merges the states of many zones. It keeps them in memory, except that the pixels' values,
// which percentiles, modes and histograms need, go to a temporary file beyond a bound. A Merger is
// not safe for concurrent use.
type Merger struct {
	specs    []*Spec
	max      int64
	dir      string
	heads    map[int64][]byte // of each zone: the encoded states without tables
	tables   map[int64]*zoneTables
	bytes    int64 // of the tables in memory
	file     *os.File
	fileSize int64
	scratch  []byte
}

// zoneTables holds a zone's values, in memory and in the temporary file.
type zoneTables struct {
	bytes   int64 // in memory
	memory  []table
	spilled [][]extent
}

// extent is an encoded run in the temporary file.
type extent struct{ offset, length int64 }

// NewMerger returns a merger of zones whose states follow the specs, one for each value.
func NewMerger(specs []*Spec, o *MergerOptions) *Merger {
	if o == nil {
		o = &MergerOptions{}
	}
	return &Merger{specs: specs, max: cmp.Or(o.MaxBytes, 256<<20), dir: o.Dir, heads: map[int64][]byte{},
		tables: map[int64]*zoneTables{}}
}

// Add adds states of a zone: b begins with one encoded state for each spec, in their order. It
// returns the bytes that follow them. The merger keeps no reference to b.
func (m *Merger) Add(zone int64, b []byte) (rest []byte, err error) {
	old := m.heads[zone]
	m.scratch = m.scratch[:0]
	for i, s := range m.specs {
		var st, add State
		if old != nil {
			if old, err = s.decodeHead(old, &st); err != nil {
				return nil, err
			}
		}
		if b, err = s.Decode(b, &add); err != nil {
			return nil, fmt.Errorf("zone %d, value %d: %w", zone, i, err)
		}
		runs := add.table.runs
		add.table.runs = nil
		if err := s.Merge(&st, &add); err != nil {
			return nil, err
		}
		m.scratch = s.appendHead(m.scratch, &st)
		for _, run := range runs {
			m.addRun(zone, i, slices.Clone(run))
		}
	}
	m.heads[zone] = append(m.heads[zone][:0], m.scratch...)
	if m.bytes > m.max {
		return b, m.spill()
	}
	return b, nil
}

// Zones returns the numbers of the zones that have states and no results yet, in increasing order.
func (m *Merger) Zones() []int64 { return slices.Sorted(maps.Keys(m.heads)) }

// Len returns how many zones have states and no results yet.
func (m *Merger) Len() int { return len(m.heads) }

func (m *Merger) addRun(zone int64, i int, run []byte) {
	z := m.tables[zone]
	if z == nil {
		z = &zoneTables{memory: make([]table, len(m.specs)), spilled: make([][]extent, len(m.specs))}
		m.tables[zone] = z
	}
	before := z.memory[i].size()
	z.memory[i].add(run)
	z.grow(m, z.memory[i].size()-before)
}

func (z *zoneTables) grow(m *Merger, n int64) {
	z.bytes += n
	m.bytes += n
}

// size returns the bytes of all runs.
func (t *table) size() int64 {
	n := int64(0)
	for _, r := range t.runs {
		n += int64(len(r))
	}
	return n
}

// spill writes tables to the file until half of the bound is free. The largest go first, so that a
// zone's values lie in few extents.
func (m *Merger) spill() error {
	if m.file == nil {
		f, err := os.CreateTemp(m.dir, ".zonal-*")
		if err != nil {
			return fmt.Errorf("temporary file for the values of zones: %w", err)
		}
		m.file = f
		if err := os.Remove(f.Name()); err != nil { // the file disappears with the process
			return fmt.Errorf("temporary file for the values of zones: %w", err)
		}
	}
	zones := slices.SortedFunc(maps.Keys(m.tables), func(a, b int64) int {
		return cmp.Or(-cmp.Compare(m.tables[a].bytes, m.tables[b].bytes), cmp.Compare(a, b))
	})
	for _, zone := range zones {
		z := m.tables[zone]
		if m.bytes <= m.max/2 {
			return nil
		}
		for i := range z.memory {
			run := z.memory[i].compact()
			if len(run) == 0 {
				continue
			}
			if _, err := m.file.WriteAt(run, m.fileSize); err != nil {
				return fmt.Errorf("temporary file for the values of zones: %w", err)
			}
			z.spilled[i] = append(z.spilled[i], extent{m.fileSize, int64(len(run))})
			m.fileSize += int64(len(run))
			z.memory[i].runs = nil
		}
		z.grow(m, -z.bytes)
	}
	return nil
}

// Results appends the statistics of a zone to dst, spec by spec in the order of their columns, and
// removes the zone from the merger. A zone without states has no pixels.
func (m *Merger) Results(dst []Value, zone int64) ([]Value, error) {
	head, z := m.heads[zone], m.tables[zone]
	var err error
	for i, s := range m.specs {
		var st State
		if head != nil {
			if head, err = s.decodeHead(head, &st); err != nil {
				return dst, err
			}
		}
		var in mergedEntries
		if z != nil {
			size := min(max(m.max/4/int64(len(z.spilled[i])+1), 512), 256<<10)
			for _, x := range z.spilled[i] {
				in.add(&extentReader{file: m.file, extent: x, buf: make([]byte, 0, min(size, x.length))})
			}
			for _, run := range z.memory[i].runs {
				in.add(&extentReader{entryReader: entryReader{rest: run}})
			}
		}
		dst = s.results(dst, &st, &in)
		if in.err != nil {
			return dst, fmt.Errorf("temporary file for the values of zones: %w", in.err)
		}
	}
	if z != nil {
		z.grow(m, -z.bytes)
	}
	delete(m.heads, zone)
	delete(m.tables, zone)
	return dst, nil
}

// Close frees the temporary file.
func (m *Merger) Close() error {
	if m.file == nil {
		return nil
	}
	err := m.file.Close()
	m.file = nil
	return err
}

// extentReader reads an encoded run in memory or in a file.
type extentReader struct {
	entryReader
	file   io.ReaderAt
	extent extent // what has not been read yet
	buf    []byte
	err    error
}

// maxEntryBytes bounds an encoded entry: three varints.
const maxEntryBytes = 30

func (r *extentReader) next() bool {
	if len(r.rest) < maxEntryBytes && r.extent.length > 0 && r.err == nil {
		n := copy(r.buf[:cap(r.buf)], r.rest)
		k := min(int64(cap(r.buf)-n), r.extent.length)
		if _, err := r.file.ReadAt(r.buf[n:int64(n)+k], r.extent.offset); err != nil {
			r.err = err
			return false
		}
		r.rest = r.buf[:int64(n)+k]
		r.extent.offset += k
		r.extent.length -= k
	}
	if len(r.rest) == 0 {
		return false
	}
	if !r.entryReader.next() {
		r.err = errState
		return false
	}
	return true
}

// mergedEntries merges runs in order. Entries of one value and weight become one.
type mergedEntries struct {
	heap []*extentReader // by their next entry
	e    entry
	err  error
}

func (m *mergedEntries) entry() entry { return m.e }

func (m *mergedEntries) add(r *extentReader) {
	if !r.next() {
		m.err = errors.Join(m.err, r.err)
		return
	}
	m.heap = append(m.heap, r)
	for i := len(m.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if compareEntries(m.heap[up].e, m.heap[i].e) <= 0 {
			break
		}
		m.heap[up], m.heap[i] = m.heap[i], m.heap[up]
		i = up
	}
}

func (m *mergedEntries) next() bool {
	if len(m.heap) == 0 || m.err != nil {
		return false
	}
	m.e = m.heap[0].e
	m.advance()
	for len(m.heap) > 0 && compareEntries(m.heap[0].e, m.e) == 0 {
		m.e.n += m.heap[0].e.n
		m.advance()
	}
	return true
}

// advance moves the first run to its next entry.
func (m *mergedEntries) advance() {
	h := m.heap
	if !h[0].next() {
		m.err = errors.Join(m.err, h[0].err)
		h[0] = h[len(h)-1]
		h = h[:len(h)-1]
		m.heap = h
	}
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if compareEntries(h[c].e, h[least].e) < 0 {
				least = c
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
