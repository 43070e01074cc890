// Command stage trains on the images of an object store with several processes. The first process
// that needs an image fetches it from the store. All processes read it from the local disk after
// that, also in later epochs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"leat/objstore"
	"leat/stage"
)

const (
	samples, side   = 400, 64 // images of bytes
	epochs, workers = 3, 4
	shuffle         = 50 // size of the buffer from which the next sample is drawn
	readers         = 4  // goroutines of one process that decode
)

func main() {
	log.SetFlags(0)
	run := parent
	if len(os.Args) == 5 && os.Args[1] == "worker" {
		run = worker
	}
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// result is what a worker did.
type result struct {
	Samples int64
	Sum     uint64 // of all pixels
}

// parent starts the workers. It also serves the images, so that the example needs no other store.
func parent(ctx context.Context) error {
	var gets atomic.Int64
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, &gets) }))
	defer store.Close()
	// Jobs that share objects use the same directory, such as /scratch/me; "" is the user's own.
	dir, err := os.MkdirTemp("", "leat-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	g, ctx := errgroup.WithContext(ctx)
	var results [workers]result
	for rank := range workers {
		g.Go(func() error {
			cmd := exec.CommandContext(ctx, os.Args[0], "worker", strconv.Itoa(rank), store.URL+"/images", dir)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("worker %d: %w", rank, err)
			}
			return json.Unmarshal(out, &results[rank])
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var all result
	for _, r := range results {
		all.Samples, all.Sum = all.Samples+r.Samples, all.Sum+r.Sum
	}
	fmt.Printf("%d epochs by %d processes: %d samples used, %d fetched from the store, mean %.3f\n",
		epochs, workers, all.Samples, gets.Load(), float64(all.Sum)/float64(all.Samples*side*side))
	return nil
}

// worker is one process of the job: it uses its share of the samples of each epoch.
func worker(ctx context.Context) error {
	rank, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	store, err := objstore.Open(ctx, os.Args[3], nil)
	if err != nil {
		return err
	}
	defer store.Close()
	pool, err := stage.Open(context.Background(), os.Args[4], &stage.Options{
		Workers:  16,
		MaxBytes: 1 << 30, // of all processes together
		Logger:   slog.Default(),
	})
	if err != nil {
		return err
	}
	defer pool.Close()
	l := &loader{images: stage.Typed(pool, decode), store: store, random: rand.New(rand.NewPCG(1, uint64(rank)))}
	var r result
	for epoch := range epochs {
		var names []string // others in each epoch
		for k := range samples {
			if (k+epoch)%workers == rank {
				names = append(names, fmt.Sprintf("%06d.raw", k))
			}
		}
		if err := l.epoch(ctx, names, func(image []byte) { // a model would learn from it
			for _, pixel := range image {
				r.Sum += uint64(pixel)
			}
			r.Samples++
		}); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// loader loads samples in random order.
type loader struct {
	images *stage.TypedPool[[]byte]
	store  *objstore.Bucket
	random *rand.Rand
}

// epoch calls use with every sample once, one at a time.
func (l *loader) epoch(ctx context.Context, names []string, use func(image []byte)) error {
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	var buffer []*stage.TypedRef[[]byte] // for shuffling
	for gctx.Err() == nil && len(names)+len(buffer) > 0 {
		for len(names) > 0 && len(buffer) < shuffle {
			// Prefetch returns at once. The pool copies the object to the disk meanwhile.
			buffer = append(buffer, l.images.Prefetch(l.store, names[0]))
			names = names[1:]
		}
		i, last := l.random.IntN(len(buffer)), len(buffer)-1
		ref := buffer[i]
		buffer[i] = buffer[last]
		buffer = buffer[:last]
		g.Go(func() error { // waits until a reader is free
			defer ref.Release() // from then on the object may be evicted
			image, _, err := ref.Get(gctx)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			use(image)
			return nil
		})
	}
	for _, ref := range buffer { // after an error
		ref.Release()
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// decode is a placeholder for a decoder of images.
func decode(object []byte) ([]byte, error) {
	if len(object) != side*side {
		return nil, fmt.Errorf("image of %d bytes, expected %d", len(object), side*side)
	}
	return object, nil
}

// serve answers as an object store does, after 5 ms.
func serve(w http.ResponseWriter, r *http.Request, gets *atomic.Int64) {
	time.Sleep(5 * time.Millisecond)
	number, err := strconv.Atoi(strings.TrimSuffix(path.Base(r.URL.Path), ".raw"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodGet {
		gets.Add(1)
	}
	image := make([]byte, side*side)
	for p := range image {
		image[p] = byte(number + 31*p)
	}
	w.Header().Set("ETag", `"1"`) // identifies the version: a changed object is fetched again
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(image)))
}
