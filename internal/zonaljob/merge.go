package zonaljob

import (
	"encoding/binary"
	"errors"
	"fmt"

	"leat/internal/zonal"
)

// merger adds up what blocks emit, and keeps the results of finished zones.
type merger struct {
	params *params
	specs  []*zonal.Spec // by band of a variable
	active *zonal.Merger
	done   results
	order  []int64 // numbers of the zones of a raster, rising, after finish
	values []zonal.Value
}

// newMerger returns a merger that keeps up to maxBytes of zones' values in memory, 0 for the
// default, and others in a temporary file in dir.
func newMerger(p *params, maxBytes int64, dir string) (*merger, error) {
	specs, err := p.specs()
	if err != nil {
		return nil, err
	}
	m := &merger{params: p}
	for i, v := range p.Variables {
		for range v.Bands {
			m.specs = append(m.specs, specs[i])
		}
	}
	m.active = zonal.NewMerger(m.specs, &zonal.MergerOptions{MaxBytes: maxBytes, Dir: dir})
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
		var err error
		if b, err = m.active.Add(zone, b); err != nil {
			return err
		}
		if head&1 == 1 {
			if err := m.end(int(zone), zone); err != nil {
				return err
			}
		}
	}
	return nil
}

// end keeps the results of a zone for row i.
func (m *merger) end(i int, zone int64) error {
	var err error
	if m.values, err = m.active.Results(m.values[:0], zone); err != nil {
		return err
	}
	m.done.set(i, m.values)
	return nil
}

// finish ends the zones of a raster: no block knows that it is the last one of a zone.
func (m *merger) finish() error {
	zones := m.active.Zones()
	if !m.params.Raster {
		if n := len(zones); n > 0 {
			return fmt.Errorf("%d zones are not finished", n)
		}
		return m.active.Close()
	}
	m.order = zones
	m.done.places = make([]int64, len(m.order))
	for i, zone := range m.order {
		if err := m.end(i, zone); err != nil {
			return err
		}
	}
	return m.active.Close()
}

// row returns the results of zone i in the order of rows.
func (m *merger) row(dst []zonal.Value, i int) ([]zonal.Value, error) {
	if !m.done.has(i) {
		return m.active.Results(dst, int64(i)) // a zone without pixels
	}
	return m.done.get(dst, i)
}
