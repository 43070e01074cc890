package cache

import (
	"errors"
	"fmt"
	"log/slog"
)

// Verify says when an entry's checksum is compared with its data.
type Verify int

const (
	// VerifyFirst does so at the first touch of an entry by a process: the default. Entries that the process put
	// itself count as touched.
	VerifyFirst Verify = iota
	// VerifyAlways does so at every touch.
	VerifyAlways
	// VerifyNever leaves it. Record headers are checked still. A cache that was made before the machine started last, and was not
	// preserved, is verified always, whatever the option says.
	VerifyNever
)

// Durability says when entries of a named cache are brought to the disk. Without it they survive the death of all processes, but
// may be missing after a loss of power; wrong they never are.
type Durability uint32

const (
	// DurabilityNone leaves it to the kernel: the default.
	DurabilityNone Durability = iota
	// DurabilityBatch flushes after every 64 MiB or 1024 entries that this process puts, and on Close.
	DurabilityBatch
	// DurabilityEach flushes every entry before and after it becomes visible.
	DurabilityEach
)

// Options of caches. The zero value of every field is its default.
type Options struct {
	// Dir is where Create makes the file. By default the first of $LEAT_CACHE_DIR, $XDG_CACHE_HOME/leat and $HOME/.cache/leat
	// that is set; where the latter two are not on a local file system, $SLURM_TMPDIR or $TMPDIR/leat-UID.
	Dir string
	// AllowRemote takes a directory on a file system that is not known to be local. On one machine only, and only
	// where its mappings and locks are those of a local file system.
	AllowRemote bool
	// MaxBytes bounds the file: header, whole index and records, without rounding. The first entry that does not fit freezes the cache for
	// all processes. 0 means no limit. It is set when the cache is made; who joins gives the same or 0.
	MaxBytes int64
	// Verify is this process's.
	Verify Verify
	// Durability is for Open. It is set when the cache is made; a process that joins may ask for more.
	Durability Durability
	// Progress, if not nil, is told by Check, Preserve and ExportPFIO how many bytes of records the call has gone through so
	// far, entry by entry. It must be quick.
	Progress func(bytes int64)
	// Logger is told once when there is no room, and once when the limit freezes the cache. nil: nobody is.
	Logger *slog.Logger
}

func (o *Options) validate() error {
	var errs []error
	if o.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("cache: MaxBytes is %d: give a number of bytes, or 0 for no limit", o.MaxBytes))
	}
	if o.Verify < VerifyFirst || o.Verify > VerifyNever {
		errs = append(errs, fmt.Errorf("cache: Verify is %d: give VerifyFirst, VerifyAlways or VerifyNever", o.Verify))
	}
	if o.Durability > DurabilityEach {
		errs = append(errs, fmt.Errorf("cache: Durability is %d: give DurabilityNone, DurabilityBatch or DurabilityEach", o.Durability))
	}
	return errors.Join(errs...)
}

// forCreate and forOpen know which fields have no meaning there; n is the number of slots.
func (o *Options) forCreate(n int64) error {
	err := errors.Join(checkSlots(n), o.validate(), o.checkLimit(n))
	if o.Durability != DurabilityNone {
		err = errors.Join(err, errors.New("cache: a cache without a name ends with its processes: Durability is for Open"))
	}
	return err
}

func (o *Options) forOpen(n int64) error {
	err := errors.Join(checkSlots(n), o.validate(), o.checkLimit(n))
	if o.Dir != "" {
		err = errors.Join(err, errors.New("cache: Dir is for Create: give Open the whole path"))
	}
	return err
}

func checkSlots(n int64) error {
	if n < 1 || n > MaxSlots {
		return fmt.Errorf("cache: %d slots: give a number from 1 to %d", n, int64(MaxSlots))
	}
	return nil
}

func (o *Options) checkLimit(n int64) error {
	if checkSlots(n) == nil && o.MaxBytes > 0 && o.MaxBytes < firstRecord(n) {
		return fmt.Errorf("cache: MaxBytes is %d, but the first page and the index of %d slots take %d: give more", o.MaxBytes, n, firstRecord(n))
	}
	return nil
}

func orDefault(o *Options) Options {
	if o == nil {
		return Options{}
	}
	return *o
}
