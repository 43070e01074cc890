package geotiff

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
)

const (
	// copyChunk bytes are copied at a time; ctx is looked at between two.
	copyChunk = 4 << 20
	// copiers copy at once: memory takes more than one core can bring.
	copiers = 2
)

// write writes header and tiles.
func (l *layout) write(ctx context.Context, dst, src *os.File) error {
	if _, err := dst.WriteAt(l.header(), 0); err != nil {
		return err
	}
	runs := make(chan piece)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(runs)
		return l.runs(ctx, src, runs)
	})
	for range copiers {
		g.Go(func() error {
			c := copier{dst: dst, src: src}
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

// runs checks the tiles' frames, joins tiles that lie side by side in the source as they do in the file, and hands
// the runs out in pieces of some copyChunk.
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
	var head [frameHead]byte
	for _, p := range l.ordered {
		if _, err := src.ReadAt(head[:], p.src); err != nil {
			return sourceError(src, p, err)
		}
		if n := int64(binary.LittleEndian.Uint32(head[:])); n != p.bytes-FrameBytes {
			return fmt.Errorf("the tile at byte %d of %s has %d bytes, not the %d expected: the file was changed by someone else", p.src, src.Name(), n, p.bytes-FrameBytes)
		}
		if run.bytes > 0 && run.src+run.bytes == p.src && run.bytes < copyChunk {
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

func sourceError(src *os.File, p piece, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s ends before the tile at byte %d does: the file was changed by someone else", src.Name(), p.src)
	}
	return err
}

// copier copies for one goroutine.
type copier struct {
	dst, src *os.File
	buf      []byte
	plain    bool // the kernel can't copy between these files by itself
}

func (c *copier) copy(ctx context.Context, p piece) error {
	for p.bytes > 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var n int64
		var err error
		chunk := min(p.bytes, copyChunk)
		if !c.plain {
			n, err = copyRange(c.dst, p.dst, c.src, p.src, chunk)
			if errors.Is(err, errors.ErrUnsupported) {
				c.plain = true
				continue
			}
		} else {
			n, err = c.copyPlain(p, chunk)
		}
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return sourceError(c.src, p, err)
		}
		p.src, p.dst, p.bytes = p.src+n, p.dst+n, p.bytes-n
	}
	return nil
}

// copyPlain copies through memory.
func (c *copier) copyPlain(p piece, chunk int64) (int64, error) {
	const most = 1 << 20
	if c.buf == nil {
		c.buf = make([]byte, most)
	}
	b := c.buf[:min(chunk, most)]
	if _, err := c.src.ReadAt(b, p.src); err != nil {
		return 0, err
	}
	n, err := c.dst.WriteAt(b, p.dst)
	return int64(n), err
}
