package exec

import (
	"errors"
	"fmt"

	"leat/apply/internal/output"
	"leat/apply/internal/spool"
	"leat/block"
	"leat/internal/worker/coordinator"
	"leat/ndarray"
	"leat/raster"
	"leat/raster/overview"
	"leat/shm"
)

// resultMemory is memory that the run shares with the workers on this machine: they encode tiles
// into it, and the run spools them from there. Tiles that do not fit, and those of a worker without
// such memory, travel with the result instead.
type resultMemory struct {
	pool    *shm.Pool
	areas   [][]byte // by the number of the worker
	handles []string
}

// newResultMemory allocates memory for workers of these slots.
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

// close unmaps the memory. No result is being accepted any more.
func (m *resultMemory) close() error {
	if m == nil {
		return nil
	}
	return m.pool.Close()
}

// data returns the encoded tiles of an output that a worker has put at an offset of its memory.
func (m *resultMemory) data(res *coordinator.Result, o *answerOutput) ([]byte, error) {
	if m == nil || res.Number < 0 || res.Number >= len(m.areas) {
		return nil, errors.New("its tiles are in memory that the worker does not have")
	}
	area := m.areas[res.Number]
	if o.At < 0 || o.Shared > len(area) || o.At > len(area)-o.Shared {
		return nil, fmt.Errorf("%d bytes of tiles at byte %d of %d", o.Shared, o.At, len(area))
	}
	return area[o.At : o.At+o.Shared : o.At+o.Shared], nil
}

// record parses the record of an output, whose tables and, unless they are shared, tiles are in
// part.
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

// recordBytes returns by output how much memory the encoded tiles of the largest block usually take
// at most; 0 for an output whose pixels are known only with the first block.
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
	recordSlack = 64 << 10 // of the last tile, which may be longer than its pixels for a moment
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
