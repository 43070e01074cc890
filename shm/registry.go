//go:build unix

package shm

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"unsafe"
)

const (
	// maxIdle is how many mappings nobody uses are kept for the next attach of their arrays.
	maxIdle = 64
	// maxCached is how many handles are remembered with what they lead to.
	maxCached = 4096
)

// registry knows all shared memory of a Pool. Lock order: Scope.mu, Pool.arenaMu, registry.mu,
// pool.mu. No system call that may take long is made under mu: segments that are to be closed are
// returned to the caller.
type registry struct {
	mu       sync.Mutex
	closed   bool
	segments []*segment // by address
	objects  map[objectKey]*object
	arenas   map[arenaKey]*segment // of other processes
	cache    map[cacheKey]cached
	contents map[dedupeKey]*object

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

type cacheKey struct {
	handle Handle
	write  bool
}

// cached is what a handle leads to. It holds nothing: the object may be dead.
type cached struct {
	obj  *object
	view view
}

func (r *registry) init(idleLimit int64) {
	r.objects = map[objectKey]*object{}
	r.arenas = map[arenaKey]*segment{}
	r.cache = map[cacheKey]cached{}
	r.contents = map[dedupeKey]*object{}
	r.idleLimit = idleLimit
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// addSegment makes a segment known.
func (r *registry) addSegment(seg *segment) {
	i, _ := slices.BinarySearchFunc(r.segments, address(seg.mem),
		func(s *segment, a uintptr) int { return cmp.Compare(address(s.mem), a) })
	r.segments = slices.Insert(r.segments, i, seg)
}

func (r *registry) removeSegment(seg *segment) {
	i, ok := slices.BinarySearchFunc(r.segments, address(seg.mem),
		func(s *segment, a uintptr) int { return cmp.Compare(address(s.mem), a) })
	if ok {
		r.segments = slices.Delete(r.segments, i, i+1)
	}
}

func byBase(o *object, base int64) int { return cmp.Compare(o.base, base) }

// addObject makes an object known, with one reference.
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
	if o.dedupe != nil && r.contents[*o.dedupe] == o {
		delete(r.contents, *o.dedupe)
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

// release gives a reference back. The segments it returns are out of the registry: those of others
// are to be closed, own ones to be recycled or closed.
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
	// A mapping for writing is not kept: it would stand in the way of Seal. Of an array that was
	// handed over nobody here learns when it is freed.
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

// freed reports whether its maker has given up a segment of another process, or handed it over.
func (seg *segment) freed() bool {
	if seg.state == nil {
		return false
	}
	state := seg.state.Load()
	return state == stateFreed || state == stateHanded
}

// retire takes an own segment without live objects out.
func (r *registry) retire(seg *segment) *segment {
	if seg.state != nil && seg.write && !seg.handed {
		seg.state.Store(stateFreed)
	}
	r.removeSegment(seg)
	return seg
}

// drop takes an idle segment of another process out.
func (r *registry) drop(seg *segment) *segment {
	r.idle--
	r.idleBytes -= int64(len(seg.mem))
	r.forget(seg)
	return seg
}

func (r *registry) forget(seg *segment) {
	for len(seg.objects) > 0 {
		r.removeObject(seg.objects[0])
	}
	for k, s := range r.arenas {
		if s == seg {
			delete(r.arenas, k)
		}
	}
	r.removeSegment(seg)
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

// sweepIdle takes out the idle segments that their makers gave up, or did not survive: they keep
// memory for nobody, and a maker from using it again.
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
	i, ok := slices.BinarySearchFunc(r.segments, lo,
		func(s *segment, a uintptr) int { return cmp.Compare(address(s.mem), a) })
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

// remember keeps what a handle leads to.
func (r *registry) remember(k cacheKey, c cached) {
	if len(r.cache) >= maxCached {
		clear(r.cache)
	}
	r.cache[k] = c
}

// closeAll closes segments, joining what fails.
func closeAll(segs []*segment) error {
	var err error
	for _, seg := range segs {
		err = errors.Join(err, seg.close())
	}
	return err
}
