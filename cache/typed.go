//go:build unix

package cache

import (
	"context"
	"fmt"

	"leat/codec"
)

// Typed is a cache of values of one type, safe for concurrent use. The caller still closes the
// Cache.
type Typed[T any] struct {
	c     *Cache
	codec codec.Codec[T]
}

// NewTyped returns a Typed on c; a nil codec means [codec.Gob]. All processes must use the same
// codec. Decode gets the cache's own memory.
func NewTyped[T any](c *Cache, values codec.Codec[T]) *Typed[T] {
	if values == nil {
		values = codec.Gob[T]()
	}
	return &Typed[T]{c, values}
}

// Put encodes v and calls Cache.Put.
func (t *Typed[T]) Put(i int64, v T) (stored bool, err error) {
	b, err := t.codec.Encode(v)
	if err != nil {
		return false, fmt.Errorf("encoding entry %d: %w", i, err)
	}
	return t.c.Put(i, b)
}

// Get decodes an entry. The error is ErrMiss as in Cache.Get; a decoding error is not a miss.
func (t *Typed[T]) Get(i int64) (v T, err error) {
	err = t.c.View(i, func(b []byte) (err error) {
		if v, err = t.codec.Decode(b); err != nil {
			return fmt.Errorf("decoding entry %d: %w", i, err)
		}
		return nil
	})
	if err != nil {
		var zero T
		return zero, err
	}
	return v, nil
}

// GetOrFill is Cache.GetOrFill for a value. The result of fill is encoded and decoded again, so
// that every caller gets its own value.
func (t *Typed[T]) GetOrFill(ctx context.Context, i int64, fill func(ctx context.Context) (T, error)) (v T, err error) {
	b, err := t.c.GetOrFill(ctx, i, func(ctx context.Context) ([]byte, error) {
		v, err := fill(ctx)
		if err != nil {
			return nil, err
		}
		b, err := t.codec.Encode(v)
		if err != nil {
			return nil, fmt.Errorf("encoding entry %d: %w", i, err)
		}
		return b, nil
	})
	if err != nil {
		return v, err
	}
	if v, err = t.codec.Decode(b); err != nil {
		return v, fmt.Errorf("decoding entry %d: %w", i, err)
	}
	return v, nil
}
