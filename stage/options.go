package stage

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"leat/objstore"
)

// Keep is the policy for objects that are no longer in use.
type Keep int

const (
	// LRU keeps objects until their space is needed, and evicts the least recently used first.
	LRU Keep = iota
	// Drop removes an object when this pool releases it, unless another process uses it.
	Drop
	// Epochs keeps objects until their space is needed. It suits sets of objects that are used
	// again and again, as in the epochs of a training run, and do not fit: with space for n of N
	// objects, about n/N of the requests are hits, where LRU has none if the order is the same each
	// time. It evicts the most recently used objects first, except for objects that were unused for
	// longer than the usual time between two uses.
	Epochs
)

// Options configures a Pool. nil, and the zero value of each field, mean the default.
type Options struct {
	// Workers is the number of objects copied at the same time, at most 512; default 8. Objects
	// that a caller waits for are copied at once, in addition.
	Workers int
	// MaxBytes limits the disk space of all objects in the directory, of all processes, including
	// copies in progress, counted in blocks of 4096 bytes; default 1 TiB. The index takes a few MiB
	// and 256 bytes per object on top.
	MaxBytes int64
	// MaxFiles limits the number of objects; default 10 million.
	MaxFiles int64
	// MinFree is the fraction of the disk to leave free, from 0 to 1; default 0.05. Negative: none.
	MinFree float64
	// MaxQueue limits the number of prefetched objects that wait for a worker; default 1 million.
	// Further objects are read on request.
	MaxQueue int
	// Keep is the policy for objects that are not in use; default LRU.
	Keep Keep
	// MaxAge allows a pool to serve objects that were last compared with their source at most this
	// long before the pool was opened. With 0, the default, a version that was replaced before the
	// pool was opened is never served, which takes one request without a body for each object
	// staged earlier. Negative: never compare, for sources whose objects never change.
	MaxAge time.Duration
	// Ranges is the number of concurrent requests for one large object; default 8, at most 64.
	Ranges int
	// RangeBytes is the size of each request; default 8 MiB, at least 1 MiB.
	RangeBytes int64
	// Retry sets how often requests are repeated, and when a stalled one is abandoned.
	Retry objstore.Retry
	// Logger receives warnings about conditions that are not errors, such as a full disk. Its
	// handler must not close the pool. Default: none.
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Workers == 0 {
		c.Workers = 8
	} else if c.Workers < 0 || c.Workers > 512 {
		bad("Workers is %d, expected 1 to 512", c.Workers)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 40
	} else if c.MaxBytes < 0 {
		bad("MaxBytes is %d, expected a number of bytes", c.MaxBytes)
	}
	if c.MaxFiles == 0 {
		c.MaxFiles = 10_000_000
	} else if c.MaxFiles < 0 {
		bad("MaxFiles is %d, expected a number of objects", c.MaxFiles)
	}
	if c.MinFree == 0 {
		c.MinFree = 0.05
	} else if c.MinFree < 0 {
		c.MinFree = 0
	} else if c.MinFree > 1 || math.IsNaN(c.MinFree) {
		bad("MinFree is %g, expected a fraction of the disk, 0 to 1", c.MinFree)
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = 1_000_000
	} else if c.MaxQueue < 0 {
		bad("MaxQueue is %d, expected a number of objects", c.MaxQueue)
	}
	if c.Keep != LRU && c.Keep != Drop && c.Keep != Epochs {
		bad("Keep is %d, expected LRU, Drop or Epochs", c.Keep)
	}
	if c.Ranges == 0 {
		c.Ranges = 8
	} else if c.Ranges < 0 || c.Ranges > 64 {
		bad("Ranges is %d, expected 1 to 64", c.Ranges)
	}
	if c.RangeBytes == 0 {
		c.RangeBytes = 8 << 20
	} else if c.RangeBytes < 1<<20 {
		bad("RangeBytes is %d, expected at least 1048576", c.RangeBytes)
	}
	if c.Retry.StallTimeout < 0 {
		bad("Retry.StallTimeout is %v, expected a duration", c.Retry.StallTimeout)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}
