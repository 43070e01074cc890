//go:build unix

package shm

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/ndarray"
	"leat/npy"
)

// Array is an array in shared memory: made by Put or New, or attached. Its memory is valid until
// Close, or until its Scope or Pool is closed; nothing watches over slices that outlive it. The
// elements are not synchronised; all else may be used by several goroutines.
type Array struct {
	sharer *Pool
	scope  *Scope
	obj    *object
	view   view
	mode   Mode
	part   *Array // whose memory it is, for fields and views; nil for one of its own
	closed atomic.Bool
	text   atomic.Pointer[Handle]
}

// Elem is the type of the elements.
func (a *Array) Elem() npy.Elem { return a.view.elem }

// Shape returns the elements along each dimension, outermost first. The caller must not change it.
func (a *Array) Shape() []int { return a.view.shape }

// Strides returns the bytes from one element to the next along each dimension, negative or 0 too.
// The caller must not change it.
func (a *Array) Strides() []int { return a.view.strides }

// Mode tells how the array may be used: ReadWrite if others see what is written, CopyOnWrite if
// writing is this Array's own, ReadOnly if there must be no writing: for attached arrays it would
// end the process. Arrays that were Put are ReadOnly though their maker's memory is not protected:
// others rely on them not to change.
func (a *Array) Mode() Mode { return a.mode }

// View returns the array as a view of its shared memory, of Type [ndarray.NoType] for truth values
// and records. It is valid as long as a is open. Its Shape and Strides are a's.
func (a *Array) View() *ndarray.Array {
	v := &ndarray.Array{Type: a.view.elem.DType(), Shape: a.view.shape, Strides: a.view.strides}
	if a.bad() {
		return v
	}
	lo, hi, err := a.view.bounds()
	if err != nil {
		return v
	}
	// Nothing but what the elements reach.
	v.Data = a.obj.bytes()[lo:hi:hi]
	v.Offset = int(a.view.offset - lo)
	return v
}

func (a *Array) bad() bool {
	if a.part != nil {
		return a.part.bad()
	}
	return a.closed.Load()
}

// Slice returns the elements of an array in C order as a Go slice of the same shared memory, valid
// as long as a is open. T must be the type of the elements: the Go type of a number, a struct with
// the same fields at the same places, or an array of either for the last dimensions.
func Slice[T any](a *Array) ([]T, error) {
	t := reflect.TypeFor[T]()
	elem, inner, err := npy.ElemOf(t)
	if err != nil {
		return nil, err
	}
	if a.bad() {
		return nil, fmt.Errorf("%w: the array", ErrClosed)
	}
	shape := a.view.shape
	outer := len(shape) - len(inner)
	if !elem.Equal(a.view.elem) && !(a.view.elem.DType() == ndarray.Float16 && elem.DType() == ndarray.Uint16) {
		return nil, fmt.Errorf("elements of %v can't be read as %v (%v)", a.view.elem, t, elem)
	}
	if outer < 0 || !sameInts(shape[max(outer, 0):], inner) {
		return nil, fmt.Errorf("an array of shape %v has no elements of %v", shape, t)
	}
	if !a.view.contiguousC() {
		return nil, fmt.Errorf("the array of shape %v and strides %v is not in C order: copy it, or use View",
			shape, a.view.strides)
	}
	if a.view.empty() {
		return []T{}, nil
	}
	n := 1
	for _, d := range shape[:outer] {
		n *= d
	}
	p := unsafe.Pointer(&a.obj.bytes()[a.view.offset])
	if uintptr(p)%uintptr(t.Align()) != 0 {
		return nil, fmt.Errorf("the elements lie at bytes that are no multiples of %d, as %v needs: copy the array", t.Align(), t)
	}
	return unsafe.Slice((*T)(p), n), nil
}

func sameInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Handle returns the text by which other processes of this machine and user attach the array. It
// leads there as long as the array is open in the process that made or received it. An array of
// this process alone, attached from its handle or for CopyOnWrite, has none: the error wraps
// ErrNotShared.
func (a *Array) Handle() (Handle, error) {
	if h := a.text.Load(); h != nil && !a.bad() {
		return *h, nil
	}
	switch {
	case a.bad():
		return "", fmt.Errorf("%w: the array", ErrClosed)
	case a.obj.addr.kind == "" || a.mode == CopyOnWrite:
		return "", fmt.Errorf("%w: the array is this process's own: Put it first", ErrNotShared)
	}
	h := a.obj.handle(a.view)
	a.text.Store(&h)
	return h, nil
}

// File returns a path at which other programs find the memory, and the byte in the file of the
// element with all indices 0. Arrays that have a file of their own, all larger than 64 KiB, are
// whole .npy files, which np.load(path, mmap_mode="r") opens; for others and for views there is
// np.ndarray(shape, dtype, np.memmap(path, "u1", "r"), offset, strides). Who opens it so holds
// nothing: the array must stay open until they are done.
func (a *Array) File() (path string, offset int64, err error) {
	if a.bad() {
		return "", 0, fmt.Errorf("%w: the array", ErrClosed)
	}
	h := &a.obj.addr
	offset = h.base + a.view.offset
	switch h.kind {
	case kindMemfd:
		return "/proc/" + strconv.Itoa(h.pid) + "/fd/" + strconv.Itoa(h.fd), offset, nil
	case kindFile:
		d, err := a.sharer.dir(h.root)
		if err != nil {
			return "", 0, err
		}
		return d.FilePath(fileName(h.id)), offset, nil
	case kindUser:
		return h.path, offset, nil
	}
	return "", 0, fmt.Errorf("%w: the array is this process's own", ErrNotShared)
}

// Field returns one field of the records of an array, in the same memory. It is valid as long as a
// is, and needs no Close. The dimensions of a field that is an array come last.
func (a *Array) Field(name string) (*Array, error) {
	v, ok := a.view.field(name)
	if !ok {
		return nil, fmt.Errorf("elements of %v have no field %q", a.view.elem, name)
	}
	return a.viewed(v)
}

// Sub returns another view of the elements of a, in the same memory: offset counts bytes from a's
// element with all indices 0, and like strides may be negative. It must stay within the array that
// was put. It is valid as long as a is, and needs no Close.
func (a *Array) Sub(offset int, shape, strides []int) (*Array, error) {
	return a.viewed(view{a.view.elem, a.view.offset + int64(offset), clone(shape), clone(strides)})
}

func (a *Array) viewed(v view) (*Array, error) {
	if a.bad() {
		return nil, fmt.Errorf("%w: the array", ErrClosed)
	}
	lo, hi, err := v.bounds()
	if err != nil {
		return nil, err
	}
	if lo < a.obj.data || hi > a.obj.data+a.obj.length {
		return nil, fmt.Errorf("a view of bytes %d to %d of an array of %d", lo-a.obj.data, hi-a.obj.data,
			a.obj.length)
	}
	part := a
	if a.part != nil {
		part = a.part
	}
	return &Array{sharer: a.sharer, obj: a.obj, view: v, mode: a.mode, part: part}, nil
}

// Seal ends the writing of others to an array made by New or PutWritable, for ever: they can still
// attach it for reading. Where a process has it attached for writing, for longer than a moment, the
// error wraps ErrWriters, and nothing has changed. What the same Pool attached for ReadWrite is not
// looked for, since it is one with a: it goes on writing, as a does. Only who made the array can
// seal it.
func (a *Array) Seal() error {
	if a.bad() {
		return fmt.Errorf("%w: the array", ErrClosed)
	}
	if !a.obj.own {
		return errors.New("an array is sealed by the process that made it, not by others")
	}
	o := a.obj
	if sealedState(o.state.Load()) {
		return nil
	}
	if o.addr.kind == kindFile {
		return a.sealNamed()
	}
	return o.sealWith(o.seg.fd, o.seg.seal)
}

// sealWith seals while no writer can come.
func (o *object) sealWith(fd int, seal func() error) error {
	// A writer that has closed it may have its lock for a moment longer, by a child that is being
	// started.
	err := patiently(func() error {
		ok, err := lockSealer(fd)
		if err == nil && !ok {
			err = unix.EWOULDBLOCK
		}
		return err
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%w: other processes write to the array: have them close it first", ErrWriters)
	}
	if err != nil {
		return err
	}
	err = seal()
	if err == nil {
		o.state.CompareAndSwap(stateOpen, stateSealed)
	}
	return errors.Join(err, unlockSealer(fd))
}

func (a *Array) sealNamed() error {
	d, err := a.sharer.dir(a.obj.addr.root)
	if err != nil {
		return err
	}
	hold, err := d.LockShared(fileName(a.obj.addr.id), true)
	if err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	err = a.obj.sealWith(hold.Fd(), func() error { return readable(hold) })
	return errors.Join(err, hold.Release())
}

// Close ends the use of the array. For arrays of this process's making the last Close frees them:
// handles lead nowhere then, and other processes keep what they have attached until they close it.
// An array that was handed over by Send stays its receiver's. Further calls do nothing.
func (a *Array) Close() error {
	if a.part != nil || a.closed.Swap(true) {
		return nil
	}
	if a.scope != nil {
		a.scope.forget(a)
	}
	return a.free()
}

func (a *Array) free() error {
	if a.obj.private() {
		return a.obj.seg.close()
	}
	return a.sharer.release(a.obj)
}

// private reports whether an object is this Array's alone.
func (o *object) private() bool { return o.addr.kind == "" || o.copied }
