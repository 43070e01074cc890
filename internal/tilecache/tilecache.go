// Package tilecache keeps decoded tiles of rasters that a later window needs again.
package tilecache

import (
	"context"
	"sync"

	"leat/block"
)

// Source is a raster.Source whose tiles or strips are decoded as a whole.
type Source interface {
	// SetCache makes Read and ReadMask keep decoded tiles in c and look for them there. uses
	// returns how many reads of the whole job overlap a window of the raster, such as that of a
	// tile; tiles used once are not kept. SetCache is called before the first Read.
	SetCache(c *Cache, uses func(w block.Window) int)
}

// Cache keeps decoded tiles until the last read that needs them, within a limit of bytes. One
// goroutine decodes a tile while others wait for it. A tile that does not fit is decoded into the
// caller's memory and not kept. Cache is safe for concurrent use.
type Cache struct {
	mu          sync.Mutex
	max         int64
	used        int64
	peak        int64
	count       int64 // number of decodes
	tiles       map[Key]*entry
	freeBuffers map[int][][]byte // recycled buffers by size, counted in used
	usedUp      map[Key]int      // uses so far of tiles that are not kept
}

// Key identifies a tile by the source it belongs to, its plane (0 for pixel-interleaved files),
// and its column and row in the source's tile grid.
type Key struct {
	Source          any // comparable: a pointer to the driver's file
	Plane, Col, Row int
}

type entry struct {
	ready    chan struct{}
	data     []byte
	err      error
	usesLeft int // remaining uses
	refs     int // readers that use data now
}

// New returns a cache of at most maxBytes bytes of pixels.
func New(maxBytes int64) *Cache {
	return &Cache{max: maxBytes, tiles: map[Key]*entry{}, freeBuffers: map[int][][]byte{},
		usedUp: map[Key]int{}}
}

// Get calls use with the decoded tile of size bytes. If memory allows, decode is called once for
// all users of the tile. uses is the total number of Gets of the tile; the last one drops it. use
// must neither keep nor change the bytes.
func (c *Cache) Get(ctx context.Context, key Key, size, uses int, decode func(dst []byte) error,
	use func(data []byte)) error {
	c.mu.Lock()
	e := c.tiles[key]
	if e == nil {
		var buf []byte
		left := uses - c.usedUp[key]
		if left > 1 { // the last use need not keep the tile
			buf = c.take(size)
		}
		if buf == nil {
			c.count++
			c.usedUp[key]++
			if left <= 1 {
				delete(c.usedUp, key)
			}
			c.mu.Unlock()
			own := make([]byte, size)
			if err := decode(own); err != nil {
				return err
			}
			use(own)
			return nil
		}
		e = &entry{ready: make(chan struct{}), data: buf, usesLeft: left, refs: 1}
		delete(c.usedUp, key)
		c.tiles[key] = e
		c.count++
		c.mu.Unlock()
		err := decode(buf)
		c.mu.Lock() // done reads e.err for a waiter whose context ended
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

// Has reports whether a tile is kept or being decoded. It does not count as a use.
func (c *Cache) Has(key Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tiles[key] != nil
}

// take returns size bytes, recycled or new, or nil when the limit is reached. c.mu must be held.
func (c *Cache) take(size int) []byte {
	if s := c.freeBuffers[size]; len(s) > 0 {
		buf := s[len(s)-1]
		c.freeBuffers[size] = s[:len(s)-1]
		return buf
	}
	if c.used+int64(size) > c.max {
		for other, bufs := range c.freeBuffers { // drop buffers of other sizes
			for len(bufs) > 0 && c.used+int64(size) > c.max {
				bufs = bufs[:len(bufs)-1]
				c.used -= int64(other)
			}
			c.freeBuffers[other] = bufs
		}
		if c.used+int64(size) > c.max {
			return nil
		}
	}
	c.used += int64(size)
	c.peak = max(c.peak, c.used)
	return make([]byte, size)
}

func (c *Cache) done(key Key, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.usesLeft--
	e.refs--
	if (e.usesLeft <= 0 || e.err != nil) && c.tiles[key] == e {
		delete(c.tiles, key)
	}
	if e.refs == 0 && c.tiles[key] != e {
		c.freeBuffers[len(e.data)] = append(c.freeBuffers[len(e.data)], e.data)
	}
}

// Decoded returns the number of decodes: one per tile while memory allows.
func (c *Cache) Decoded() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Peak returns the largest number of bytes held at one time.
func (c *Cache) Peak() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}
