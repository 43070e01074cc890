package apply

import (
	"fmt"

	"leat/block"
	"leat/ndarray"
	"leat/shm"
)

// span is where a file's part of a block lies in a region of memory, and how many bytes it has.
type span struct{ at, pixels, maskAt, mask int }

// regionAlign is what places begin at multiples of: a cache line, and enough for any type.
const regionAlign = 64

// placesOf cuts a region into places for the largest block of the plan, and returns its size.
func placesOf(in *inputs, p block.Plan) (places []span, size int) {
	n := (min(p.WindowWidth, p.Width) + 2*p.Overlap) * (min(p.WindowHeight, p.Height) + 2*p.Overlap)
	take := func(bytes int) int {
		at := size
		size = (size + bytes + regionAlign - 1) &^ (regionAlign - 1)
		return at
	}
	for _, f := range in.files {
		var pl span
		if len(f.layers) > 0 {
			pl.pixels = n * len(f.layers) * f.typ.Size()
			pl.at = take(pl.pixels)
			if f.masked || f.outside(p) {
				pl.mask = n
				pl.maskAt = take(n)
			}
		}
		places = append(places, pl)
	}
	return places, max(size, regionAlign)
}

// newSharedBlock is newBlockData in memory that other processes of this machine can attach.
func newSharedBlock(s *shm.Sharer, in *inputs, p block.Plan) (*blockData, error) {
	places, size := placesOf(in, p)
	a, err := s.New(ndarray.Uint8, size)
	if err != nil {
		return nil, err
	}
	d := &blockData{files: make([]fileData, len(in.files))}
	if d.region, err = shm.Slice[uint8](a); err != nil {
		return nil, err
	}
	if d.memory, err = a.Handle(); err != nil {
		return nil, err
	}
	for i, pl := range places {
		d.files[i].store = d.region[pl.at : pl.at+pl.pixels : pl.at+pl.pixels]
		if pl.mask > 0 {
			d.files[i].room = d.region[pl.maskAt : pl.maskAt+pl.mask : pl.maskAt+pl.mask]
		}
	}
	return d, nil
}

// sharedBlock tells a worker where in shared memory the arrays of a block lie.
type sharedBlock struct {
	Memory shm.Handle    `json:"memory"` // an array of bytes
	Arrays []sharedArray `json:"arrays"` // by file, as in the run's description
}

type sharedArray struct {
	Offset int           `json:"offset"`
	Type   ndarray.DType `json:"type"`
	Shape  []int         `json:"shape"`          // layers, rows, columns: without gaps; nothing where the file is not read
	Mask   *int          `json:"mask,omitempty"` // offset of rows * columns bytes: 0 where no pixel of any layer counts
}

// describe tells where the block's arrays lie.
func (d *blockData) describe(places []span) *sharedBlock {
	s := &sharedBlock{Memory: d.memory}
	for i := range d.files {
		f := &d.files[i]
		var a sharedArray
		if f.array != nil && f.store != nil {
			a = sharedArray{Offset: places[i].at, Type: f.array.Type, Shape: f.array.Shape}
			if f.mask != nil {
				a.Mask = &places[i].maskAt
			}
		}
		s.Arrays = append(s.Arrays, a)
	}
	return s
}

// open finds the arrays of block b in the memory, and holds them to what the run describes.
func (s *sharedBlock) open(r *run, b block.Block, memory []byte) (*blockData, error) {
	if len(s.Arrays) != len(r.in.files) {
		return nil, fmt.Errorf("block %d comes with %s instead of %d", b.Number, count(len(s.Arrays), "array"), len(r.in.files))
	}
	d := &blockData{block: b, files: make([]fileData, len(r.in.files)), region: memory}
	w := b.Window.Grow(r.plan.Blocks.Overlap)
	for i, f := range r.in.files {
		if len(f.layers) == 0 {
			continue
		}
		a := &s.Arrays[i]
		part := func(at, n int) ([]byte, error) {
			if at < 0 || n > len(memory)-at {
				return nil, fmt.Errorf("block %d: an array of %d bytes at byte %d of %d", b.Number, n, at, len(memory))
			}
			return memory[at : at+n : at+n], nil
		}
		n, ok := ndarray.Bytes(f.typ, len(f.layers), w.Height, w.Width)
		if !ok || a.Type != f.typ || len(a.Shape) != 3 || a.Shape[0] != len(f.layers) || a.Shape[1] != w.Height || a.Shape[2] != w.Width || a.Offset%regionAlign != 0 {
			return nil, fmt.Errorf("block %d: an array of %v with shape %v for %s", b.Number, a.Type, a.Shape, f.path)
		}
		store, err := part(a.Offset, n)
		if err != nil {
			return nil, err
		}
		fd := &d.files[i]
		fd.store, fd.array = store, ndarray.Over(f.typ, store, len(f.layers), w.Height, w.Width)
		if a.Mask != nil {
			if fd.mask, err = part(*a.Mask, w.Width*w.Height); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}
