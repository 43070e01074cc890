package spool

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"leat/block"
	"leat/internal/tiffwrite"
	"leat/ndarray"
)

// Reader reads windows of full resolution from the tiles of a finished spool.
type Reader struct {
	s    *Spool
	pool sync.Pool
}

type tileBuffer struct{ stored, pixels []byte }

// NewReader returns a reader of the spool, after Finish. The tiles of each band are separate.
func (s *Spool) NewReader() *Reader {
	return &Reader{s: s, pool: sync.Pool{New: func() any { return new(tileBuffer) }}}
}

// Read fills a with the pixels of a window. Several goroutines decode its tiles.
func (r *Reader) Read(ctx context.Context, w block.Window, a *ndarray.Array) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for plane := range r.s.l.File.Planes() {
		for p := range r.s.l.tilesIn(w) {
			g.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				b := r.pool.Get().(*tileBuffer)
				defer r.pool.Put(b)
				return r.tile(b, plane, p, w, a)
			})
		}
	}
	return g.Wait()
}

// tile copies the pixels of a tile of one band that lie in the window.
func (r *Reader) tile(b *tileBuffer, plane int, p position, w block.Window, a *ndarray.Array) error {
	s, f := r.s, &r.s.l.File
	ref := s.TileRef(0, f.TileIndex(0, plane, p.col, p.row))
	if b.pixels == nil {
		b.pixels = ndarray.New(ndarray.Uint8, f.Shape().Bytes()).Raw()
	}
	if int64(cap(b.stored)) < ref.Bytes {
		b.stored = make([]byte, ref.Bytes)
	}
	stored := b.stored[:ref.Bytes]
	if _, err := s.file.ReadAt(stored, ref.Offset); err != nil {
		return fmt.Errorf("%s: reading a tile back: %w", s.file.path, err)
	}
	coding, _ := s.chooser.coding()
	if err := tiffwrite.DecodeTile(f.Shape(), coding, stored, b.pixels); err != nil {
		return fmt.Errorf("%s: %w", s.file.path, err)
	}
	size := f.Type.Size()
	part := s.l.tileWindow(0, p.col, p.row).Intersect(w)
	dst := a.At(plane)
	for y := range part.Height {
		from := ((part.Row+y-p.row*f.TileHeight)*f.TileWidth + part.Col - p.col*f.TileWidth) * size
		to := dst.Offset + (part.Row+y-w.Row)*dst.Strides[0] + (part.Col-w.Col)*size
		copy(dst.Data[to:to+part.Width*size], b.pixels[from:])
	}
	return nil
}
