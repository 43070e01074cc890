package exec

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"leat/apply/internal/resolve"
	"leat/block"
	"leat/internal/freelist"
	"leat/internal/units"
	"leat/ndarray"
	"leat/shm"
)

// span is the place of a file's pixels and mask in a shared block: offsets and lengths in bytes.
type span struct{ at, pixels, maskAt, mask int }

// regionAlign is the alignment of arrays: a cache line, and enough for any type.
const regionAlign = 64

// placesOf lays out the arrays of the plan's largest block, and returns their places and total
// size.
func placesOf(in *resolve.Inputs, p block.Plan) (places []span, size int) {
	n := (min(p.WindowWidth, p.Width) + 2*p.Overlap) * (min(p.WindowHeight, p.Height) + 2*p.Overlap)
	take := func(bytes int) int {
		at := size
		size = (size + bytes + regionAlign - 1) &^ (regionAlign - 1)
		return at
	}
	for _, f := range in.Files {
		var pl span
		if len(f.Layers) > 0 {
			pl.pixels = n * len(f.Layers) * f.Type.Size()
			pl.at = take(pl.pixels)
			if f.Masked() || f.ExceededBy(p) {
				pl.mask = n * len(f.Planes)
				pl.maskAt = take(pl.mask)
			}
		}
		places = append(places, pl)
	}
	return places, max(size, regionAlign)
}

// newSharedBlocks returns n blocks in one array that other processes on this machine can attach.
func newSharedBlocks(s *shm.Pool, in *resolve.Inputs, p block.Plan, n int) (list []*blockData, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("memory for blocks that processes share: %w", err)
		}
	}()
	places, size := placesOf(in, p)
	a, err := s.New(ndarray.Uint8, n*size)
	if err != nil {
		return nil, err
	}
	region, err := shm.Slice[uint8](a)
	if err != nil {
		return nil, err
	}
	handle, err := a.Handle()
	if err != nil {
		return nil, err
	}
	for begin := 0; begin < n*size; begin += size {
		d := &blockData{files: make([]fileData, len(in.Files)), region: region, memory: handle, shared: a}
		for i, pl := range places {
			at, maskAt := begin+pl.at, begin+pl.maskAt
			d.files[i].store = region[at : at+pl.pixels : at+pl.pixels]
			if pl.mask > 0 {
				d.files[i].maskStore = region[maskAt : maskAt+pl.mask : maskAt+pl.mask]
			}
		}
		list = append(list, d)
	}
	return list, nil
}

// newBlocksInMemory returns n blocks, each in an array that other processes can attach until the
// pool is closed.
func newBlocksInMemory(in *resolve.Inputs, p block.Plan, n int) (*freelist.List[*blockData], *shm.Pool, error) {
	s, err := shm.Open(nil)
	if err != nil {
		return nil, nil, err
	}
	made := make(chan *blockData, n)
	for range n {
		list, err := newSharedBlocks(s, in, p, 1)
		if err != nil {
			return nil, nil, errors.Join(err, s.Close())
		}
		made <- list[0]
	}
	return freelist.New(n, func() (*blockData, error) { return <-made, nil }), s, nil
}

// groupBytes is the size of the arrays of newBlocksOnDemand: the process of a function maps each,
// which takes as long as two blocks of a function that does nothing.
const groupBytes = 4 << 20

// newBlocksOnDemand is newBlocksInMemory for functions in other processes. It makes blocks when
// they are needed, several in one array.
func newBlocksOnDemand(in *resolve.Inputs, p block.Plan, n int) (*freelist.List[*blockData], *shm.Pool, error) {
	s, err := shm.Open(nil)
	if err != nil {
		return nil, nil, err
	}
	_, size := placesOf(in, p)
	var mu sync.Mutex
	var made []*blockData
	left := n
	return freelist.New(n, func() (*blockData, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(made) == 0 {
			var err error
			if made, err = newSharedBlocks(s, in, p, min(max(1, groupBytes/size), left)); err != nil {
				return nil, err
			}
			left -= len(made)
		}
		d := made[0]
		made = made[1:]
		return d, nil
	}), s, nil
}

// Memory is where a block's pixels are, for a function in another process (Function.Shared).
type Memory struct {
	// Array is all of the memory. It is the same for all blocks that use this memory.
	Array *shm.Array
	Bytes int
	// Private is set if other processes use the memory too, so that nothing may be written to it.
	Private bool
	Arrays  []Place // by file
}

// Place is where in a block's memory the arrays of a file are: bytes from its beginning, -1 if
// there is none.
type Place struct{ Pixels, Mask int }

// Memory returns the block's memory, and false if it is only in this process.
func (b *Block) Memory() (Memory, bool) {
	d := b.data
	if d.shared == nil {
		return Memory{}, false
	}
	m := Memory{Array: d.shared, Bytes: len(d.region), Private: d.private, Arrays: make([]Place, 0, len(d.files))}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(d.region)))
	at := func(part []byte) int {
		if len(part) == 0 {
			return -1
		}
		return int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - begin)
	}
	for i := range d.files {
		f := &d.files[i]
		m.Arrays = append(m.Arrays, Place{at(f.store), at(f.mask)})
	}
	return m, true
}

// sharedBlock describes to a worker where in shared memory the arrays of a block are.
type sharedBlock struct {
	Memory shm.Handle    `json:"memory"` // an array of bytes
	Arrays []sharedArray `json:"arrays"` // by file, as in the run's description
}

type sharedArray struct {
	Offset int           `json:"offset"`
	Type   ndarray.DType `json:"type"`
	// Shape is (layers, rows, columns), without gaps; empty if the file is not read.
	Shape []int `json:"shape"`
	Mask  *int  `json:"mask,omitempty"` // offset of rows * columns bytes for each mask plane
}

// describe returns the places of the block's arrays.
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

// open returns the arrays of block b in the memory, after checking them against the run's
// description.
func (s *sharedBlock) open(files []*resolve.File, overlap int, b block.Block, memory []byte) (*blockData, error) {
	if len(s.Arrays) != len(files) {
		return nil, fmt.Errorf("block %d comes with %s instead of %d", b.Number, units.Count(len(s.Arrays), "array"),
			len(files))
	}
	d := &blockData{block: b, files: make([]fileData, len(files)), region: memory}
	w := b.Window.Grow(overlap)
	for i, f := range files {
		if len(f.Layers) == 0 {
			continue
		}
		a := &s.Arrays[i]
		part := func(at, n int) ([]byte, error) {
			if at < 0 || n > len(memory)-at {
				return nil, fmt.Errorf("block %d: an array of %d bytes at offset %d, beyond its memory of %d bytes",
					b.Number, n, at, len(memory))
			}
			return memory[at : at+n : at+n], nil
		}
		n, ok := ndarray.ByteSize(f.Type, len(f.Layers), w.Height, w.Width)
		if !ok || a.Type != f.Type || len(a.Shape) != 3 || a.Shape[0] != len(f.Layers) || a.Shape[1] != w.Height ||
			a.Shape[2] != w.Width || a.Offset%regionAlign != 0 {
			return nil, fmt.Errorf("block %d: an array of %v with shape %v does not fit %s", b.Number, a.Type, a.Shape, f.Path)
		}
		store, err := part(a.Offset, n)
		if err != nil {
			return nil, err
		}
		fd := &d.files[i]
		fd.store, fd.array = store, ndarray.FromBytes(f.Type, store, len(f.Layers), w.Height, w.Width)
		if a.Mask != nil {
			if fd.mask, err = part(*a.Mask, w.Width*w.Height*len(f.Planes)); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}
