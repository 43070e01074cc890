package tiffwrite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Tiles are written from the pages of the source. The kernel's copy_file_range took 80 to 100 ms
// for 84 MB on ext4 (Linux 6.18), because it works page by page where a large write uses large
// folios. It cannot share blocks either, since tiles start anywhere.
const (
	// leastMapped is the least number of bytes that are mapped: for fewer, it takes longer than to
	// read them.
	leastMapped = 512 << 10
	// copyChunk is the number of bytes that are read at a time if the source can't be mapped. Half
	// and four times as much are slower.
	copyChunk = 1 << 20
	// leastChunk is the same for small files.
	leastChunk = 128 << 10
	// runBytes is the size of adjacent tiles that one copier copies at a time.
	runBytes = 4 << 20
	// copiers is the number of goroutines that copy. One maps or reads while the other writes: file
	// systems allow one writer at a time.
	copiers = 2
)

// write writes the header and the tiles.
func (l *layout) write(ctx context.Context, dst, src *os.File) error {
	if _, err := dst.WriteAt(l.header(), 0); err != nil {
		return err
	}
	runs := make(chan piece)
	var writing sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(runs)
		return l.runs(ctx, src, runs)
	})
	for range copiers {
		g.Go(func() error {
			c := copier{dst: dst, src: src, writing: &writing}
			for r := range runs {
				if err := c.copy(ctx, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// runs checks the frames of the tiles, joins tiles that are adjacent in both source and file, and
// sends them in runs of about runBytes bytes.
func (l *layout) runs(ctx context.Context, src *os.File, out chan<- piece) error {
	var run piece
	flush := func() error {
		if run.bytes == 0 {
			return nil
		}
		select {
		case out <- run:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	heads := headReader{src: src}
	for p := range l.pieces() {
		head, err := heads.read(p)
		if err != nil {
			return sourceError(src, p, err)
		}
		if n := int64(binary.LittleEndian.Uint32(head)); n != p.bytes-FrameBytes {
			return fmt.Errorf("the tile at byte %d of %s has %d bytes, not the %d expected: another process changed the file", p.src, src.Name(), n, p.bytes-FrameBytes)
		}
		if run.bytes > 0 && run.src+run.bytes == p.src && run.bytes < runBytes {
			run.bytes += p.bytes
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		run = p
	}
	return flush()
}

// headReader reads the lengths before tiles. It reads those of small tiles that are close together
// at once. It reads others one by one, since they may lie among large tiles or pixels of overviews.
type headReader struct {
	src  io.ReaderAt
	buf  []byte
	from int64 // offset of buf
	end  int64 // of the last tile
}

const (
	// smallTile is the size below which a tile is small, and the distance within which it is close
	// to the tile before.
	smallTile = 4 << 10
	// headsRead is the number of bytes read at once, a quarter of them before the tile: tiles are
	// in the order in which workers finished them.
	headsRead = 64 << 10
)

// read returns the length before a tile, valid until the next call.
func (h *headReader) read(p piece) ([]byte, error) {
	distance := max(p.src-h.end, h.end-p.src)
	h.end = p.src + p.bytes
	if at := p.src - h.from; at >= 0 && at+frameHead <= int64(len(h.buf)) {
		return h.buf[at : at+frameHead], nil
	}
	from, want := p.src, frameHead
	if p.bytes < smallTile && distance < smallTile {
		from, want = max(0, p.src-headsRead/4), headsRead
	}
	if cap(h.buf) < want {
		h.buf = make([]byte, want)
	}
	n, err := h.src.ReadAt(h.buf[:want], from)
	h.buf, h.from = h.buf[:n], from
	at := int(p.src - from)
	if n < at+frameHead {
		return nil, err
	}
	return h.buf[at : at+frameHead], nil
}

func sourceError(src *os.File, p piece, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s ends within the tile at byte %d: another process changed the file", src.Name(),
			p.src)
	}
	return err
}

// copier copies runs for one goroutine.
type copier struct {
	dst, src *os.File
	buf      []byte
	// writing is held while a copier writes: in the kernel, another one would spin.
	writing *sync.Mutex
}

func (c *copier) copy(ctx context.Context, p piece) error {
	// Of a small file, most of the time would go into the pages of new memory.
	chunk := min(max(p.bytes/8, leastChunk), copyChunk)
	for p.bytes > 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, ok, err := min(p.bytes, runBytes), false, error(nil)
		if n >= leastMapped {
			ok, err = mapped(c.src, p.src, n, func(b []byte) error { return c.write(b, p.dst) })
		}
		if !ok || errors.Is(err, syscall.EFAULT) { // reading says what is wrong with the source
			n = min(n, chunk)
			err = c.read(p.src, n, p.dst, chunk)
		}
		if err != nil {
			return sourceError(c.src, p, err)
		}
		p.src, p.dst, p.bytes = p.src+n, p.dst+n, p.bytes-n
	}
	return nil
}

// read copies n bytes through memory, which has space for chunk bytes or more.
func (c *copier) read(from, n, to, chunk int64) error {
	if int64(len(c.buf)) < chunk {
		c.buf = make([]byte, chunk)
	}
	if _, err := c.src.ReadAt(c.buf[:n], from); err != nil {
		return err
	}
	return c.write(c.buf[:n], to)
}

func (c *copier) write(b []byte, to int64) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.dst.WriteAt(b, to)
	return err
}
