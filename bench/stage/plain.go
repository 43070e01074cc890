package stage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"leat/objstore"
)

// plain is the job as a program without a stage does it: goroutines read objects into memory and
// write each to a file; each file is read, in order, as soon as it is there, and removed.
func (w *worker) plain() error {
	path := func(i int) string { return filepath.Join(w.Dir, strconv.Itoa(i)) }
	there := make([]chan struct{}, w.Objects)
	for i := range there {
		there[i] = make(chan struct{})
	}
	get := w.get
	if w.URL != "" {
		get = w.bare(w.fresh)
	}
	g, ctx := errgroup.WithContext(w.ctx)
	g.Go(func() error {
		return w.each(func(i int) error {
			b, err := get(i)
			if err == nil {
				err = os.WriteFile(path(i), b, 0o600)
			}
			if err == nil {
				close(there[i])
			}
			return err
		})
	})
	g.Go(func() error {
		for i := range w.Objects {
			select {
			case <-there[i]:
			case <-ctx.Done():
				return ctx.Err()
			}
			b, err := os.ReadFile(path(i))
			if err == nil {
				err = w.object(i).check(b)
			}
			if err == nil {
				err = os.Remove(path(i))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// each calls f with the number of every object, in order, in as many goroutines as there are
// workers.
func (w *worker) each(f func(i int) error) error {
	var mu sync.Mutex
	next := 0
	take := func() int {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1
	}
	g, ctx := errgroup.WithContext(w.ctx)
	for range w.Workers {
		g.Go(func() error {
			for i := take(); i < w.Objects && ctx.Err() == nil; i = take() {
				if err := f(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// get reads an object from the source into new memory.
func (w *worker) get(i int) ([]byte, error) {
	name := w.object(i).name()
	read := w.source.Read
	if w.bucket != nil {
		read = func(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
			io.ReadCloser, error) {
			return objstore.Retry{}.Read(ctx, w.source, name, offset, length, match)
		}
	}
	info, body, err := read(w.ctx, name, 0, -1, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b := make([]byte, info.Size)
	_, err = io.ReadFull(body, b)
	return b, err
}

func (w *worker) getAll() error { return w.look(w.get) }

func (w *worker) fresh() []byte { return make([]byte, w.Size) }

// bare returns what reads an object from the server by net/http alone, into memory that it gets
// from memory.
func (w *worker) bare(memory func() []byte) func(i int) ([]byte, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: w.Workers, DisableCompression: true}}
	return func(i int) ([]byte, error) {
		req, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.URL+"/"+w.object(i).name(), nil)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.ContentLength != w.Size {
			return nil, fmt.Errorf("%s: %s, %d bytes", req.URL, resp.Status, resp.ContentLength)
		}
		b := memory()
		_, err = io.ReadFull(resp.Body, b)
		return b, err
	}
}

func (w *worker) bareAll() error {
	if w.Op == opBare {
		return w.look(w.bare(w.fresh))
	}
	free := make(chan []byte, w.Workers)
	for range w.Workers {
		free <- w.fresh()
	}
	get := w.bare(func() []byte { return <-free })
	return w.each(func(i int) error {
		b, err := get(i)
		if err != nil {
			return err
		}
		err = w.object(i).check(b)
		free <- b
		return err
	})
}

// look reads all objects and looks at them.
func (w *worker) look(get func(i int) ([]byte, error)) error {
	return w.each(func(i int) error {
		b, err := get(i)
		if err != nil {
			return err
		}
		return w.object(i).check(b)
	})
}

// writeAll is the least that staging takes: each object is written to a file by one call. It is one
// file, as a stage packs small objects. The kernel lets one goroutine at a time write to it, and
// the others spin.
func (w *worker) writeAll() error {
	f, err := os.OpenFile(filepath.Join(w.Dir, "all"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.each(func(i int) error { return w.writeOne(f, i) })
}

func (w *worker) writeOne(f *os.File, i int) error {
	_, err := f.WriteAt(w.object(i).bytes(0), int64(i)*w.Size)
	return err
}

// writeAlone is writeAll with a file for each processor, to which one goroutine at a time writes.
func (w *worker) writeAlone() error {
	n := runtime.GOMAXPROCS(0)
	free := make(chan *os.File, n)
	for i := range n {
		f, err := os.OpenFile(filepath.Join(w.Dir, strconv.Itoa(i)), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		free <- f
	}
	return w.each(func(i int) error {
		f := <-free
		defer func() { free <- f }()
		return w.writeOne(f, i)
	})
}

// readAll is the least that reading takes: each is read by one call, into new memory or into the
// same.
func (w *worker) readAll() error {
	f, err := os.Open(filepath.Join(w.Dir, "all"))
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, w.Size)
	for i := range w.Objects {
		if w.Op == opRead {
			b = make([]byte, w.Size)
		}
		if _, err := f.ReadAt(b, int64(i)*w.Size); err != nil {
			return err
		}
		if err := w.object(i).check(b); err != nil {
			return err
		}
	}
	return nil
}
