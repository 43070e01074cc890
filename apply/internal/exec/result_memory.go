package exec

import (
	"errors"
	"fmt"

	"leat/apply/internal/output"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/overview"
	"leat/internal/worker/coordinator"
	"leat/ndarray"
	"leat/raster"
	"leat/shm"
)

// resultMemory is memory that the run shares with the workers on this machine. They encode tiles
// into it, and the run writes them from there to the spool. Tiles that do not fit, and those of
// workers without such memory, are sent with the result.
type resultMemory struct {
	pool    *shm.Pool
	areas   [][]byte // by the number of the worker
	handles []string
}

// newResultMemory allocates memory for a number of workers with a number of slots each. outputs has
// the bytes of each output's record. It returns nil if they are all 0.
func newResultMemory(workers, slots int, outputs []int) (*resultMemory, error) {
	each := 0
	for _, n := range outputs {
		each += n
	}
	if each == 0 {
		return nil, nil
	}
	// Never a file: tiles would be written to a disk twice, and a killed run would leave it behind.
	pool, err := shm.Open(&shm.Options{Place: shm.Memfd})
	if err != nil {
		return nil, err
	}
	m := &resultMemory{pool: pool}
	for range workers {
		area, handle, err := newArea(pool, slots*each)
		if err != nil {
			return nil, errors.Join(err, pool.Close())
		}
		m.areas, m.handles = append(m.areas, area), append(m.handles, string(handle))
	}
	return m, nil
}

func newArea(pool *shm.Pool, bytes int) (area []byte, h shm.Handle, err error) {
	a, err := pool.New(ndarray.Uint8, bytes)
	if err != nil {
		return nil, "", err
	}
	if area, err = shm.Slice[uint8](a); err != nil {
		return nil, "", err
	}
	h, err = a.Handle()
	return area, h, err
}

// close unmaps the memory. The caller has stopped accepting results.
func (m *resultMemory) close() error {
	if m == nil {
		return nil
	}
	return m.pool.Close()
}

// data returns the encoded tiles of an output that a worker has written to its memory.
func (m *resultMemory) data(res *coordinator.Result, o *answerOutput) ([]byte, error) {
	if m == nil || res.Number < 0 || res.Number >= len(m.areas) {
		return nil, errors.New("its tiles are in shared memory, which this worker does not have")
	}
	area := m.areas[res.Number]
	if o.At < 0 || o.Shared > len(area) || o.At > len(area)-o.Shared {
		return nil, fmt.Errorf("it has %d bytes of tiles at offset %d, beyond its shared memory of %d bytes", o.Shared,
			o.At, len(area))
	}
	return area[o.At : o.At+o.Shared : o.At+o.Shared], nil
}

// record parses the record of an output. part contains its tables, and its tiles unless they are in
// shared memory.
func (m *resultMemory) record(l *spool.Layout, b block.Block, part []byte, res *coordinator.Result,
	o *answerOutput) (*spool.Record, error) {
	if o.Shared == 0 {
		return l.Parse(b, part)
	}
	data, err := m.data(res, o)
	if err != nil {
		return nil, fmt.Errorf("%w: block %d: %w", spool.ErrRecord, b.Number, err)
	}
	return l.ParseParts(b, part, data)
}

// recordBytes returns, for each output, the memory for the encoded tiles of the largest block,
// which few records exceed. It is 0 for an output whose type is known only after the first block.
func recordBytes(grid raster.Grid, p block.Plan, writers []*output.Writer) (list []int) {
	w, h := min(p.WindowWidth, grid.Width), min(p.WindowHeight, grid.Height)
	for _, o := range writers {
		pixel := o.Bands * o.Type.Size()
		if o.Spec.Table != nil || pixel == 0 {
			list = append(list, 0)
			continue
		}
		n := output.RoundUp(w, o.TileWidth) * output.RoundUp(h, o.TileHeight) * pixel
		for _, f := range o.Factors {
			n += overview.Reduced(w, f) * overview.Reduced(h, f) * pixel
		}
		list = append(list, output.RoundUp(n+recordSlack, recordAlign))
	}
	return list
}

const (
	recordSlack = 64 << 10 // for the last tile, which may exceed its pixels while it is encoded
	recordAlign = 4096
)

// slotMemory divides the memory of a worker among its slots, and that of each among the outputs.
// It returns nil if the memory is too small.
func slotMemory(area []byte, slots int, outputs []int) (parts [][][]byte) {
	at := 0
	for range slots {
		var list [][]byte
		for _, n := range outputs {
			if n > len(area)-at {
				return nil
			}
			list = append(list, area[at:at+n:at+n])
			at += n
		}
		parts = append(parts, list)
	}
	return parts
}
