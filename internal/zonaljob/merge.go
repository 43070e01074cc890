package zonaljob

import (
	"encoding/binary"
	"errors"
	"fmt"

	"leat/internal/units"
	"leat/internal/zonal"
)

// merger adds up what blocks emit, and keeps the results of finished zones.
type merger struct {
	params *params
	specs  []*zonal.Spec // by band of a variable
	active *zonal.Merger
	done   results
	order  []int64 // numbers of a raster's zones in increasing order, set by finish
	values []zonal.Value
	// maxZones bounds the number of a raster's zones, whose states are kept to the end; 0 is
	// unlimited.
	maxZones   int
	zonesBytes int64 // memory for maxZones zones
	maxBytes   int64 // of values in memory, and of merging them
}

// newMerger returns a merger for a run that may take memory bytes. An eighth of them is for zones'
// values; others are in a temporary file in dir. A quarter is for the states of a raster's zones.
func newMerger(p *params, memory int64, dir string) (*merger, error) {
	specs, err := p.specs()
	if err != nil {
		return nil, err
	}
	m := &merger{params: p}
	perZone := int64(120) // number, head and place, and their entries in maps
	for i, v := range p.Variables {
		for range v.Bands {
			m.specs = append(m.specs, specs[i])
			perZone += 50 + 9*int64(len(specs[i].Columns()))
		}
		if specs[i].KeepsValues() {
			m.maxBytes = memory / 8
		}
	}
	if p.Raster {
		m.zonesBytes = memory / 4
		m.maxZones = int(max(1, m.zonesBytes/perZone))
	}
	// Merging values takes as much memory again as they take.
	m.active = zonal.NewMerger(m.specs, &zonal.MergerOptions{MaxBytes: max(1, memory/16), Dir: dir})
	m.done.places = make([]int64, p.shapes.count())
	return m, nil
}

// bytes returns the memory that the merger may take, in addition to params.bytes.
func (m *merger) bytes() int64 { return m.maxBytes + m.zonesBytes }

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
		if m.maxZones > 0 && m.active.Len() > m.maxZones {
			return fmt.Errorf("more than %d zones, expected at most as many as fit %s, a quarter of the memory allowed",
				m.maxZones, units.FormatSize(m.zonesBytes))
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

// finish ends the zones whose last block is not known: those of a raster, and polygons whose last
// block had no pixels of any polygon and was skipped.
func (m *merger) finish() (err error) {
	defer func() {
		if cerr := m.active.Close(); err == nil {
			err = cerr
		}
	}()
	zones := m.active.Zones()
	if !m.params.Raster {
		for _, zone := range zones {
			if err := m.end(int(zone), zone); err != nil {
				return err
			}
		}
		return nil
	}
	m.order = zones
	m.done.places = make([]int64, len(m.order))
	for i, zone := range m.order {
		if err := m.end(i, zone); err != nil {
			return err
		}
	}
	return nil
}

// Close frees what a failed or interrupted run of the job still holds. Call it after the run.
func (o *Options) Close() error {
	if o.run == nil || o.run.merger == nil {
		return nil
	}
	return o.run.merger.active.Close()
}

// row returns the results of zone i in the order of rows.
func (m *merger) row(dst []zonal.Value, i int) ([]zonal.Value, error) {
	if !m.done.has(i) {
		return m.active.Results(dst, int64(i)) // a zone without pixels
	}
	return m.done.get(dst, i)
}
