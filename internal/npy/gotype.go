package npy

import (
	"fmt"
	"reflect"

	"leat/ndarray"
)

// ElemOf returns the element type of Go values of type t: booleans, integers (int and uint by their
// size on this machine), floats, complex numbers, and structs of those and of arrays of them. For a
// type that is an array as a whole the lengths are trailing dimensions: [2][3]float32 is float32
// and inner 2, 3; inner is nil for other types.
//
// Fields have the name of the tag `numpy:"name"`, else their Go name; embedded structs are fields
// with the name of their type. Fields that are unexported, blank or tagged `numpy:"-"` are padding,
// as are the gaps that Go leaves for alignment.
//
// The error wraps ErrUnsupported and names the field. Types that hold a Go pointer anywhere,
// unexported fields included, are refused: the address means nothing in a file or another process.
func ElemOf(t reflect.Type) (e Elem, inner []int, err error) {
	if t == nil {
		return Elem{}, nil, fmt.Errorf("%w: nil type", ErrUnsupported)
	}
	if nativeBigEndian() {
		return Elem{}, nil, fmt.Errorf("%w: %v in big-endian memory", ErrUnsupported, t)
	}
	e, inner, err = goArray(t, typeName(t), 0)
	if err == nil && len(inner) > 0 {
		_, err = arraySize(e, inner)
	}
	if err != nil {
		return Elem{}, nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return e, inner, nil
}

func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return "element"
	}
	if t.Name() == "" {
		return "struct"
	}
	return t.Name()
}

// goArray splits the lengths of arrays off a type. path names the type in errors.
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
		return Elem{}, kindError(t, path)
	}
	return ElemOfDType(types[t.Size()]), nil
}

func goStruct(t reflect.Type, path string, depth int) (Elem, error) {
	if depth >= maxNesting {
		return Elem{}, fmt.Errorf("%s: structs nested more than %d deep", path, maxNesting)
	}
	if t.Size() > maxElem {
		return Elem{}, fmt.Errorf("%s: larger than %d bytes", path, maxElem)
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
			return Elem{}, fmt.Errorf("%s is unexported and has a numpy tag", here)
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
			return Elem{}, fmt.Errorf("%s: %w", here, err)
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

// checkPointers returns an error for types that hold Go pointers anywhere, in padding too.
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
	return kindError(t, path)
}

func kindError(t reflect.Type, path string) error {
	return fmt.Errorf("%s is a %v, expected numbers, truth values, and structs and arrays of them", path, t.Kind())
}
