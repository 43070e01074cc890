//go:build linux

package cache

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/proctest"

	"leat/codec"
)

// pfio: 8 processes missing one entry fill it 8 times.
func TestProcessesFillOnce(t *testing.T) {
	c := create(t, 100, nil)
	marks := t.TempDir()
	var all []*proctest.Command
	for range 8 {
		all = append(all, proctest.New("fill", handleOf(t, c), "", "42", "200", marks).Start(t))
	}
	for _, p := range all {
		awaitEnd(t, p)
	}
	if n := len(allNames(t, marks)); n != 1 {
		t.Errorf("filled %d times", n)
	}
	wantEntry(t, c, 42, string(content(42)))
}

func TestProcessesFillEveryEntryOnce(t *testing.T) {
	c := create(t, 300, nil)
	var all []*proctest.Command
	for range 4 {
		all = append(all, proctest.New("fill all", handleOf(t, c), "").Start(t))
	}
	fills := 0
	for _, p := range all {
		fills += strings.Count(awaitEnd(t, p), "\n")
	}
	if rep := check(t, c); fills != 300 || rep.FilledSlots != 300 || rep.DeadBytes != 0 || !rep.OK() {
		t.Errorf("%d fills, %+v", fills, rep)
	}
}

func TestKilledFiller(t *testing.T) {
	c := create(t, 100, nil)
	first, second := t.TempDir(), t.TempDir()
	hangs := proctest.New("fill", handleOf(t, c), "", "42", "1000000", first).Start(t)
	await(t, "the filling", func() bool { return len(allNames(t, first)) == 1 })
	next := proctest.New("fill", handleOf(t, c), "", "42", "0", second).Start(t)
	time.Sleep(100 * time.Millisecond)
	if len(allNames(t, second)) != 0 {
		t.Error("two fill at once")
	}
	wantMiss(t, c, 42)
	hangs.Kill()
	awaitKilled(t, hangs)
	awaitEnd(t, next)
	wantEntry(t, c, 42, string(content(42)))
}

func TestFillWaitContext(t *testing.T) {
	c := create(t, 100, nil)
	marks := t.TempDir()
	proctest.New("fill", handleOf(t, c), "", "42", "1000000", marks).Start(t)
	await(t, "the filling", func() bool { return len(allNames(t, marks)) == 1 })
	var wg sync.WaitGroup
	for range 3 { // the one that polls, and those who wait for it
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			begun := time.Now()
			_, err := c.GetOrFill(ctx, 42, func(context.Context) ([]byte, error) { t.Error("filled"); return nil, nil })
			wantErr(t, err, context.DeadlineExceeded)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	wg.Wait()
}

// waiting returns how many goroutines of this process wait for another to fill a slot.
func waiting(c *Cache, i int64) int {
	c.flights.mu.Lock()
	defer c.flights.mu.Unlock()
	if f := c.flights.m[i]; f != nil {
		return f.waiting
	}
	return 0
}

func TestGoroutinesFillOnce(t *testing.T) {
	c := create(t, 10, nil)
	other := attachTo(t, c, nil)
	var fills atomic.Int64
	var wg sync.WaitGroup
	for k := range 16 {
		at := []*Cache{c, other}[k%2]
		wg.Go(func() {
			b, err := at.GetOrFill(t.Context(), 3, func(context.Context) ([]byte, error) {
				fills.Add(1)
				await(t, "the others", func() bool { return waiting(c, 3) == 7 && waiting(other, 3) == 7 })
				return []byte("entry"), nil
			})
			if err != nil || string(b) != "entry" {
				t.Errorf("%q, %v", b, err)
				return
			}
			b[0] = byte(k) // each has its own
		})
	}
	wg.Wait()
	if fills.Load() != 1 {
		t.Errorf("filled %d times", fills.Load())
	}
	wantEntry(t, c, 3, "entry")
}

func TestFailedFill(t *testing.T) {
	c := create(t, 10, nil)
	inside := make(chan bool)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := c.GetOrFill(t.Context(), 3, func(context.Context) ([]byte, error) {
			inside <- true
			await(t, "the other", func() bool { return waiting(c, 3) == 1 })
			return nil, errTest
		})
		wantErr(t, err, errTest)
	})
	<-inside
	b, err := c.GetOrFill(t.Context(), 3, func(context.Context) ([]byte, error) { return []byte("entry"), nil })
	if err != nil || string(b) != "entry" {
		t.Errorf("%q, %v", b, err)
	}
	wg.Wait()
	func() {
		defer func() { _ = recover() }()
		_, _ = c.GetOrFill(t.Context(), 4, func(context.Context) ([]byte, error) { panic("mine") })
	}()
	b, err = c.GetOrFill(t.Context(), 4, func(context.Context) ([]byte, error) { return nil, nil })
	if err != nil || b == nil || len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
	wantEntry(t, c, 4, "")
}

func TestFillInFrozenOrFullCache(t *testing.T) {
	fillAtOnce := func(t *testing.T, c *Cache) {
		t.Helper()
		var inside sync.WaitGroup
		inside.Add(3) // ends only if all three fill at the same time
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				b, err := c.GetOrFill(t.Context(), 3, func(context.Context) ([]byte, error) {
					inside.Done()
					inside.Wait()
					return []byte("entry"), nil
				})
				if err != nil || string(b) != "entry" {
					t.Errorf("%q, %v", b, err)
				}
			})
		}
		wg.Wait()
	}
	t.Run("frozen", func(t *testing.T) {
		c := create(t, 10, nil)
		must(t, c.Freeze(t.Context()))
		fillAtOnce(t, attachTo(t, c, nil))
	})
	t.Run("full disk", func(t *testing.T) {
		c := create(t, 10, nil)
		failAt(t, "cache.write", errNoSpace)
		b, err := c.GetOrFill(t.Context(), 1, func(context.Context) ([]byte, error) { return []byte("entry"), nil })
		if err != nil || string(b) != "entry" {
			t.Errorf("%q, %v", b, err)
		}
		fillAtOnce(t, c)
	})
}

func TestReentrantFill(t *testing.T) {
	c, other := create(t, 10, nil), create(t, 10, nil)
	never := func(context.Context) ([]byte, error) { return nil, errors.New("filled") }
	for name, f := range map[string]func(ctx context.Context) error{
		"the same slot": func(ctx context.Context) error { return ignore(c.GetOrFill(ctx, 1, never)) },
		"another cache": func(ctx context.Context) error { return ignore(other.GetOrFill(ctx, 2, never)) },
		"in another goroutine": func(ctx context.Context) error {
			done := make(chan error)
			go func() { done <- ignore(c.GetOrFill(ctx, 1, never)) }()
			return <-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.GetOrFill(t.Context(), 1, func(ctx context.Context) ([]byte, error) { return nil, f(ctx) })
			wantErr(t, err, errReentrant)
		})
	}
	// What needs no filling may be asked for.
	put(t, other, 5, "entry")
	b, err := c.GetOrFill(t.Context(), 1,
		func(ctx context.Context) ([]byte, error) { return other.GetOrFill(ctx, 5, never) })
	if err != nil || string(b) != "entry" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestFillWithEndedContext(t *testing.T) {
	c := create(t, 10, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	_, err := c.GetOrFill(ctx, 1, func(context.Context) ([]byte, error) { t.Error("filled"); return nil, nil })
	wantErr(t, err, errTest)
	_, err = c.GetOrFill(t.Context(), 10, nil)
	wantErr(t, err, errRange)
}

func TestTyped(t *testing.T) {
	type sample struct {
		Name   string
		Values []float64
	}
	c := create(t, 10, nil)
	typed := NewTyped[sample](c, nil)
	want := sample{"a", []float64{1, 2.5}}
	if !ok(typed.Put(1, want))(t) {
		t.Error("not stored")
	}
	if got := ok(typed.Get(1))(t); got.Name != "a" || len(got.Values) != 2 || got.Values[1] != 2.5 {
		t.Errorf("%+v", got)
	}
	_, err := typed.Get(2)
	wantErr(t, err, ErrMiss)
	for range 2 {
		got := ok(typed.GetOrFill(t.Context(), 2, func(context.Context) (sample, error) { return want, nil }))(t)
		if got.Name != "a" || len(got.Values) != 2 {
			t.Errorf("%+v", got)
		}
	}
	put(t, c, 3, "no gob")
	if _, err := typed.Get(3); err == nil || errors.Is(err, ErrMiss) || !strings.Contains(err.Error(), "entry 3") {
		t.Errorf("%v", err)
	}
	when := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	times := NewTyped[time.Time](c, codec.Binary[time.Time]())
	must(t, ignore(times.Put(4, when)))
	if got := ok(times.Get(4))(t); !got.Equal(when) {
		t.Errorf("%v", got)
	}
	if _, err := NewTyped[func()](c, nil).Put(5, nil); err == nil {
		t.Error("a function was encoded")
	}
}

func TestFillReturnsErrClosed(t *testing.T) {
	c := create(t, 10, nil)
	source := ok(Create(1, &Options{Dir: inMemory(t)}))(t)
	must(t, source.Close())
	fill := func(context.Context) ([]byte, error) { return source.Get(0) }
	for _, state := range []string{"open", "frozen"} {
		b, err := c.GetOrFill(t.Context(), 1, fill)
		if !errors.Is(err, ErrClosed) || b != nil {
			t.Errorf("%s: %q, %v", state, b, err)
		}
		must(t, c.Freeze(t.Context()))
	}
}

func TestPutDuringFill(t *testing.T) {
	c := create(t, 10, nil)
	other := attachTo(t, c, nil)
	b, err := c.GetOrFill(t.Context(), 1, func(context.Context) ([]byte, error) {
		put(t, other, 1, "first")
		return []byte("second"), nil
	})
	if err != nil || string(b) != "first" {
		t.Errorf("%q, %v", b, err)
	}
	// Where all fill for themselves, too.
	c.noSpaceSince.Store(int64(now(c)))
	b, err = c.GetOrFill(t.Context(), 2, func(context.Context) ([]byte, error) {
		put(t, other, 2, "first")
		return []byte("second"), nil
	})
	if err != nil || string(b) != "first" {
		t.Errorf("%q, %v", b, err)
	}
}
