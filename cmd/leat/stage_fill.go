package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"leat/internal/storeurl"
	"leat/internal/units"
	"leat/stage"
)

const (
	// mostFailures is how many failures are shown; --json lists all.
	mostFailures = 50
	// mostHeld is how many objects warm keeps in use until its end, so that the last ones of a list
	// do not take the space of the first. A process can have a million in use.
	mostHeld = 1 << 19
)

// filling is a run of a command that stages many objects.
type filling struct {
	s        *staging
	progress *stageProgress
	data     io.Writer // for failures in --json; nil: words

	mu   sync.Mutex
	held []*stage.Ref
	seen int
}

// stageFailure is an object that was not staged, in --json.
type stageFailure struct {
	URL   string `json:"url"`
	Error string `json:"error"`
}

// fail reports an object, or of a prefix, that was not staged.
func (f *filling) fail(url string, err error) {
	f.progress.failed.Add(1)
	url = storeurl.Redact(url)
	err = withSpaceHint(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen++
	if f.data != nil {
		_ = writeJSON(f.data, stageFailure{url, errorText(err)})
		return
	}
	switch {
	case f.seen <= mostFailures:
		list := messages(err)
		for i := range list {
			list[i].text = withURL(url, list[i].text)
		}
		f.progress.print(list)
	case f.seen == mostFailures+1:
		f.progress.print([]message{{text: "further failures are counted only; --json lists all"}})
	}
}

// fill stages all that the URLs name, several at the same time, and keeps them in use. The error is
// that of ctx: objects that fail are counted.
func (f *filling) fill(ctx context.Context, urls []string, recursive bool, most, workers int) error {
	f.progress.counting.Store(true)
	objects := make(chan wanted, 4*workers)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(objects)
		defer f.progress.counting.Store(false)
		return f.s.each(ctx, urls, recursive, func(w wanted) error {
			f.progress.known.Add(1)
			select {
			case objects <- w:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}, func(url string, err error) {
			f.progress.known.Add(1)
			f.fail(url, err)
		})
	})
	for range 2 * workers { // so that the pool's workers always find one in the queue
		g.Go(func() error {
			for w := range objects {
				if err := f.one(ctx, w, most); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// one stages an object. The error is that of ctx.
func (f *filling) one(ctx context.Context, w wanted, most int) error {
	l := f.s.pool.Prefetch(counted{w.src, &f.progress.bytes}, w.name)
	err := l.WaitStaged(ctx)
	switch {
	case ctx.Err() != nil:
		l.Release()
		return ctx.Err()
	case err != nil:
		l.Release()
		f.fail(w.src.ID(w.name), err)
		return nil
	}
	f.progress.done.Add(1)
	f.mu.Lock()
	keep := len(f.held) < most
	if keep {
		f.held = append(f.held, l)
	}
	f.mu.Unlock()
	if !keep {
		l.Release()
	}
	return nil
}

// release ends the use of what was staged.
func (f *filling) release() {
	for _, l := range f.held {
		l.Release()
	}
	f.held = nil
}

// fillDoc is what came of it, in --json.
type fillDoc struct {
	Objects int64 `json:"objects"`          // that were named, or found below a prefix
	Hits    int64 `json:"hits"`             // that were there already
	Copied  int64 `json:"copied_objects"`   // from their source
	Shared  int64 `json:"copied_elsewhere"` // by another process meanwhile
	Failed  int64 `json:"failed_objects"`
	Bytes   int64 `json:"bytes"` // of those that were copied
}

func (f *filling) doc() fillDoc {
	c := f.s.pool.Counters()
	p := f.progress
	d := fillDoc{Objects: p.known.Load(), Copied: c.Misses, Shared: c.Shared, Failed: p.failed.Load(), Bytes: c.Bytes}
	// One that is named twice is there the second time.
	d.Hits = max(0, p.done.Load()-d.Copied-d.Shared)
	return d
}

func (d fillDoc) text() string {
	text := fmt.Sprintf("%s: %d copied", units.Count(d.Objects, "object"), d.Copied)
	if d.Copied > 0 {
		text += " (" + units.FormatSize(d.Bytes) + ")"
	}
	text += fmt.Sprintf(", %d there already", d.Hits)
	if d.Shared > 0 {
		text += fmt.Sprintf(", %d copied by other processes", d.Shared)
	}
	return text + fmt.Sprintf(", %d failed", d.Failed)
}
