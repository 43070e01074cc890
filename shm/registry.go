//go:build unix

package shm

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"unsafe"
)

// maxIdle bounds the unused mappings that are kept for the next attach of their arrays.
const maxIdle = 64

// registry holds all shared memory of a Pool. Lock order: Scope.mu, Pool.arenaMu, registry.mu,
// recycler.mu. No slow system call is made under mu: the caller closes the segments returned.
type registry struct {
	mu       sync.Mutex
	closed   bool
	segments []*segment // by address
	objects  map[objectKey]*object
	arenas   map[arenaKey]*segment // of other processes

	idle      int // segments attached here that have no live object
	idleBytes int64
	idleLimit int64
	clock     uint64
}

type objectKey struct {
	id    ident
	write bool // a mapping for writing and one for reading are two objects; own ones are both
}

type arenaKey struct{ pid, fd int }

func (r *registry) init(idleLimit int64) {
	r.objects = map[objectKey]*object{}
	r.arenas = map[arenaKey]*segment{}
	r.idleLimit = idleLimit
}

// lock locks the registry, or returns ErrClosed.
func (r *registry) lock() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	return nil
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func byAddress(s *segment, a uintptr) int { return cmp.Compare(address(s.mem), a) }

func (r *registry) addSegment(seg *segment) {
	i, _ := slices.BinarySearchFunc(r.segments, address(seg.mem), byAddress)
	r.segments = slices.Insert(r.segments, i, seg)
}

func (r *registry) removeSegment(seg *segment) {
	if i, ok := slices.BinarySearchFunc(r.segments, address(seg.mem), byAddress); ok {
		r.segments = slices.Delete(r.segments, i, i+1)
	}
}

func byBase(o *object, base int64) int { return cmp.Compare(o.base, base) }

// addObject adds an object with one reference.
func (r *registry) addObject(o *object) {
	i, _ := slices.BinarySearchFunc(o.seg.objects, o.base, byBase)
	o.seg.objects = slices.Insert(o.seg.objects, i, o)
	for _, k := range o.keys() {
		r.objects[k] = o
	}
	o.refs = 0
	r.retain(o)
}

func (o *object) keys() []objectKey {
	if o.own {
		return []objectKey{{o.addr.id, false}, {o.addr.id, true}}
	}
	return []objectKey{{o.addr.id, o.write}}
}

func (r *registry) removeObject(o *object) {
	o.dead = true
	if i, ok := slices.BinarySearchFunc(o.seg.objects, o.base, byBase); ok && o.seg.objects[i] == o {
		o.seg.objects = slices.Delete(o.seg.objects, i, i+1)
	}
	for _, k := range o.keys() {
		if r.objects[k] == o {
			delete(r.objects, k)
		}
	}
}

// retain takes a reference.
func (r *registry) retain(o *object) {
	if o.refs == 0 {
		if o.seg.live == 0 && o.seg.idleAt != 0 {
			r.idle--
			r.idleBytes -= int64(len(o.seg.mem))
			o.seg.idleAt = 0
		}
		o.seg.live++
	}
	o.refs++
}

// release drops a reference. The caller closes the segments returned, or recycles own ones: they
// are no longer in the registry.
func (r *registry) release(o *object) []*segment {
	o.refs--
	if o.refs > 0 {
		return nil
	}
	seg := o.seg
	seg.live--
	if o.own {
		o.free()
		r.removeObject(o)
		if seg.live > 0 || seg.arena && !seg.full {
			return nil
		}
		return []*segment{r.retire(seg)}
	}
	if seg.arena {
		r.removeObject(o)
	}
	if seg.live > 0 {
		return nil
	}
	r.clock++
	seg.idleAt = r.clock
	r.idle++
	r.idleBytes += int64(len(seg.mem))
	// A mapping for writing is not kept, since it would prevent Seal. When an array that was handed
	// over is freed is not known here.
	if seg.freed() || o.write {
		return []*segment{r.drop(seg)}
	}
	var out []*segment
	for r.idle > maxIdle || r.idleBytes > r.idleLimit {
		out = append(out, r.drop(r.oldestIdle()))
	}
	return out
}

// free marks an own object as freed, for those who have it attached.
func (o *object) free() {
	if o.state != nil && o.seg.write && !o.seg.handed {
		o.state.Store(stateFreed)
	}
}

// free marks an own segment as freed.
func (seg *segment) free() {
	if seg.state != nil && seg.write && !seg.handed {
		seg.state.Store(stateFreed)
	}
}

// freed reports whether the maker of another process's segment freed it, or handed it over.
func (seg *segment) freed() bool {
	if seg.state == nil {
		return false
	}
	state := seg.state.Load()
	return state == stateFreed || state == stateHanded
}

// retire removes an own segment without live objects.
func (r *registry) retire(seg *segment) *segment {
	seg.free()
	r.removeSegment(seg)
	return seg
}

// drop removes an idle segment of another process.
func (r *registry) drop(seg *segment) *segment {
	r.idle--
	r.idleBytes -= int64(len(seg.mem))
	for len(seg.objects) > 0 {
		r.removeObject(seg.objects[0])
	}
	maps.DeleteFunc(r.arenas, func(_ arenaKey, s *segment) bool { return s == seg })
	r.removeSegment(seg)
	return seg
}

func (r *registry) oldestIdle() *segment {
	var oldest *segment
	for _, seg := range r.segments {
		if seg.idleAt != 0 && (oldest == nil || seg.idleAt < oldest.idleAt) {
			oldest = seg
		}
	}
	return oldest
}

// sweepIdle removes the idle segments that their makers freed, or did not survive: nobody needs
// their memory, and a maker cannot recycle it while it is mapped.
func (r *registry) sweepIdle() []*segment {
	if r.idle == 0 {
		return nil
	}
	var out []*segment
	for _, seg := range r.segments {
		if seg.idleAt != 0 && (seg.freed() || seg.pid != 0 && processGone(seg.pid)) {
			out = append(out, seg)
		}
	}
	for _, seg := range out {
		r.drop(seg)
	}
	return out
}

// find returns the object in whose data the bytes of a slice from lo to before hi lie.
func (r *registry) find(lo, hi uintptr) *object {
	i, ok := slices.BinarySearchFunc(r.segments, lo, byAddress)
	if !ok {
		i--
	}
	if i < 0 {
		return nil
	}
	seg := r.segments[i]
	start := address(seg.mem)
	if hi > start+uintptr(len(seg.mem)) {
		return nil
	}
	j, ok := slices.BinarySearchFunc(seg.objects, int64(lo-start), byBase)
	if !ok {
		j--
	}
	if j < 0 {
		return nil
	}
	o := seg.objects[j]
	data := start + uintptr(o.base+o.data)
	if lo < data || hi > data+uintptr(o.length) || o.refs == 0 {
		return nil
	}
	return o
}

// close frees all objects and returns all segments. No object can be added from then on.
func (r *registry) close() []*segment {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	segs := r.segments
	for _, seg := range segs {
		for _, o := range seg.objects {
			o.dead = true
			if o.own {
				o.free()
			}
		}
		seg.objects = nil
		if seg.own {
			seg.free()
		}
	}
	r.segments, r.idle = nil, 0
	clear(r.objects)
	clear(r.arenas)
	return segs
}

// closeAll closes segments, joining what fails.
func closeAll(segs []*segment) error {
	var err error
	for _, seg := range segs {
		err = errors.Join(err, seg.close())
	}
	return err
}
