// Command cache loads samples with several processes. Each sample is read from its slow source
// once, by one of them, and from then on from the cache that they share.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"leat/cache"
)

const (
	samples, side   = 400, 64 // images of bytes
	epochs, workers = 3, 4
	batchSize       = 16
	batchesAhead    = 2 // that are ready before they are asked for
	readers         = 8 // of one process at the same time
)

// result is what a worker found.
type result struct {
	Given, Read int64  // samples: given to the model, and read from the source for that
	Sum         uint64 // of all pixels given
}

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

// parent makes the caches and starts the workers.
func parent(ctx context.Context) error {
	images, err := cache.Create(samples, &cache.Options{MaxBytes: 1 << 30})
	if err != nil {
		return err
	}
	defer images.Close() // the file goes with its last holder, even after a SIGKILL
	found, err := cache.Create(workers, nil)
	if err != nil {
		return err
	}
	defer found.Close()
	imagesHandle, err := images.Handle()
	if err != nil {
		return err
	}
	foundHandle, err := found.Handle()
	if err != nil {
		return err
	}

	g, ctx := errgroup.WithContext(ctx)
	for rank := range workers {
		g.Go(func() error {
			cmd := exec.CommandContext(ctx, os.Args[0], "worker", strconv.Itoa(rank), string(imagesHandle),
				string(foundHandle))
			cmd.Stderr = os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("worker %d: %w", rank, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}

	var all result
	results := cache.NewTyped[result](found, nil)
	for rank := range workers {
		r, err := results.Get(int64(rank))
		if err != nil {
			return err
		}
		all.Given, all.Read, all.Sum = all.Given+r.Given, all.Read+r.Read, all.Sum+r.Sum
	}
	fmt.Printf("%d epochs by %d processes: %d samples given, %d read from the source, mean %.3f\n",
		epochs, workers, all.Given, all.Read, float64(all.Sum)/float64(all.Given*side*side))
	return nil
}

// worker is one process of the job: it takes its share of every epoch.
func worker(ctx context.Context) error {
	rank, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	images, err := cache.Attach(cache.Handle(os.Args[3]), nil)
	if err != nil {
		return err
	}
	defer images.Close()
	found, err := cache.Attach(cache.Handle(os.Args[4]), nil)
	if err != nil {
		return err
	}
	defer found.Close()

	l := &loader{images: images}
	var r result
	for epoch := range epochs {
		// All processes draw the same order, a different one in every epoch, and so get different
		// samples each time.
		order := rand.New(rand.NewPCG(1, uint64(epoch))).Perm(samples)
		var mine []int
		for k := rank; k < samples; k += workers {
			mine = append(mine, order[k])
		}
		if err := l.load(ctx, mine, func(batch [][]byte) error {
			for _, image := range batch { // a model would learn from them
				for _, pixel := range image {
					r.Sum += uint64(pixel)
				}
				r.Given++
			}
			return nil
		}); err != nil {
			return err
		}
	}
	r.Read = l.read.Load()
	_, err = cache.NewTyped[result](found, nil).Put(int64(rank), r)
	return err
}

// loader gives batches of samples.
type loader struct {
	images *cache.Cache
	read   atomic.Int64 // samples that came from the source
}

// load calls give with the samples in this order, a batch at a time, and reads ahead meanwhile.
func (l *loader) load(ctx context.Context, order []int, give func(batch [][]byte) error) error {
	g, ctx := errgroup.WithContext(ctx)
	ready := make(chan [][]byte, batchesAhead)
	g.Go(func() error {
		defer close(ready)
		for len(order) > 0 {
			n := min(batchSize, len(order))
			batch, err := l.batch(ctx, order[:n])
			if err != nil {
				return err
			}
			order = order[n:]
			select {
			case ready <- batch:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	g.Go(func() error {
		for batch := range ready {
			if err := give(batch); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// batch gets samples, several at the same time.
func (l *loader) batch(ctx context.Context, list []int) ([][]byte, error) {
	batch := make([][]byte, len(list))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for k, i := range list {
		g.Go(func() (err error) {
			batch[k], err = l.images.GetOrFill(ctx, int64(i), func(ctx context.Context) ([]byte, error) {
				l.read.Add(1)
				return readSource(ctx, i)
			})
			return err
		})
	}
	return batch, g.Wait()
}

// readSource stands for an object store and a decoder.
func readSource(ctx context.Context, i int) ([]byte, error) {
	select {
	case <-time.After(2 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	image := make([]byte, side*side)
	for p := range image {
		image[p] = byte(i + 31*p)
	}
	return image, nil
}
