//go:build unix

package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"leat/internal/lockfile"
	"leat/internal/procfile"
	"leat/ndarray"
	"leat/npy"
)

// Pool makes and attaches shared arrays. One for a process is enough. It may be used by several
// goroutines. Its methods for arrays are those of its outermost [Scope].
type Pool struct {
	outermost
	opts Options
	boot [16]byte
	pid  int
	reg  registry
	pool pool
	room roomCache

	arenaMu sync.Mutex
	arena   *segment // that takes new entries; nil before the first
	arenaAt int64    // where its next entry begins

	dirMu     sync.Mutex
	dirs      map[string]*lockfile.Dir
	oldDirs   []*lockfile.Dir // kept until Close
	dirClosed bool

	hash hasher
}

// outermost is Scope under another name: a field named Scope would hide the method of that name.
type outermost = Scope

// Open returns a Pool; nil options are the defaults. It takes nothing from the system yet. The
// error names all options that are wrong, or tells that the machine is none for sharing.
func Open(o *Options) (*Pool, error) {
	opts, err := o.validate()
	if err != nil {
		return nil, err
	}
	if !littleEndian() {
		return nil, fmt.Errorf("machines whose numbers begin with their highest byte: %w", errors.ErrUnsupported)
	}
	boot, err := procfile.BootID()
	if err != nil {
		return nil, fmt.Errorf("which machine this is: %w", err)
	}
	s := &Pool{opts: opts, boot: boot, pid: os.Getpid(), dirs: map[string]*lockfile.Dir{}}
	s.outermost.init(s, nil)
	s.pool.limit = opts.RecycleBytes
	s.reg.init(opts.RecycleBytes)
	s.hash.init()
	return s, nil
}

// Close closes all scopes and frees all arrays made by the Pool, whoever holds them in this
// process: no memory that came from it may be touched any more. Other processes keep what they have
// attached.
func (s *Pool) Close() error {
	err := s.outermost.Close()
	if errors.Is(err, ErrClosed) {
		return nil
	}
	s.arenaMu.Lock()
	s.reg.mu.Lock()
	s.reg.closed, s.arena = true, nil
	segs := s.reg.segments
	for _, seg := range segs {
		for _, o := range seg.objects {
			o.dead = true
			if o.own {
				o.free()
			}
		}
		seg.objects = nil
		if seg.own && seg.write && !seg.handed && seg.state != nil {
			seg.state.Store(stateFreed)
		}
	}
	s.reg.segments, s.reg.idle = nil, 0
	clear(s.reg.objects)
	clear(s.reg.cache)
	clear(s.reg.arenas)
	clear(s.reg.contents)
	s.reg.mu.Unlock()
	s.arenaMu.Unlock()
	return errors.Join(err, closeAll(segs), closeAll(s.pool.close()), s.closeDirs())
}

// put shares what is put. It copies nothing that is shared already.
func (s *Pool) put(v any, shape []int, open bool) (*object, view, error) {
	src, err := sourceOf(v, shape)
	if err != nil {
		return nil, view{}, noRoomIf(err)
	}
	defer src.keepAlive()
	if !open {
		if o, vw, ok := s.shared(src); ok {
			return o, vw, nil
		}
	}
	if err := checkSize(src.length); err != nil {
		return nil, view{}, err
	}
	if !open && s.opts.Dedupe {
		return s.putOnce(src)
	}
	return s.copyOf(src, open)
}

// copyOf shares a copy.
func (s *Pool) copyOf(src *input, open bool) (*object, view, error) {
	p := &allocation{elem: src.view.elem, shape: src.view.shape, fortran: src.order, length: src.length, src: src,
		open: open}
	if !open && src.length <= arenaMax && (s.opts.Place == Auto || s.opts.Place == Memfd) {
		o, err := s.putSmall(p)
		if err == nil {
			return o, p.view(o.data), nil
		}
		if !errors.Is(err, errNoMemfd) && !errors.Is(err, ErrNoRoom) || s.opts.Place == Memfd {
			return nil, view{}, err
		}
	}
	o, err := s.create(p)
	if err != nil {
		return nil, view{}, err
	}
	return o, p.view(o.data), nil
}

// shared finds the object in which a source lies, and takes a reference.
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

// make makes an array of zeros that others may write.
func (s *Pool) make(e npy.Elem, shape []int) (*object, view, error) {
	n, err := e.DataSize(shape)
	if err != nil {
		return nil, view{}, noRoomIf(err)
	}
	p := &allocation{elem: e, shape: shape, length: n, open: true}
	o, err := s.create(p)
	if err != nil {
		return nil, view{}, err
	}
	return o, p.view(o.data), nil
}

// release gives a reference to an object back.
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
		return "", fmt.Errorf("%w: the array lies elsewhere: Put it first", ErrNotShared)
	}
	h := o.handle(v)
	return h, s.release(o)
}

// handle returns the text for a view of the object.
func (o *object) handle(v view) Handle {
	h := o.addr
	h.view = v
	return h.text()
}

func clone(s []int) []int { return append([]int(nil), s...) }
