package raster

import (
	"context"
	"sync"
)

// TileCache keeps decoded tiles until the last read that needs them, within a limit of bytes. Each
// tile is decoded by one goroutine while others wait for it. When a tile does not fit, it is decoded
// into memory of the caller and not kept: slower, never wrong, never more memory. Safe for
// concurrent use.
type TileCache struct {
	mu    sync.Mutex
	max   int64
	used  int64
	peak  int64
	count int64 // decodes
	tiles map[TileKey]*tileEntry
	spare map[int][][]byte // returned memory by size, counted in used
	spent map[TileKey]int  // uses of tiles that went by without an entry
}

// TileKey names a tile: the source it belongs to, its plane (0 for pixel-interleaved files), and its place
// in the source's tile grid.
type TileKey struct {
	Source          any // comparable: a pointer to the driver's file
	Plane, Col, Row int
}

type tileEntry struct {
	ready chan struct{}
	data  []byte
	err   error
	left  int // uses still to come
	refs  int // readers that hold data now
}

// NewTileCache returns a cache that holds at most maxBytes of pixels.
func NewTileCache(maxBytes int64) *TileCache {
	return &TileCache{max: maxBytes, tiles: map[TileKey]*tileEntry{}, spare: map[int][][]byte{}, spent: map[TileKey]int{}}
}

// Get gives the decoded tile of size bytes to use, calling decode at most once for all its users
// where memory allows. uses is the number of Gets that the tile will see in all; after the last one it is
// dropped. use must not keep the bytes, nor change them.
func (c *TileCache) Get(ctx context.Context, key TileKey, size, uses int, decode func(dst []byte) error, use func(data []byte)) error {
	c.mu.Lock()
	e := c.tiles[key]
	if e == nil {
		var buf []byte
		left := uses - c.spent[key]
		if left > 1 { // the last use keeps nothing
			buf = c.take(size)
		}
		if buf == nil {
			c.count++
			c.spent[key]++
			if left <= 1 {
				delete(c.spent, key)
			}
			c.mu.Unlock()
			own := make([]byte, size)
			if err := decode(own); err != nil {
				return err
			}
			use(own)
			return nil
		}
		e = &tileEntry{ready: make(chan struct{}), data: buf, left: left, refs: 1}
		delete(c.spent, key)
		c.tiles[key] = e
		c.count++
		c.mu.Unlock()
		err := decode(buf)
		c.mu.Lock() // one who waited and gave up looks at it
		e.err = err
		c.mu.Unlock()
		close(e.ready)
	} else {
		e.refs++
		c.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			c.done(key, e)
			return ctx.Err()
		}
	}
	err := e.err
	if err == nil {
		use(e.data)
	}
	c.done(key, e)
	return err
}

// Has reports whether a tile is kept or being decoded. It is not a use.
func (c *TileCache) Has(key TileKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tiles[key] != nil
}

// take returns size bytes, recycled or new, or nil when the limit is reached; c.mu is held.
func (c *TileCache) take(size int) []byte {
	if s := c.spare[size]; len(s) > 0 {
		buf := s[len(s)-1]
		c.spare[size] = s[:len(s)-1]
		return buf
	}
	if c.used+int64(size) > c.max {
		for other, bufs := range c.spare { // memory of another size makes room
			for len(bufs) > 0 && c.used+int64(size) > c.max {
				bufs = bufs[:len(bufs)-1]
				c.used -= int64(other)
			}
			c.spare[other] = bufs
		}
		if c.used+int64(size) > c.max {
			return nil
		}
	}
	c.used += int64(size)
	c.peak = max(c.peak, c.used)
	return make([]byte, size)
}

func (c *TileCache) done(key TileKey, e *tileEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.left--
	e.refs--
	if (e.left <= 0 || e.err != nil) && c.tiles[key] == e {
		delete(c.tiles, key)
	}
	if e.refs == 0 && c.tiles[key] != e {
		c.spare[len(e.data)] = append(c.spare[len(e.data)], e.data)
	}
}

// Decoded returns how often a tile was decoded: once for each tile while memory allows.
func (c *TileCache) Decoded() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Peak returns the most bytes that were held at once.
func (c *TileCache) Peak() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}
