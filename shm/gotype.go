package shm

import (
	"encoding/binary"
	"fmt"
	"reflect"

	"leat/ndarray"
)

// ElemOf returns the element type of Go values of type t: booleans, integers (int and uint by their
// size on this machine), floats, complex numbers, and structs of those and of arrays of them.
// Fields have the name of the tag `numpy:"name"`, else their Go name; embedded structs are fields
// with the name of their type. Fields that are unexported, blank or tagged `numpy:"-"` are padding,
// as are the gaps that Go leaves for alignment.
//
// The error wraps ErrElem and names the field. Whatever holds a Go pointer, unexported fields
// included, is refused: the address means nothing in another process, and the garbage collector
// would not see it. So are arrays as whole elements: they are dimensions of the array.
func ElemOf(t reflect.Type) (Elem, error) {
	e, shape, err := elemAndShape(t)
	if err == nil && shape != nil {
		return Elem{}, fmt.Errorf("%w: %v is an array: its lengths are dimensions of the whole array; or put it into a struct", ErrElem, t)
	}
	return e, err
}

// elemAndShape is ElemOf for types that may be arrays as a whole: [2][3]float32 is float32 with the
// trailing dimensions 2, 3. The shape is nil for what is no array. The error wraps ErrElem.
func elemAndShape(t reflect.Type) (Elem, []int, error) {
	if t == nil {
		return Elem{}, nil, fmt.Errorf("%w: there is no type", ErrElem)
	}
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return Elem{}, nil, fmt.Errorf("%w: shared arrays are little-endian, this machine is big-endian", ErrElem)
	}
	e, shape, err := goArray(t, typeName(t), 0)
	if err == nil && len(shape) > 0 {
		_, err = arraySize(e, shape)
	}
	if err != nil {
		return Elem{}, nil, fmt.Errorf("%w: %w", ErrElem, err)
	}
	return e, shape, nil
}

func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return "the element"
	}
	if t.Name() == "" {
		return "struct"
	}
	return t.Name()
}

// goArray takes arrays off a type. path says in errors where the type stands.
func goArray(t reflect.Type, path string, depth int) (Elem, []int, error) {
	var shape []int
	for t.Kind() == reflect.Array {
		shape = append(shape, t.Len())
		t = t.Elem()
		path += "[]"
	}
	e, err := goElem(t, path, depth)
	return e, shape, err
}

func goElem(t reflect.Type, path string, depth int) (Elem, error) {
	if t.Kind() == reflect.Struct {
		return goStruct(t, path, depth)
	}
	if t.Kind() == reflect.Bool {
		return elemBool, nil
	}
	var types [17]ndarray.DType // by bytes
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		types[1], types[2], types[4], types[8] = ndarray.Int8, ndarray.Int16, ndarray.Int32, ndarray.Int64
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		types[1], types[2], types[4], types[8] = ndarray.Uint8, ndarray.Uint16, ndarray.Uint32, ndarray.Uint64
	case reflect.Float32, reflect.Float64:
		types[4], types[8] = ndarray.Float32, ndarray.Float64
	case reflect.Complex64, reflect.Complex128:
		types[8], types[16] = ndarray.Complex64, ndarray.Complex128
	default:
		return Elem{}, pointerError(t, path)
	}
	return ElemOfDType(types[t.Size()]), nil
}

func goStruct(t reflect.Type, path string, depth int) (Elem, error) {
	if depth >= maxNesting {
		return Elem{}, fmt.Errorf("%s: structs are nested more than %d deep", path, maxNesting)
	}
	if t.Size() > maxElem {
		return Elem{}, fmt.Errorf("%s is larger than %d bytes", path, maxElem)
	}
	var b recordBuilder
	for f := range t.Fields() {
		here := path + "." + f.Name
		if err := checkPointers(f.Type, here); err != nil {
			return Elem{}, err
		}
		name, tagged := f.Tag.Lookup("numpy")
		switch {
		case name == "-":
			continue
		case tagged && !f.IsExported():
			return Elem{}, fmt.Errorf("%s is unexported and has a numpy tag; export it or take the tag away", here)
		case !f.IsExported():
			continue
		case !tagged:
			name = f.Name
		}
		e, shape, err := goArray(f.Type, here, depth+1)
		if err != nil {
			return Elem{}, err
		}
		if err := b.pad(int(f.Offset) - b.rec.size); err != nil {
			return Elem{}, fmt.Errorf("%s: %w", here, err)
		}
		if err := b.add(name, e, shape); err != nil {
			return Elem{}, fmt.Errorf("%s: %w; a tag such as `numpy:\"name\"` gives another name, `numpy:\"-\"` leaves the field out", here, err)
		}
	}
	if err := b.pad(int(t.Size()) - b.rec.size); err != nil {
		return Elem{}, fmt.Errorf("%s: %w", path, err)
	}
	e, err := b.done()
	if err != nil {
		return Elem{}, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// checkPointers refuses types that hold Go pointers anywhere, in padding too.
func checkPointers(t reflect.Type, path string) error {
	switch t.Kind() {
	case reflect.Array:
		if t.Len() == 0 { // as in the idiom _ [0]func()
			return nil
		}
		return checkPointers(t.Elem(), path+"[]")
	case reflect.Struct:
		for f := range t.Fields() {
			if err := checkPointers(f.Type, path+"."+f.Name); err != nil {
				return err
			}
		}
		return nil
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return nil
	}
	return pointerError(t, path)
}

func pointerError(t reflect.Type, path string) error {
	what := "a " + t.Kind().String()
	mend := "other processes can't follow it"
	switch t.Kind() {
	case reflect.Pointer:
		what = "a pointer"
	case reflect.String:
		mend += "; use an array of bytes such as [16]byte"
	case reflect.Slice:
		mend += "; use an array such as [3]float32"
	case reflect.Chan:
		what = "a channel"
	case reflect.Func:
		what = "a function"
	case reflect.Interface:
		what = "an interface"
	case reflect.UnsafePointer:
		what = "an unsafe.Pointer"
	case reflect.Uintptr:
		return fmt.Errorf("%s is a uintptr, an address that means nothing in other processes; use uint64 for a number",
			path)
	}
	return fmt.Errorf("%s is %s, which holds a Go pointer: %s", path, what, mend)
}
