//go:build unix

package shm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"

	"leat/internal/lockfile"
	"leat/internal/npy"
	"leat/internal/procfile"
	"leat/ndarray"
)

// Pool makes and attaches shared arrays. One per process is enough. It may be used concurrently.
// Its methods for arrays are those of [Scope]; such arrays live until their or the Pool's Close.
type Pool struct {
	outermost
	scopes map[*Scope]struct{} // open ones, guarded by outermost.mu

	opts     Options
	boot     [16]byte
	pid      int
	reg      registry
	recycled recycler
	memory   freeMemory

	arenaMu sync.Mutex
	arena   *segment // takes new entries; nil before the first
	arenaAt int64    // where its next entry begins

	dirMu     sync.Mutex
	dirs      map[string]*lockfile.Dir
	oldDirs   []*lockfile.Dir // kept until Close
	dirClosed bool
}

// outermost is Scope under another name: a field named Scope would hide the method Scope.
type outermost = Scope

// Open returns a Pool; nil options are the defaults. It does not use any resources of the system
// yet. The error names all wrong options, or wraps errors.ErrUnsupported on big-endian machines.
func Open(o *Options) (*Pool, error) {
	opts, err := o.validate()
	if err != nil {
		return nil, err
	}
	if !littleEndian() {
		return nil, fmt.Errorf("sharing arrays on a big-endian machine: %w", errors.ErrUnsupported)
	}
	boot, err := procfile.BootID()
	if err != nil {
		return nil, fmt.Errorf("boot id of this host: %w", err)
	}
	s := &Pool{opts: opts, boot: boot, pid: os.Getpid(), scopes: map[*Scope]struct{}{},
		dirs: map[string]*lockfile.Dir{}}
	s.outermost.pool, s.arrays = s, map[*Array]struct{}{}
	s.recycled.limit = opts.RecycleBytes
	s.reg.init(opts.RecycleBytes)
	return s, nil
}

// Close rejects new calls with ErrClosed, waits for running ones as [Scope.Close] does, closes all
// scopes, and frees all arrays of the Pool: this process must not touch their memory any more.
// Other processes keep what they have attached. Further calls do nothing.
func (s *Pool) Close() error {
	err := s.outermost.Close() // no new scope from here on
	s.outermost.mu.Lock()
	scopes := slices.Collect(maps.Keys(s.scopes))
	s.outermost.mu.Unlock()
	for _, c := range scopes {
		err = errors.Join(err, c.Close())
	}
	s.arenaMu.Lock()
	s.arena = nil
	segs := s.reg.close()
	s.arenaMu.Unlock()
	return errors.Join(err, closeAll(segs), closeAll(s.recycled.close()), s.closeDirs())
}

// put shares v. It does not copy what is shared already.
func (s *Pool) put(v any, shape []int) (*object, view, error) {
	src, err := sourceOf(v, shape)
	if err != nil {
		return nil, view{}, wrapNoSpace(err)
	}
	defer src.keepAlive()
	if o, vw, ok := s.shared(src); ok {
		return o, vw, nil
	}
	if err := checkSize(src.length); err != nil {
		return nil, view{}, err
	}
	return s.copyOf(src)
}

// copyOf shares a copy of src.
func (s *Pool) copyOf(src *input) (*object, view, error) {
	p := &allocation{elem: src.view.elem, shape: src.view.shape, fortran: src.order, length: src.length, src: src}
	if src.length <= arenaMax && (s.opts.Place == Auto || s.opts.Place == Memfd) {
		o, err := s.putSmall(p)
		if err == nil {
			return o, p.view(o.data), nil
		}
		if !errors.Is(err, errNoMemfd) && !errors.Is(err, ErrNoSpace) || s.opts.Place == Memfd {
			return nil, view{}, err
		}
	}
	o, err := s.create(p)
	if err != nil {
		return nil, view{}, err
	}
	return o, p.view(o.data), nil
}

// shared returns the object that holds a source, with a reference, and the source as a view of it.
func (s *Pool) shared(src *input) (*object, view, bool) {
	lo, hi, err := src.view.bounds()
	if err != nil || len(src.mem) == 0 {
		return nil, view{}, false
	}
	start := address(src.mem)
	s.reg.mu.Lock()
	defer s.reg.mu.Unlock()
	o := s.reg.find(start+uintptr(lo), start+uintptr(hi))
	if o == nil {
		return nil, view{}, false
	}
	s.reg.retain(o)
	v := src.view
	v.offset = int64(start-address(o.seg.mem)) - o.base + v.offset
	v.shape, v.strides = clone(v.shape), clone(v.strides)
	return o, v, true
}

// make returns an array of zeros that others may write.
func (s *Pool) make(e npy.Elem, shape []int) (*object, view, error) {
	n, err := e.DataSize(shape)
	if err != nil {
		return nil, view{}, wrapNoSpace(err)
	}
	p := &allocation{elem: e, shape: shape, length: n, open: true}
	o, err := s.create(p)
	if err != nil {
		return nil, view{}, err
	}
	return o, p.view(o.data), nil
}

// release drops a reference to an object.
func (s *Pool) release(o *object) error {
	s.reg.mu.Lock()
	if s.reg.closed || o.dead {
		s.reg.mu.Unlock()
		return nil
	}
	segs := s.reg.release(o)
	s.reg.mu.Unlock()
	return s.giveBack(segs)
}

// handleOf returns the handle of a view that lies in shared memory.
func (s *Pool) handleOf(a *ndarray.Array) (Handle, error) {
	src, err := sourceOf(a, nil)
	if err != nil {
		return "", err
	}
	o, v, ok := s.shared(src)
	if !ok {
		return "", fmt.Errorf("%w: the array was not put", errNotShared)
	}
	h := o.handle(v)
	return h, s.release(o)
}

// handle returns the handle of a view of the object.
func (o *object) handle(v view) Handle {
	h := o.addr
	h.view = v
	return h.text()
}

func clone(s []int) []int { return append([]int(nil), s...) }
