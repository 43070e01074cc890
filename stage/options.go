package stage

import (
	"errors"
	"fmt"
	"math"
	"time"

	"leat/objstore"
)

// Keep says what becomes of an object that nobody uses any more.
type Keep int

const (
	// LRU keeps it until its room is needed; those go first that were not used for longest.
	LRU Keep = iota
	// Drop removes it when this pool releases it, unless another process uses it.
	Drop
)

// Options of a pool. nil, and the zero value of each field, mean the default.
type Options struct {
	// Workers is how many objects are copied at the same time, at most 512; default 8. Objects that somebody waits for are copied at once, beside them.
	Workers int
	// MaxBytes is how much of the disk all objects in the directory may take together, whichever processes use it, copies under way included, counted in
	// blocks of 4096 bytes; default 1 TiB. The index of the directory comes on top: a few MiB, and 256 bytes an object.
	MaxBytes int64
	// MaxFiles is how many objects there may be; default 10 million.
	MaxFiles int64
	// MinFree is the part of the disk that is left free, from 0 to 1; default 0.05. Negative: nothing.
	MinFree float64
	// MaxQueue is how many prefetched objects may wait for a worker; default 1 million. Those beyond it are read when they are asked for.
	MaxQueue int
	// Keep says what becomes of objects that nobody uses; default LRU.
	Keep Keep
	// MaxAge allows objects to be served that were last compared with their source up to so long before the pool was opened. Default 0: a version that
	// was replaced before the pool was opened is never served, which takes one request without a body for an object that is staged already. Negative: they are
	// never compared, for sources whose objects never change.
	MaxAge time.Duration
	// Ranges is how many requests one large object is read by at the same time; default 8, at most 64.
	Ranges int
	// RangeBytes is the size of each; default 8 MiB, at least 1 MiB.
	RangeBytes int64
	// Retry says how often requests are repeated, and when one that gives no bytes is abandoned.
	Retry objstore.Retry
	// Warn is called with what users should know and what is no error, such as a full disk. It must not block. Default: nothing.
	Warn func(error)
}

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("stage: "+format, args...)) }
	if c.Workers == 0 {
		c.Workers = 8
	} else if c.Workers < 0 || c.Workers > 512 {
		bad("Workers is %d: give 1 to 512", c.Workers)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 40
	} else if c.MaxBytes < 0 {
		bad("MaxBytes is %d: give a number of bytes", c.MaxBytes)
	}
	if c.MaxFiles == 0 {
		c.MaxFiles = 10_000_000
	} else if c.MaxFiles < 0 {
		bad("MaxFiles is %d: give a number of objects", c.MaxFiles)
	}
	if c.MinFree == 0 {
		c.MinFree = 0.05
	} else if c.MinFree < 0 {
		c.MinFree = 0
	} else if c.MinFree > 1 || math.IsNaN(c.MinFree) {
		bad("MinFree is %g: give a part of the disk, from 0 to 1", c.MinFree)
	}
	if c.MaxQueue == 0 {
		c.MaxQueue = 1_000_000
	} else if c.MaxQueue < 0 {
		bad("MaxQueue is %d: give a number of objects", c.MaxQueue)
	}
	if c.Keep != LRU && c.Keep != Drop {
		bad("Keep is %d: give LRU or Drop", c.Keep)
	}
	if c.Ranges == 0 {
		c.Ranges = 8
	} else if c.Ranges < 0 || c.Ranges > 64 {
		bad("Ranges is %d: give 1 to 64", c.Ranges)
	}
	if c.RangeBytes == 0 {
		c.RangeBytes = 8 << 20
	} else if c.RangeBytes < 1<<20 {
		bad("RangeBytes is %d: give at least 1048576", c.RangeBytes)
	}
	if c.Retry.Stall < 0 {
		bad("Retry.Stall is %v: give a time", c.Retry.Stall)
	}
	if c.Warn == nil {
		c.Warn = func(error) {}
	}
	return c, errors.Join(errs...)
}
