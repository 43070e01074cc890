package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"leat/objstore"
)

// busy is a store without a network that refuses requests by its function refuse.
type busy struct {
	refuse func(name string) error // called with mu held; nil accepts all

	mu       sync.Mutex
	requests []time.Time
	refused  int
}

func (s *busy) ID(name string) string { return "busy://b/" + name }

func (s *busy) Stat(ctx context.Context, name string) (objstore.Info, error) {
	time.Sleep(time.Millisecond + rand.N(4*time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, time.Now())
	if s.refuse != nil {
		if err := s.refuse(name); err != nil {
			s.refused++
			return objstore.Info{}, err
		}
	}
	return objstore.Info{Name: name, Size: 4, ETag: "1"}, nil
}

func (s *busy) Read(ctx context.Context, name string, _, _ int64, _ *objstore.Info) (objstore.Info, io.ReadCloser,
	error) {
	i, err := s.Stat(ctx, name)
	if err != nil {
		return i, nil, err
	}
	return i, io.NopCloser(strings.NewReader("1234")), nil
}

// bucket opens the store as one bucket, whose requests share a rate.
func (s *busy) bucket(t *testing.T) *objstore.Bucket {
	return open(t, "busy://b", &objstore.Options{Drivers: map[string]objstore.Opener{
		"busy": func(context.Context, *url.URL, *objstore.Options) (objstore.Source, error) { return s, nil }}})
}

// readMany reads objects with several goroutines, and returns how many failed.
func readMany(t *testing.T, src objstore.Source, objects, workers int) (failed int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	names := make(chan string)
	for range workers {
		wg.Go(func() {
			for name := range names {
				if _, err := readAll(t.Context(), objstore.Retry{}, src, name, 0, -1); err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			}
		})
	}
	for i := range objects {
		names <- fmt.Sprint(i)
	}
	close(names)
	wg.Wait()
	return failed
}

func status(n int, after time.Duration) error {
	return &objstore.Error{Op: "reading", URL: "busy://b/o", Status: n, RetryAfter: after}
}

var errRefused = &objstore.Error{Op: "reading", URL: "busy://b/o",
	Err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}

// limiter accepts a number of requests a second, and as many in one burst.
func limiter(perSecond float64) func(string) error {
	tokens, last := perSecond, time.Now()
	return func(string) error {
		now := time.Now()
		tokens, last = min(perSecond, tokens+now.Sub(last).Seconds()*perSecond), now
		if tokens < 1 {
			return status(429, 0)
		}
		tokens--
		return nil
	}
}

func TestRateLimitLosesNothing(t *testing.T) {
	for _, workers := range []int{1, 16, 200} {
		synctest.Test(t, func(t *testing.T) {
			s := &busy{refuse: limiter(20)}
			start := time.Now()
			failed := readMany(t, s.bucket(t), 400, workers)
			// 19 s at best. Refused requests cost the server work.
			if d := time.Since(start); failed > 0 || d > 40*time.Second || s.refused > 2*workers+400 {
				t.Errorf("%d workers: %d failed, %v, %d refused", workers, failed, d, s.refused)
			}
		})
	}
}

func TestServerRestart(t *testing.T) {
	for name, err := range map[string]error{"refused": errRefused, "by a proxy": status(503, 0)} {
		synctest.Test(t, func(t *testing.T) {
			s := &busy{}
			b := s.bucket(t)
			readMany(t, b, 50, 16)
			end := time.Now().Add(3 * time.Second)
			s.refuse = func(string) error {
				if time.Now().Before(end) {
					return err
				}
				return nil
			}
			start := time.Now()
			failed := readMany(t, b, 500, 16)
			if d := time.Since(start); failed > 0 || d > 20*time.Second || s.refused > 100 {
				t.Errorf("%s: %d failed, %v, %d refused", name, failed, d, s.refused)
			}
		})
	}
}

func TestUnreachableServerFailsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &busy{refuse: func(string) error { return errRefused }}
		start := time.Now()
		_, err := readAll(t.Context(), objstore.Retry{}, s.bucket(t), "o", 0, -1)
		if !errors.Is(err, syscall.ECONNREFUSED) || len(s.requests) != 5 || time.Since(start) > 5*time.Second {
			t.Errorf("%v after %v, %d requests", err, time.Since(start), len(s.requests))
		}
	})
}

func TestNoProgressFailsInAMinute(t *testing.T) {
	for name, err := range map[string]error{"overload": status(503, 0), "a broken object": status(500, 0),
		"restart": errRefused} {
		synctest.Test(t, func(t *testing.T) {
			s := &busy{}
			b := s.bucket(t)
			readMany(t, b, 1, 1)
			s.refuse = func(string) error { return err }
			start := time.Now()
			_, got := readAll(t.Context(), objstore.Retry{}, b, "o", 0, -1)
			if d := time.Since(start); !errors.Is(got, err) || d < time.Minute || d > 61*time.Second {
				t.Errorf("%s: %v after %v", name, got, d)
			}
		})
	}
}

func TestRetryAfterHoldsAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &busy{}
		b := s.bucket(t)
		readMany(t, b, 40, 4)
		asked := time.Now()
		s.refuse = func(string) error {
			if wait := 7*time.Second - time.Since(asked); wait > 0 {
				return status(429, wait)
			}
			return nil
		}
		const workers = 100
		if failed := readMany(t, b, 300, workers); failed > 0 {
			t.Errorf("%d failed", failed)
		}
		if s.refused > workers { // those in progress
			t.Errorf("%d requests in the time to wait", s.refused)
		}
		if d := time.Since(asked); d < 7*time.Second || d > 20*time.Second {
			t.Errorf("%v", d)
		}
	})
}

func TestRandomRefusalsDoNotSlowOthers(t *testing.T) {
	for _, share := range []float64{0, 0.01, 0.03, 0.06, 0.2, 0.3} {
		read := func(source func(s *busy) objstore.Source) (d time.Duration) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 2))
				s := &busy{refuse: func(string) error {
					if random.Float64() < share {
						return status(503, 0)
					}
					return nil
				}}
				src := source(s)
				start := time.Now()
				if failed := readMany(t, src, 2000, 8); failed > 0 {
					t.Errorf("%v refused: %d failed", share, failed)
				}
				d = time.Since(start)
			})
			return d
		}
		shared := read(func(s *busy) objstore.Source { return s.bucket(t) })
		alone := read(func(s *busy) objstore.Source { return s }) // requests share no rate
		if shared > 3*alone {                                     // twice as long at times, by the order of requests
			t.Errorf("%v refused: %v, and %v without a shared rate", share, shared, alone)
		}
	}
}

func TestEarlyRefusalDoesNotSlowOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &busy{}
		s.refuse = func(string) error {
			if len(s.requests) == 2 {
				return status(503, 0)
			}
			return nil
		}
		b := s.bucket(t)
		start := time.Now()
		failed := readMany(t, b, 300, 1)
		if d := time.Since(start); failed > 0 || d > 2*time.Second {
			t.Errorf("%d failed, %v", failed, d)
		}
	})
}

func TestRetryAfterBeyondLimitFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &busy{refuse: func(string) error { return status(503, time.Hour) }}
		start := time.Now()
		_, err := readAll(t.Context(), objstore.Retry{}, s.bucket(t), "o", 0, -1)
		if e := new(objstore.Error); !errors.As(err, &e) || e.RetryAfter != time.Hour ||
			len(s.requests) != 1 || time.Since(start) > time.Second {
			t.Errorf("%v after %v, %d requests", err, time.Since(start), len(s.requests))
		}
	})
}

func TestBrokenObjectDoesNotSlowOthers(t *testing.T) {
	for _, after := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &busy{}
			var last time.Time // request for another object
			s.refuse = func(name string) error {
				if name == "7" {
					return status(503, after)
				}
				last = time.Now()
				return nil
			}
			b := s.bucket(t)
			start := time.Now()
			if failed := readMany(t, b, 300, 8); failed != 1 {
				t.Errorf("Retry-After %v: %d failed", after, failed)
			}
			if d := last.Sub(start); d > time.Second {
				t.Errorf("Retry-After %v: the others took %v", after, d)
			}
		})
	}
}

// silent is a store that never answers.
type silent struct{ busy }

func (s *silent) Stat(ctx context.Context, name string) (objstore.Info, error) {
	<-ctx.Done()
	return objstore.Info{}, &objstore.Error{Op: "reading", URL: s.ID(name), Err: ctx.Err()}
}

func (s *silent) Read(ctx context.Context, name string, _, _ int64, _ *objstore.Info) (objstore.Info, io.ReadCloser,
	error) {
	i, err := s.Stat(ctx, name)
	return i, nil, err
}

func TestStallEndsWithinFor(t *testing.T) {
	for _, c := range []struct {
		r    objstore.Retry
		want time.Duration
	}{
		{objstore.Retry{Timeout: 5 * time.Second}, 5 * time.Second},
		{objstore.Retry{Timeout: 5 * time.Second, StallTimeout: time.Minute}, 5 * time.Second},
		{objstore.Retry{MaxAttempts: 1}, 30 * time.Second},
		{objstore.Retry{MaxAttempts: 1, StallTimeout: 2 * time.Minute}, 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := readAll(t.Context(), c.r, &silent{}, "o", 0, -1)
			if d := time.Since(start); !errors.Is(err, objstore.ErrStalled) || d != c.want {
				t.Errorf("%+v: Read: %v after %v", c.r, err, d)
			}
			start = time.Now()
			_, err = c.r.Stat(t.Context(), &silent{}, "o")
			if d := time.Since(start); !errors.Is(err, objstore.ErrStalled) || d != c.want {
				t.Errorf("%+v: Stat: %v after %v", c.r, err, d)
			}
		})
	}
}
