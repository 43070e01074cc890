package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"leat/objstore"
)

// Codec turns bytes into values.
type Codec[T any] struct {
	// Decode makes a value from an object's bytes, which it may keep.
	Decode func(object []byte) (T, error)

	// If Encode, Load and Name are set too, Decode is expensive and runs once per machine: the
	// result of Encode is staged, and Load makes a value from it. Name identifies the three
	// functions and their settings, for example "jpeg-224px-v2": values staged under another name
	// are not found.
	Name   string
	Encode func(T) ([]byte, error)
	Load   func(encoded []byte) (T, error)
}

// TypedPool prefetches values of one type. It may be used by many goroutines.
type TypedPool[T any] struct {
	p *Pool
	c Codec[T]
}

// Typed returns a TypedPool on p. The codec must have either Decode alone or all of its fields.
func Typed[T any](p *Pool, c Codec[T]) (*TypedPool[T], error) {
	expensive := c.Encode != nil || c.Load != nil || c.Name != ""
	if c.Decode == nil || expensive && (c.Encode == nil || c.Load == nil || c.Name == "") {
		return nil, errors.New("a codec needs Decode alone, or Decode, Encode, Load and Name")
	}
	return &TypedPool[T]{p, c}, nil
}

// Prefetch is Pool.Prefetch for a value.
func (t *TypedPool[T]) Prefetch(src Source, name string) *TypedLazy[T] {
	if t.c.Encode == nil {
		return &TypedLazy[T]{t.p.Prefetch(src, name), t.c.Decode}
	}
	return &TypedLazy[T]{t.p.Prefetch(&decoded[T]{src, t.p, t.c}, name), t.c.Load}
}

// TypedLazy is a reference to a requested value. It may be used by many goroutines.
type TypedLazy[T any] struct {
	l      *Ref
	decode func([]byte) (T, error)
}

// Get waits for the value as Ref.Open does, and decodes it anew in each call. It also returns the
// origin of the value.
func (l *TypedLazy[T]) Get(ctx context.Context) (v T, info SourceInfo, err error) {
	b, err := l.l.Bytes(ctx)
	if err != nil {
		return v, info, err
	}
	info = l.l.Info()
	if v, err = l.decode(b); err != nil {
		return v, info, fmt.Errorf("decoding %s: %w", info.Source, err)
	}
	return v, info, nil
}

// Release is Ref.Release.
func (l *TypedLazy[T]) Release() { l.l.Release() }

// decoded is a source of the values that a codec makes from the objects of another source.
type decoded[T any] struct {
	src Source
	p   *Pool
	c   Codec[T]
}

func (d *decoded[T]) ID(name string) string { return d.src.ID(name) + "#" + d.c.Name }

func (d *decoded[T]) Describe(name string) SourceInfo { return describe(d.src, name) }

// version returns the version of a value: that of its object.
func (d *decoded[T]) version(i objstore.Info) objstore.Info {
	if !i.Versioned() {
		return objstore.Info{Name: i.Name, Size: -1}
	}
	return objstore.Info{Name: i.Name, Size: -1, ETag: fmt.Sprintf("%x", versionOf(i)), ModTime: i.ModTime}
}

func (d *decoded[T]) Stat(ctx context.Context, name string) (objstore.Info, error) {
	i, err := d.src.Stat(ctx, name)
	return d.version(i), err
}

func (d *decoded[T]) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	info, b, err := d.make(ctx, name)
	if err == nil && match != nil && match.ETag != info.ETag {
		err = fmt.Errorf("%w: %s", objstore.ErrChanged, d.ID(name))
	}
	if err != nil {
		return info, nil, err
	}
	return info, memory(b, offset, length), nil
}

// maker is a Source that makes whole objects anew each time, perhaps with different bytes, and
// handles retries itself.
type maker interface {
	make(ctx context.Context, name string) (objstore.Info, []byte, error)
}

func (d *decoded[T]) make(ctx context.Context, name string) (objstore.Info, []byte, error) {
	b, info, err := d.p.readAll(ctx, d.src, name, math.MaxInt64)
	if err != nil {
		return objstore.Info{}, nil, err
	}
	info = d.version(info)
	v, err := d.c.Decode(b)
	if err == nil {
		b, err = d.c.Encode(v)
	}
	if err != nil {
		return info, nil, fmt.Errorf("making %s: %w", d.ID(name), err)
	}
	info.Size = int64(len(b))
	return info, b, nil
}
