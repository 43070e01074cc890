// Command stage trains on the images of an object store with several processes. Each image is
// fetched from the store once, whichever process needs it first, and comes from the local disk in
// all later epochs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"leat/objstore"
	"leat/stage"
)

const (
	samples, side   = 400, 64 // images of bytes
	epochs, workers = 3, 4
	shuffle         = 50 // samples of which the next one is drawn; they are prefetched meanwhile
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

// result is what a worker has done.
type result struct {
	Given int64
	Sum   uint64 // of all pixels
}

// parent stands for the job: it starts the workers. It also is the store, so that the example needs
// none.
func parent(ctx context.Context) error {
	var gets atomic.Int64
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, &gets) }))
	defer store.Close()
	// Jobs that should find what others have fetched name one directory, such as /scratch/me; "" is
	// the user's own.
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
		all.Given, all.Sum = all.Given+r.Given, all.Sum+r.Sum
	}
	fmt.Printf("%d epochs by %d processes: %d samples given, %d fetched from the store, mean %.3f\n",
		epochs, workers, all.Given, gets.Load(), float64(all.Sum)/float64(all.Given*side*side))
	return nil
}

// worker is one process of the job: it takes its share of every epoch.
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
	pool, err := stage.Open(os.Args[4], &stage.Options{
		Workers:  16,
		MaxBytes: 1 << 30, // of all processes together
		Warn:     func(err error) { log.Print(err) },
	})
	if err != nil {
		return err
	}
	defer pool.Close()
	images := stage.Typed(pool, decode)

	l := &loader{images: images, store: store, random: rand.New(rand.NewPCG(1, uint64(rank)))}
	var r result
	for epoch := range epochs {
		// The names in the order of the store; each process takes others in each epoch.
		var names []string
		for k := range samples {
			if (k+epoch)%workers == rank {
				names = append(names, fmt.Sprintf("%06d.raw", k))
			}
		}
		if err := l.epoch(ctx, names, func(image []byte) { // a model would learn from it
			for _, pixel := range image {
				r.Sum += uint64(pixel)
			}
			r.Given++
		}); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// loader gives samples in random order.
type loader struct {
	images *stage.TypedPool[[]byte]
	store  *objstore.Bucket
	random *rand.Rand
}

// epoch calls give with every sample once, from one goroutine.
func (l *loader) epoch(ctx context.Context, names []string, give func(image []byte)) error {
	g, ctx := errgroup.WithContext(ctx)
	drawn := make(chan *stage.TypedRef[[]byte])
	g.Go(func() error {
		defer close(drawn)
		return l.draw(ctx, names, drawn)
	})
	decoded := make(chan []byte, 2*readers)
	g.Go(func() error {
		defer close(decoded)
		r, ctx := errgroup.WithContext(ctx)
		for range readers {
			r.Go(func() error { return l.read(ctx, drawn, decoded) })
		}
		return r.Wait()
	})
	g.Go(func() error {
		for image := range decoded {
			give(image)
		}
		return nil
	})
	return g.Wait()
}

// draw is the shuffle buffer. What it holds are no samples but promises of some: Prefetch returns
// at once, and the pool copies what is in the buffer to the disk until its turn comes.
func (l *loader) draw(ctx context.Context, names []string, drawn chan<- *stage.TypedRef[[]byte]) error {
	var buffer []*stage.TypedRef[[]byte]
	defer func() {
		for _, b := range buffer { // of an epoch that was given up
			b.Release()
		}
	}()
	for len(names) > 0 || len(buffer) > 0 {
		for len(names) > 0 && len(buffer) < shuffle {
			buffer = append(buffer, l.images.Prefetch(l.store, names[0]))
			names = names[1:]
		}
		i, last := l.random.IntN(len(buffer)), len(buffer)-1
		select {
		case drawn <- buffer[i]:
			buffer[i] = buffer[last]
			buffer = buffer[:last]
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// read waits for samples to be on the disk, and decodes them.
func (l *loader) read(ctx context.Context, drawn <-chan *stage.TypedRef[[]byte], decoded chan<- []byte) error {
	for lazy := range drawn {
		image, _, err := lazy.Get(ctx)
		lazy.Release() // it may be evicted now, if its space is needed
		if err != nil {
			return err
		}
		select {
		case decoded <- image:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// decode stands for a decoder of images.
func decode(object []byte) ([]byte, error) {
	if len(object) != side*side {
		return nil, fmt.Errorf("an image has %d bytes, not %d", side*side, len(object))
	}
	return object, nil
}

// serve stands for an object store, 5 ms away.
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
	w.Header().Set("ETag", `"1"`) // names the version: a changed object is fetched again
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(image)))
}
