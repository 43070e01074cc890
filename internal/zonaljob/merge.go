package zonaljob

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"leat/internal/zonal"
)

// merger adds up what blocks emit, and keeps the results of finished zones.
type merger struct {
	params *params
	specs  []*zonal.Spec // by band of a variable
	active map[int64][]zonal.State
	done   results
	order  []int64 // numbers of the zones of a raster, rising, after finish
	values []zonal.Value
}

func newMerger(p *params) (*merger, error) {
	specs, err := p.specs()
	if err != nil {
		return nil, err
	}
	m := &merger{params: p, active: map[int64][]zonal.State{}}
	for i, v := range p.Variables {
		for range v.Bands {
			m.specs = append(m.specs, specs[i])
		}
	}
	m.done.places = make([]int64, p.shapes.count())
	return m, nil
}

var errValue = errors.New("damaged value of zones")

// add adds the value of a block. It keeps no reference to the value.
func (m *merger) add(b []byte) error {
	zone := int64(0)
	if m.params.Raster && len(b) > 0 {
		base, k := binary.Varint(b)
		if k <= 0 {
			return errValue
		}
		zone, b = base, b[k:]
	}
	for len(b) > 0 {
		head, k := binary.Uvarint(b)
		if k <= 0 {
			return errValue
		}
		b = b[k:]
		zone += int64(head >> 1)
		if !m.params.Raster && (zone < 0 || zone >= int64(m.params.shapes.count())) {
			return errValue
		}
		states, known := m.active[zone]
		if !known {
			states = make([]zonal.State, len(m.specs))
			m.active[zone] = states
		}
		for i, spec := range m.specs {
			var part zonal.State
			var err error
			if b, err = spec.Decode(b, &part); err == nil {
				err = spec.Merge(&states[i], &part)
			}
			if err != nil {
				return fmt.Errorf("zone %d: %w", zone, err)
			}
		}
		if head&1 == 1 {
			m.done.set(int(zone), m.results(states))
			delete(m.active, zone)
		}
	}
	return nil
}

// results returns the statistics of a zone; states is nil for one without pixels.
func (m *merger) results(states []zonal.State) []zonal.Value {
	m.values = m.values[:0]
	for i, spec := range m.specs {
		st := &zonal.State{}
		if states != nil {
			st = &states[i]
		}
		m.values = spec.Results(m.values, st)
	}
	return m.values
}

// finish ends the zones of a raster, of which the last block does not know that it is the last.
func (m *merger) finish() error {
	if !m.params.Raster {
		if n := len(m.active); n > 0 {
			return fmt.Errorf("%d zones are not finished", n)
		}
		return nil
	}
	m.order = slices.Sorted(maps.Keys(m.active))
	m.done.places = make([]int64, len(m.order))
	for i, zone := range m.order {
		m.done.set(i, m.results(m.active[zone]))
		delete(m.active, zone)
	}
	return nil
}

// row returns the results of zone i in the order of rows.
func (m *merger) row(dst []zonal.Value, i int) ([]zonal.Value, error) {
	if !m.done.has(i) {
		return append(dst, m.results(nil)...), nil
	}
	return m.done.get(dst, i)
}
