//go:build unix

package shm

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"leat/internal/npy"
	"leat/ndarray"
)

// Scope is a set of arrays that are closed together, such as those of one parallel call. It may be
// used concurrently.
type Scope struct {
	pool *Pool

	running sync.RWMutex // read-locked by calls while they run, locked by Close

	mu     sync.Mutex
	closed bool
	arrays map[*Array]struct{}
}

// Scope returns a new set of arrays, which the Pool's Close closes too.
func (s *Pool) Scope() (*Scope, error) {
	s.outermost.mu.Lock()
	defer s.outermost.mu.Unlock()
	if s.outermost.closed {
		return nil, fmt.Errorf("pool: %w", ErrClosed)
	}
	c := &Scope{pool: s, arrays: map[*Array]struct{}{}}
	s.scopes[c] = struct{}{}
	return c, nil
}

// Close rejects new calls with ErrClosed, waits for running ones, and closes the arrays of the
// scope. It does not wait for a Send or a Receive, which may wait for another process: a Send goes
// on, a Receive frees what it gets and returns ErrClosed. Further calls do nothing.
func (c *Scope) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Lock()
	defer c.running.Unlock()
	c.mu.Lock()
	arrays := c.arrays
	c.arrays = nil
	c.mu.Unlock()
	var err error
	for a := range arrays {
		if !a.closed.Swap(true) {
			err = errors.Join(err, a.free())
		}
	}
	c.pool.outermost.mu.Lock()
	delete(c.pool.scopes, c)
	c.pool.outermost.mu.Unlock()
	return err
}

var errScopeClosed = fmt.Errorf("scope: %w", ErrClosed)

// begin begins a call, or returns ErrClosed. The caller ends it by c.running.RUnlock.
func (c *Scope) begin() error {
	if !c.running.TryRLock() { // Close waits or works
		return errScopeClosed
	}
	err := c.checkOpen()
	if err != nil {
		c.running.RUnlock()
	}
	return err
}

// checkOpen returns ErrClosed once the scope is closed.
func (c *Scope) checkOpen() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errScopeClosed
	}
	return nil
}

// add returns an Array of the scope for an object that has a reference for it.
func (c *Scope) add(o *object, v view, mode Mode) *Array {
	a := &Array{pool: c.pool, scope: c, obj: o, view: v, mode: mode}
	c.mu.Lock()
	c.arrays[a] = struct{}{}
	c.mu.Unlock()
	return a
}

func (c *Scope) remove(a *Array) {
	c.mu.Lock()
	delete(c.arrays, a)
	c.mu.Unlock()
}

// Put copies v, which is an [*ndarray.Array], an *Array or a slice, into shared memory that only
// this process can write to, in C or Fortran order as v is, else in C order. shape is that of a
// slice, by default its length; arrays as elements, as in [][3]float32, are further dimensions. A v
// that lies in shared memory already, found by its address, is not copied: the Array returned is
// another reference to it. Elements that can't be shared, such as strings and pointers, are an
// error. If no place has space, the error wraps ErrNoSpace.
func (c *Scope) Put(v any, shape ...int) (*Array, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.RUnlock()
	return c.put(v, shape)
}

func (c *Scope) put(v any, shape []int) (*Array, error) {
	o, vw, err := c.pool.put(v, shape)
	if err != nil {
		return nil, err
	}
	mode := ReadOnly
	if o.state != nil && o.write && o.state.Load() == stateOpen {
		mode = ReadWrite
	}
	return c.add(o, vw, mode), nil
}

// New returns an array of zeros, in C order, that other processes may attach for ReadWrite until
// Seal. Its memory is taken at once, so later stores cannot fail.
func (c *Scope) New(t ndarray.DType, shape ...int) (*Array, error) {
	return c.newOf(npy.ElemOfDType(t), shape)
}

// NewOf is [Scope.New] for elements of a Go type that [Slice] can return, such as a struct. If T is
// an array, its lengths are further dimensions.
func NewOf[T any](c *Scope, shape ...int) (*Array, error) {
	e, inner, err := npy.ElemOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	return c.newOf(e, slices.Concat(shape, inner))
}

func (c *Scope) newOf(e npy.Elem, shape []int) (*Array, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.RUnlock()
	o, v, err := c.pool.make(e, clone(shape))
	if err != nil {
		return nil, err
	}
	return c.add(o, v, ReadWrite), nil
}

// Attach returns the array of a handle that another process of this host and user made, or this
// one. Each array is mapped once, and stays mapped for a while after its last use. The handle may
// be hostile. The error wraps ErrStale or ErrForeign in the cases that these describe. Other errors
// concern invalid handles, ReadWrite for a read-only array, and files outside Options.Roots.
func (c *Scope) Attach(h Handle, mode Mode) (*Array, error) {
	mode, err := mode.normalize()
	if err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.RUnlock()
	obj, v, err := c.pool.attach(h, mode)
	if err != nil {
		return nil, err
	}
	return c.add(obj, v, mode), nil
}

// HandleOf returns the handle of a view of shared memory without copying it: of a slice, with
// steps, negative or zero strides, transposed. The handle is valid as long as the memory is. For
// views of other memory it returns an error.
func (c *Scope) HandleOf(a *ndarray.Array) (Handle, error) {
	if err := c.begin(); err != nil {
		return "", err
	}
	defer c.running.RUnlock()
	return c.pool.handleOf(a)
}

// Pack returns a handle of v as for Put: one that holds the array itself if it has no more than
// Options.MaxInlineBytes and is not shared yet, else one of shared memory that lives as long as the
// scope.
func (c *Scope) Pack(v any, shape ...int) (Handle, error) {
	if err := c.begin(); err != nil {
		return "", err
	}
	defer c.running.RUnlock()
	src, err := sourceOf(v, shape)
	if err != nil {
		return "", wrapNoSpace(err)
	}
	if a, ok := v.(*Array); !ok || a.obj.private() {
		if limit := c.pool.opts.MaxInlineBytes; limit < 0 || src.length <= limit {
			if o, vw, ok := c.pool.shared(src); ok {
				// The memory lives as long as its own Array.
				return o.handle(vw), c.pool.release(o)
			}
			return c.pool.packInline(src)
		}
	}
	a, err := c.put(v, shape)
	if err != nil {
		return "", err
	}
	return a.Handle()
}

// packInline returns a handle that holds a whole .npy file.
func (s *Pool) packInline(src *input) (Handle, error) {
	defer src.keepAlive()
	if err := checkSize(src.length); err != nil {
		return "", err
	}
	// The file, its base64, and as much again while they grow.
	if err := s.reserveMemory(4 * src.length); err != nil {
		return "", err
	}
	file, err := npy.Header{Elem: src.view.elem, Shape: src.view.shape, Fortran: src.order}.Append(nil, entryAlign)
	if err != nil {
		return "", err
	}
	n := len(file)
	file = append(file, make([]byte, src.length)...)
	src.read(file[n:], 0)
	return inlineText(file), nil
}
