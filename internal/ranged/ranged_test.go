package ranged

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"leat/internal/driver"
	"leat/objstore"
	"leat/raster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a Source of one object that records the requests.
type memory struct {
	data    []byte
	delay   time.Duration
	unsized bool // Read does not report the size

	mu      sync.Mutex
	etag    string
	asked   []raster.Range
	now     int // in progress
	most    int
	failing int // how many requests fail
}

func (m *memory) ID(name string) string { return "mem://" + name }

func (m *memory) Stat(ctx context.Context, name string) (objstore.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil {
		return objstore.Info{}, &objstore.Error{Op: "looking up", URL: m.ID(name), Status: 404}
	}
	return objstore.Info{Name: name, Size: int64(len(m.data)), ETag: m.etag}, nil
}

func (m *memory) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	info, err := m.Stat(ctx, name)
	if err != nil {
		return info, nil, err
	}
	m.mu.Lock()
	m.asked = append(m.asked, raster.Range{Offset: offset, Bytes: length})
	m.now++
	m.most = max(m.most, m.now)
	fail := m.failing > 0
	if fail {
		m.failing--
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.now--
		m.mu.Unlock()
	}()
	select {
	case <-time.After(m.delay):
	case <-ctx.Done():
		return info, nil, context.Cause(ctx)
	}
	if fail {
		return info, nil, &objstore.Error{Op: "reading", URL: m.ID(name), Status: 503}
	}
	if match != nil && !objstore.SameVersion(*match, info) {
		return info, nil, &objstore.Error{Op: "reading", URL: m.ID(name), Err: objstore.ErrChanged}
	}
	if m.unsized {
		info.Size = -1
	}
	end := min(offset+length, int64(len(m.data)))
	return info, io.NopCloser(bytes.NewReader(m.data[min(offset, end):end])), nil
}

// since returns the requests after the first n.
func (m *memory) since(n int) []raster.Range {
	m.mu.Lock()
	defer m.mu.Unlock()
	return driver.SortRanges(append([]raster.Range{}, m.asked[n:]...))
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{7})
	r.Read(b)
	return b
}

func quick() objstore.Retry {
	return objstore.Retry{MaxAttempts: 5, MinPause: time.Millisecond, MaxPause: 5 * time.Millisecond}
}

func openMemory(t testing.TB, m *memory, o *Options) *Reader {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	if o.Retry.MinPause == 0 {
		o.Retry = quick()
	}
	r, err := Open(t.Context(), m, "a.tif", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func check(t testing.TB, r *Reader, m *memory, at int64, n int) {
	t.Helper()
	b := make([]byte, n)
	k, err := r.ReadAt(b, at)
	want := m.data[min(at, int64(len(m.data))):min(at+int64(n), int64(len(m.data)))]
	if !bytes.Equal(b[:k], want) {
		t.Fatalf("%d bytes at %d are not those of the object", k, at)
	}
	if wantErr := error(nil); k < n {
		if wantErr = io.EOF; err != wantErr {
			t.Fatalf("%d of %d bytes at %d: the error is %v", k, n, at, err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
}

func TestReadAt(t *testing.T) {
	m := &memory{data: noise(3 << 20), delay: time.Millisecond / 10}
	r := openMemory(t, m, &Options{CacheBytes: 200 << 10})
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 1))
			for range 60 {
				at := rnd.Int64N(int64(len(m.data)) + 100)
				n := rnd.IntN(1 << (4 + rnd.IntN(15)))
				if rnd.IntN(3) == 0 {
					var ranges []raster.Range
					for range rnd.IntN(6) {
						ranges = append(ranges,
							raster.Range{Offset: rnd.Int64N(int64(len(m.data))), Bytes: rnd.Int64N(100 << 10)})
					}
					ranges = driver.SortRanges(append(ranges, raster.Range{Offset: at, Bytes: int64(n)}))
					defer r.Fetch(ranges, nil)()
				}
				check(t, r, m, at, n)
			}
		})
	}
	wg.Wait()
	r.wg.Wait() // for requests that nobody waits for
	for i := 1; i < len(r.pieces.list); i++ {
		if r.pieces.list[i].at < r.pieces.list[i-1].end() {
			t.Fatal("pieces overlap")
		}
	}
	if r.pieces.kept > 200<<10 {
		t.Errorf("%d bytes are kept that nobody holds", r.pieces.kept)
	}
}

func TestOpenReadsHeader(t *testing.T) {
	m := &memory{data: noise(1 << 20)}
	r := openMemory(t, m, nil)
	check(t, r, m, 0, 16)
	check(t, r, m, 20_000, 12_000)
	if diff := cmp.Diff([]raster.Range{{Bytes: 32 << 10}}, m.asked); diff != "" {
		t.Error(diff)
	}
}

func TestReadWidensToBlock(t *testing.T) {
	m := &memory{data: noise(1 << 20)}
	r := openMemory(t, m, nil)
	check(t, r, m, 100_000, 4)
	check(t, r, m, 99_000, 100)
	check(t, r, m, 500_001, 77_777)
	check(t, r, m, 1<<20-3, 3)
	want := []raster.Range{{Offset: 98304, Bytes: 16384}, {Offset: 500_001, Bytes: 77_777},
		{Offset: 1<<20 - 16384, Bytes: 16384}}
	if diff := cmp.Diff(want, m.since(1)); diff != "" {
		t.Error(diff)
	}
}

func TestConcurrentReadsShareRequest(t *testing.T) {
	m := &memory{data: noise(1 << 20), delay: 20 * time.Millisecond}
	r := openMemory(t, m, nil)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() { check(t, r, m, 200_000+int64(i), 50) })
	}
	wg.Wait()
	if got := len(m.asked); got != 2 {
		t.Errorf("%d requests", got)
	}
}

// rangesOf returns ranges given as offset and length.
func rangesOf(list [][2]int64) []raster.Range {
	out := []raster.Range{}
	for _, w := range list {
		out = append(out, raster.Range{Offset: w[0], Bytes: w[1]})
	}
	return out
}

func TestCloseRangesAreJoined(t *testing.T) {
	const kib = 1 << 10
	for name, c := range map[string]struct{ ranges, want [][2]int64 }{
		"a small gap is fetched along": {[][2]int64{{100 * kib, 200 * kib}, {310 * kib, 200 * kib}},
			[][2]int64{{100 * kib, 410 * kib}}},
		"a large one is not": {[][2]int64{{100 * kib, 200 * kib}, {340 * kib, 200 * kib}},
			[][2]int64{{100 * kib, 200 * kib}, {340 * kib, 200 * kib}}},
		"gaps take little altogether": {[][2]int64{{100 * kib, kib}, {111 * kib, kib}, {122 * kib, kib}},
			[][2]int64{{100 * kib, 12 * kib}, {122 * kib, kib}}},
		"a long piece comes in parts": {[][2]int64{{100 * kib, 9 << 20}},
			[][2]int64{{100 * kib, 4 << 20}, {100*kib + 4<<20, 4 << 20}, {100*kib + 8<<20, 1 << 20}}},
		"what is there is not asked for": {[][2]int64{{0, 40 * kib}}, [][2]int64{{32 * kib, 8 * kib}}},
		"nothing lies behind the end": {[][2]int64{{10<<20 - 5, 100}, {11 << 20, 5}},
			[][2]int64{{10<<20 - 5, 5}}},
		"touching pieces are one": {[][2]int64{{100 * kib, kib}, {101 * kib, kib}},
			[][2]int64{{100 * kib, 2 * kib}}},
		"nothing asked for brings nothing":  {nil, nil},
		"what overlaps is read when needed": {[][2]int64{{100 * kib, 5}, {100*kib + 2, 9}}, [][2]int64{{100 * kib, 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{data: make([]byte, 10<<20)}
			r := openMemory(t, m, nil)
			r.Fetch(rangesOf(c.ranges), nil)()
			r.wg.Wait()
			if diff := cmp.Diff(rangesOf(c.want), m.since(1)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRangesAreFetchedConcurrently(t *testing.T) {
	m := &memory{data: noise(8 << 20), delay: 20 * time.Millisecond}
	r := openMemory(t, m, &Options{Limiter: NewLimiter(16)})
	var ranges []raster.Range
	for i := range int64(32) {
		ranges = append(ranges, raster.Range{Offset: i * (200 << 10), Bytes: 50 << 10})
	}
	defer r.Fetch(ranges, nil)()
	for _, w := range ranges {
		check(t, r, m, w.Offset, int(w.Bytes))
	}
	if m.most < 2 || m.most > 16 {
		t.Errorf("%d requests at once", m.most)
	}
	if got := len(m.asked); got != 33 {
		t.Errorf("%d requests", got)
	}
}

func TestManyRangesTakeFewGoroutines(t *testing.T) {
	m := &memory{data: noise(32 << 20), etag: "1"}
	r := openMemory(t, m, &Options{Limiter: NewLimiter(4)})
	m.delay = time.Millisecond
	var ranges []raster.Range
	for at := int64(64 << 10); at < int64(len(m.data)); at += 64 << 10 { // gaps too large to be joined
		ranges = append(ranges, raster.Range{Offset: at, Bytes: 100})
	}
	before := runtime.NumGoroutine()
	release := r.Fetch(ranges, nil)
	defer release()
	if n := runtime.NumGoroutine() - before; n > 4*4 { // each request may have some
		t.Errorf("%d goroutines for %d pieces", n, len(ranges))
	}
	b := make([]byte, 100)
	for _, w := range ranges {
		if _, err := r.ReadAt(b, w.Offset); err != nil || !bytes.Equal(b, m.data[w.Offset:w.Offset+100]) {
			t.Fatalf("%v: %v", w, err)
		}
	}
	if m.most > 4 || len(m.since(1)) != len(ranges) {
		t.Errorf("%d requests at once, %d in all", m.most, len(m.since(1)))
	}
}

func TestReleasedPiecesAreEvicted(t *testing.T) {
	m := &memory{data: noise(4 << 20)}
	r := openMemory(t, m, &Options{CacheBytes: 64 << 10})
	first := raster.Range{Offset: 1 << 20, Bytes: 500 << 10}
	release := r.Fetch([]raster.Range{first}, nil)
	check(t, r, m, first.Offset, 1) // it has arrived
	for at := int64(2 << 20); at < 4<<20; at += 100 << 10 {
		check(t, r, m, at, 20<<10)
	}
	r.wg.Wait()
	before := len(m.asked)
	check(t, r, m, first.Offset+1000, 400<<10)
	if got := len(m.asked); got != before {
		t.Error("what was held was asked for again")
	}
	release()
	release() // a second call does nothing
	r.wg.Wait()
	check(t, r, m, first.Offset, 1<<10)
	if got := len(m.asked); got == before {
		t.Error("more than the limit was kept")
	}
	if r.pieces.kept > 64<<10 {
		t.Errorf("%d bytes are kept", r.pieces.kept)
	}
}

func TestOtherVersionIsErrChanged(t *testing.T) {
	m := &memory{data: noise(1 << 20), etag: "one"}
	r := openMemory(t, m, nil)
	m.mu.Lock()
	m.etag = "two"
	m.mu.Unlock()
	check(t, r, m, 0, 1000) // it is in memory
	_, err := r.ReadAt(make([]byte, 10), 500_000)
	if e := new(objstore.Error); !errors.Is(err, objstore.ErrChanged) || !errors.As(err, &e) || e.URL != "mem://a.tif" {
		t.Errorf("the error is %v", err)
	}
}

func TestFailedRequestIsRetried(t *testing.T) {
	m := &memory{data: noise(1 << 20)}
	r := openMemory(t, m, nil)
	m.failing = 2
	check(t, r, m, 500_000, 100)
	m.failing = 100
	_, err := r.ReadAt(make([]byte, 10), 900_000)
	if e := new(objstore.Error); !errors.As(err, &e) || e.Status != 503 {
		t.Errorf("the error is %v", err)
	}
	m.failing = 0
	check(t, r, m, 900_000, 10) // the failure is not cached
}

func TestUnknownSize(t *testing.T) {
	m := &memory{data: noise(100_000), unsized: true}
	r := openMemory(t, m, nil)
	if r.Size() != 100_000 {
		t.Fatalf("the size is %d", r.Size())
	}
	check(t, r, m, 99_990, 20)
}

func TestSmallObjectIsOneRequest(t *testing.T) {
	for _, n := range []int{0, 1, 5000} {
		m := &memory{data: noise(n)}
		r := openMemory(t, m, nil)
		check(t, r, m, 0, n)
		check(t, r, m, 0, n+10)
		check(t, r, m, int64(n)+5, 3)
		if got := len(m.asked); got != 1 {
			t.Errorf("%d bytes: %d requests", n, got)
		}
	}
}

func TestMissingObject(t *testing.T) {
	_, err := Open(t.Context(), &memory{}, "b.tif", nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
}

func TestContextEndsReading(t *testing.T) {
	m := &memory{data: noise(1 << 20)}
	ctx, cancel := context.WithCancelCause(t.Context())
	r, err := Open(ctx, m, "a.tif", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m.delay = time.Hour
	why := errors.New("enough")
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if _, err := r.ReadAt(make([]byte, 10), 500_000); !errors.Is(err, why) {
		t.Errorf("the error is %v", err)
	}
}

func TestReadAfterClose(t *testing.T) {
	m := &memory{data: noise(1 << 20), delay: time.Millisecond}
	r := openMemory(t, m, nil)
	release := r.Fetch([]raster.Range{{Offset: 100_000, Bytes: 800_000}}, nil)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := r.ReadAt(make([]byte, 10), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
	r.Fetch([]raster.Range{{Offset: 0, Bytes: 10}}, nil)()
}

func ExampleOpen() {
	src := &memory{data: []byte("a header, then pixels")}
	r, err := Open(context.Background(), src, "a.tif", nil)
	if err != nil {
		panic(err)
	}
	defer r.Close()
	release := r.Fetch([]raster.Range{{Offset: 2, Bytes: 6}, {Offset: 15, Bytes: 6}}, nil)
	defer release()
	b := make([]byte, 6)
	for _, at := range []int64{2, 15} {
		if _, err := r.ReadAt(b, at); err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", b)
	}
	// Output:
	// header
	// pixels
}

func TestFetchSkips(t *testing.T) {
	m := &memory{data: noise(400_000), etag: "a"}
	r := openMemory(t, m, &Options{HeadBytes: 1000})
	a, b, c := raster.Range{Offset: 50_000, Bytes: 1000}, raster.Range{Offset: 150_000, Bytes: 1000},
		raster.Range{Offset: 250_000, Bytes: 1000}
	defer r.Fetch([]raster.Range{b}, nil)()
	var asked []raster.Range
	defer r.Fetch([]raster.Range{a, b, c}, func(r raster.Range) bool {
		asked = append(asked, r)
		return r == c
	})()
	check(t, r, m, a.Offset, 1000)
	check(t, r, m, b.Offset, 1000)
	if diff := cmp.Diff([]raster.Range{a, c}, asked); diff != "" {
		t.Errorf("asked about (-expected +got):\n%s", diff)
	}
	if diff := cmp.Diff([]raster.Range{a, b}, m.since(1)); diff != "" {
		t.Errorf("requests (-expected +got):\n%s", diff)
	}
}
