//go:build unix

package shm

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/npy"
	"leat/ndarray"
)

// Array is an array in shared memory, made by Put or New, or attached. Its memory, and all slices
// and views of it, are valid until its Close or that of its Scope or Pool. The elements are not
// synchronized; the methods may be called concurrently.
type Array struct {
	pool   *Pool
	scope  *Scope
	obj    *object
	view   view
	mode   Mode
	part   *Array // the Array that a field or view is part of; nil for a whole one
	closed atomic.Bool
}

// Descr returns NumPy's description of the elements as the Python literal in the header of a .npy
// file: '<f4' with its quotes, or a list of fields. Equal types have equal descriptions.
func (a *Array) Descr() string { return a.view.elem.Descr() }

// Shape returns the elements along each dimension, outermost first. The caller must not change it.
func (a *Array) Shape() []int { return a.view.shape }

// Mode returns how the array may be used: ReadWrite if others see what is written, CopyOnWrite if
// only this process does, ReadOnly if nothing may be written. Writing to an attached ReadOnly array
// ends the process; the memory of one that was Put is not protected, but others rely on it not to
// change.
func (a *Array) Mode() Mode { return a.mode }

// View returns the array as a view of its shared memory, of Type [ndarray.NoType] for truth values
// and records. It is valid as long as a is open. Its Shape is a's; its Strides are the bytes from
// one element to the next along each dimension, and may be negative or 0. The caller must not
// change either.
func (a *Array) View() *ndarray.Array {
	v := &ndarray.Array{Type: a.view.elem.DType(), Shape: a.view.shape, Strides: a.view.strides}
	if a.isClosed() {
		return v
	}
	lo, hi, err := a.view.bounds()
	if err != nil {
		return v
	}
	// Only the bytes that the elements cover.
	v.Data = a.obj.bytes()[lo:hi:hi]
	v.Offset = int(a.view.offset - lo)
	return v
}

var errArrayClosed = fmt.Errorf("array: %w", ErrClosed)

func (a *Array) isClosed() bool {
	return a.whole().closed.Load()
}

// Slice returns the elements of an array in C order as a slice of its memory, valid as long as a is
// open. T must be the type of the elements: the Go type of a number (uint16 for float16), a struct
// with the same fields at the same offsets, or an array of either for the last dimensions.
func Slice[T any](a *Array) ([]T, error) {
	t := reflect.TypeFor[T]()
	elem, inner, err := npy.ElemOf(t)
	if err != nil {
		return nil, err
	}
	if a.isClosed() {
		return nil, errArrayClosed
	}
	shape := a.view.shape
	outer := len(shape) - len(inner)
	if !elem.Equal(a.view.elem) && !(a.view.elem.DType() == ndarray.Float16 && elem.DType() == ndarray.Uint16) {
		return nil, fmt.Errorf("elements are %v, expected %v for %v", a.view.elem, elem, t)
	}
	if outer < 0 || !slices.Equal(shape[outer:], inner) {
		return nil, fmt.Errorf("array of shape %v has no elements %v", shape, t)
	}
	if !a.view.contiguousC() {
		return nil, fmt.Errorf("array of shape %v and strides %v is not in C order", shape, a.view.strides)
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
		return nil, fmt.Errorf("elements are not aligned to %d bytes for %v", t.Align(), t)
	}
	return unsafe.Slice((*T)(p), n), nil
}

// Handle returns the handle by which other processes of this host and user attach the array, as
// long as it is open in the process that made or received it. An array that is private to this
// process, attached from an inline handle or for CopyOnWrite, has none.
func (a *Array) Handle() (Handle, error) {
	switch {
	case a.isClosed():
		return "", errArrayClosed
	case a.obj.addr.kind == "" || a.mode == CopyOnWrite:
		return "", fmt.Errorf("%w: the array is private to this process", errNotShared)
	}
	return a.obj.handle(a.view), nil
}

// File returns a path at which other programs find the memory, and the byte in the file of the
// element with all indices 0. An array of more than 64 KiB is a whole .npy file, which
// np.load(path, mmap_mode="r") opens; for others and for views there is np.ndarray(shape, dtype,
// np.memmap(path, "u1", "r"), offset, strides). Such programs hold no lock: the array must stay
// open until they are done.
func (a *Array) File() (path string, offset int64, err error) {
	if err := a.begin(); err != nil {
		return "", 0, err
	}
	defer a.end()
	h := &a.obj.addr
	offset = h.base + a.view.offset
	switch h.kind {
	case kindMemfd:
		return "/proc/" + strconv.Itoa(h.pid) + "/fd/" + strconv.Itoa(h.fd), offset, nil
	case kindFile:
		d, err := a.pool.dir(h.root)
		if err != nil {
			return "", 0, err
		}
		return d.FilePath(fileName(h.id)), offset, nil
	case kindUser:
		return h.path, offset, nil
	}
	return "", 0, fmt.Errorf("%w: the array is private to this process", errNotShared)
}

// Field returns one field of the records of an array as a view of the same memory, which is valid
// as long as a is and needs no Close. The dimensions of a field that is an array come last.
func (a *Array) Field(name string) (*Array, error) {
	v, ok := a.view.field(name)
	if !ok {
		return nil, fmt.Errorf("elements of %v have no field %q", a.view.elem, name)
	}
	return a.viewed(v)
}

// Sub returns another view of the elements of a, which is valid as long as a is and needs no Close.
// offset counts bytes from a's element with all indices 0; it and the strides may be negative. The
// view must lie inside the array that was put.
func (a *Array) Sub(offset int, shape, strides []int) (*Array, error) {
	return a.viewed(view{a.view.elem, a.view.offset + int64(offset), clone(shape), clone(strides)})
}

func (a *Array) viewed(v view) (*Array, error) {
	if a.isClosed() {
		return nil, errArrayClosed
	}
	lo, hi, err := v.bounds()
	if err != nil {
		return nil, err
	}
	if lo < a.obj.data || hi > a.obj.data+a.obj.length {
		return nil, fmt.Errorf("view of bytes %d to %d, array has %d", lo-a.obj.data, hi-a.obj.data,
			a.obj.length)
	}
	return &Array{pool: a.pool, obj: a.obj, view: v, mode: a.mode, part: a.whole()}, nil
}

// Seal makes an array of New or NewOf read-only for other processes, for ever. If another process
// keeps it attached for writing, the error wraps ErrWriters and nothing has changed. a itself, and
// what the same Pool attached for ReadWrite, stay writable. Only the process that made an array can
// seal it.
func (a *Array) Seal() error {
	if err := a.begin(); err != nil {
		return err
	}
	defer a.end()
	return a.seal()
}

// whole returns the Array that a is part of, or a itself.
func (a *Array) whole() *Array {
	if a.part != nil {
		return a.part
	}
	return a
}

// begin begins a call that Close of the scope waits for, or returns ErrClosed; end ends it.
func (a *Array) begin() error {
	if a.isClosed() || a.whole().scope.begin() != nil {
		return errArrayClosed
	}
	return nil
}

func (a *Array) end() { a.whole().scope.running.RUnlock() }

func (a *Array) seal() error {
	if !a.obj.own {
		return errors.New("sealing an array that another process made")
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

// sealWith calls seal under the lock that keeps writers out.
func (o *object) sealWith(fd int, seal func() error) error {
	// A child that is being started may keep the lock of a writer for a moment after its Close.
	err := patiently(func() error {
		ok, err := lockByte(fd, unix.F_WRLCK)
		if err == nil && !ok {
			err = unix.EWOULDBLOCK
		}
		return err
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrWriters
	}
	if err != nil {
		return err
	}
	err = seal()
	if err == nil {
		o.state.CompareAndSwap(stateOpen, stateSealed)
	}
	_, unlocked := lockByte(fd, unix.F_UNLCK)
	return errors.Join(err, unlocked)
}

func (a *Array) sealNamed() error {
	d, err := a.pool.dir(a.obj.addr.root)
	if err != nil {
		return err
	}
	hold, err := d.LockShared(fileName(a.obj.addr.id), true)
	if err != nil {
		return fmt.Errorf("sealing: %w", err)
	}
	err = a.obj.sealWith(hold.Fd(), func() error { return makeReadOnly(hold) })
	return errors.Join(err, hold.Release())
}

// Close ends the use of the array. The last Close in the process that made it frees the array:
// handles become stale, and other processes keep what they have attached until they close it. An
// array that was handed over by Send remains its receiver's. Further calls do nothing.
func (a *Array) Close() error {
	if a.part != nil || a.closed.Swap(true) {
		return nil
	}
	a.scope.remove(a)
	return a.free()
}

func (a *Array) free() error {
	if a.obj.private() {
		return a.obj.seg.close()
	}
	return a.pool.release(a.obj)
}

// private reports whether an object belongs to one Array of this process.
func (o *object) private() bool { return o.addr.kind == "" || o.copied }
