//go:build unix

package shm

import (
	"errors"
	"fmt"
	"sync"

	"leat/ndarray"
	"leat/npy"
)

// Scope is a set of arrays that are closed together: those of one parallel call, or of several that
// reuse them. It may be used by several goroutines.
type Scope struct {
	sharer *Pool
	parent *Scope

	mu     sync.Mutex
	closed bool
	arrays map[*Array]struct{}
	inner  map[*Scope]struct{}
}

func (c *Scope) init(s *Pool, parent *Scope) {
	c.sharer, c.parent = s, parent
	c.arrays, c.inner = map[*Array]struct{}{}, map[*Scope]struct{}{}
}

// Scope returns a scope within c, which ends with c at the latest.
func (c *Scope) Scope() (*Scope, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("%w: the scope", ErrClosed)
	}
	in := &Scope{}
	in.init(c.sharer, c)
	c.inner[in] = struct{}{}
	return in, nil
}

// Close closes the scopes and arrays within c. A second Close is ErrClosed.
func (c *Scope) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return fmt.Errorf("%w: the scope", ErrClosed)
	}
	c.closed = true
	arrays, inner := c.arrays, c.inner
	c.arrays, c.inner = nil, nil
	c.mu.Unlock()
	var err error
	for in := range inner {
		if e := in.Close(); !errors.Is(e, ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	for a := range arrays {
		if !a.closed.Swap(true) {
			err = errors.Join(err, a.free())
		}
	}
	if c.parent != nil {
		c.parent.mu.Lock()
		delete(c.parent.inner, c)
		c.parent.mu.Unlock()
	}
	return err
}

// forget is told of an array that is being closed.
func (c *Scope) forget(a *Array) {
	c.mu.Lock()
	delete(c.arrays, a)
	c.mu.Unlock()
}

// checkOpen reports that the scope is closed.
func (c *Scope) checkOpen() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("%w: the scope", ErrClosed)
	}
	return nil
}

// array makes the Array of an object that has a reference for it.
func (c *Scope) array(o *object, v view, mode Mode) (*Array, error) {
	a := &Array{sharer: c.sharer, scope: c, obj: o, view: v, mode: mode}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, errors.Join(fmt.Errorf("%w: the scope", ErrClosed), a.free())
	}
	c.arrays[a] = struct{}{}
	c.mu.Unlock()
	return a, nil
}

// Put copies v, which is an [*ndarray.Array], an *Array or a slice, into shared memory that nobody
// else can write to, in C or Fortran order as v is, else in C order. shape is that of a slice, by
// default its length; arrays as elements, as in [][3]float32, are further dimensions. What lies in
// shared memory already, found by its address, is not copied: the Array returned is another
// reference to it. The error wraps ErrElem for elements that can't be shared, ErrNoRoom where no
// place has room.
func (c *Scope) Put(v any, shape ...int) (*Array, error) { return c.put(v, shape, false) }

// PutWritable is Put of an array that others may attach for ReadWrite until Seal. It always copies.
func (c *Scope) PutWritable(v any, shape ...int) (*Array, error) { return c.put(v, shape, true) }

func (c *Scope) put(v any, shape []int, open bool) (*Array, error) {
	if err := c.checkOpen(); err != nil {
		return nil, err
	}
	o, vw, err := c.sharer.put(v, shape, open)
	if err != nil {
		return nil, err
	}
	mode := ReadOnly
	if o.state != nil && o.write && o.state.Load() == stateOpen {
		mode = ReadWrite
	}
	return c.array(o, vw, mode)
}

// New returns an array of zeros, in C order, that other processes may attach for ReadWrite until
// Seal. Its memory is taken at once: no later store fails for want of it.
func (c *Scope) New(t ndarray.DType, shape ...int) (*Array, error) {
	return c.NewOf(npy.ElemOfDType(t), shape...)
}

// NewOf is New for elements of any type.
func (c *Scope) NewOf(e npy.Elem, shape ...int) (*Array, error) {
	if err := c.checkOpen(); err != nil {
		return nil, err
	}
	o, v, err := c.sharer.make(e, clone(shape))
	if err != nil {
		return nil, err
	}
	return c.array(o, v, ReadWrite)
}

// Attach finds the array of a handle that another process of this machine and user made, or this
// one. An object is mapped once however often it is attached, and for a while longer. What comes
// with the handle is checked; the errors are ErrHandle, ErrForeign, ErrStale, ErrSealed for
// ReadWrite of what is not to be written, and ErrRoot.
func (c *Scope) Attach(h Handle, mode Mode, o *AttachOptions) (*Array, error) {
	m, err := ParseMode(string(mode))
	if err != nil {
		return nil, err
	}
	if err := c.checkOpen(); err != nil {
		return nil, err
	}
	obj, v, err := c.sharer.attach(h, m, o)
	if err != nil {
		return nil, err
	}
	return c.array(obj, v, m)
}

// HandleOf returns the handle of any view of memory that is shared: a slice, with steps, negative
// or zero strides, transposed. Nothing is copied; the handle is good as long as the memory is. For
// views of other memory the error wraps ErrNotShared.
func (c *Scope) HandleOf(a *ndarray.Array) (Handle, error) {
	if err := c.checkOpen(); err != nil {
		return "", err
	}
	return c.sharer.handleOf(a)
}

// Pack returns a handle of v as for Put: one that holds the array where it has no more than
// Options.MaxBytes and is not shared yet, else one of shared memory that lives as long as the
// scope.
func (c *Scope) Pack(v any, shape ...int) (Handle, error) {
	if err := c.checkOpen(); err != nil {
		return "", err
	}
	src, err := sourceOf(v, shape)
	if err != nil {
		return "", noRoomIf(err)
	}
	if a, ok := v.(*Array); !ok || a.obj.private() {
		if limit := c.sharer.opts.MaxBytes; limit < 0 || src.length <= limit {
			o, vw, ok := c.sharer.shared(src)
			if !ok {
				defer src.keepAlive()
				if err := checkSize(src.length); err != nil {
					return "", err
				}
				// the .npy, its text, and as much again while they grow
				if err := c.sharer.reserveMemory(4 * src.length); err != nil {
					return "", err
				}
				return packInline(src)
			}
			// Whose memory it is knows how long it lives.
			return o.handle(vw), c.sharer.release(o)
		}
	}
	a, err := c.put(v, shape, false)
	if err != nil {
		return "", err
	}
	return a.Handle()
}

// packInline writes a whole .npy into a handle.
func packInline(src *input) (Handle, error) {
	header, err := npy.Header{Elem: src.view.elem, Shape: src.view.shape, Fortran: src.order}.Append(nil, entryAlign)
	if err != nil {
		return "", err
	}
	file := make([]byte, len(header)+int(src.length))
	copy(file, header)
	src.read(file[len(header):], 0)
	return inlineText(file), nil
}
