package cache

import (
	"errors"
	"fmt"
	"log/slog"
)

// Verify says when an entry's checksum is compared with its data.
type Verify int

const (
	// VerifyFirst verifies an entry when a process first accesses it, unless the process put it
	// itself. It is the default.
	VerifyFirst Verify = iota
	// VerifyAlways verifies an entry at each access.
	VerifyAlways
	// VerifyNever verifies record headers only. A named cache from before a reboot that was not
	// preserved is always verified, whatever the option is.
	VerifyNever
)

// Durability says when entries of a named cache are flushed to the disk. Entries that are not
// flushed survive the end of all processes, but may be missing after a power loss. They are never
// wrong.
type Durability uint32

const (
	// DurabilityNone leaves flushing to the kernel. It is the default.
	DurabilityNone Durability = iota
	// DurabilityBatch flushes after every 64 MiB or 1024 entries that this process puts, and on
	// Close.
	DurabilityBatch
	// DurabilityEach flushes every entry before and after it becomes visible.
	DurabilityEach
)

// Options configures a cache. The zero value of every field is its default.
type Options struct {
	// Dir is the directory in which Create makes the file; it is created if it is missing. The
	// default is the first of $LEAT_CACHE_DIR, $XDG_CACHE_HOME/leat and $HOME/.cache/leat that is
	// set; if one of the latter two is not on a local file system, $SLURM_TMPDIR or
	// $TMPDIR/leat-UID.
	Dir string
	// AllowRemote accepts a directory on a file system that is not known to be local. Then only one
	// machine may use it, and its mappings and locks must work as on a local file system.
	AllowRemote bool
	// MaxBytes limits the size of the file: header, whole index and records, without rounding. The
	// first entry that does not fit freezes the cache for all processes. 0 means no limit. It is
	// set when the cache is created; processes that open it later give the same value or 0.
	MaxBytes int64
	// Verify applies to this process.
	Verify Verify
	// Durability is for Open. It is set when the cache is created; a process that opens it later
	// may ask for more.
	Durability Durability
	// Progress, if not nil, receives the number of bytes that Check, Preserve or ExportPFIO has
	// processed: the space of records, with headers and padding, entry by entry, and then the bytes
	// of the index that ExportPFIO writes, 16 for each slot. It must be fast.
	Progress func(bytes int64)
	// Logger receives one warning when there is no space, and one when the limit freezes the cache;
	// nil discards them.
	Logger *slog.Logger
}

func (o *Options) validate() error {
	var errs []error
	if o.MaxBytes < 0 {
		errs = append(errs, fmt.Errorf("Options.MaxBytes is %d, expected at least 0", o.MaxBytes))
	}
	if o.Verify < VerifyFirst || o.Verify > VerifyNever {
		errs = append(errs, fmt.Errorf("Options.Verify is %d, expected VerifyFirst, VerifyAlways or VerifyNever", o.Verify))
	}
	if o.Durability > DurabilityEach {
		errs = append(errs, fmt.Errorf("Options.Durability is %d, expected DurabilityNone, DurabilityBatch or DurabilityEach",
			o.Durability))
	}
	return errors.Join(errs...)
}

// checkCreate and checkOpen validate the options of Create and Open for n slots.
func (o *Options) checkCreate(n int64) error {
	err := errors.Join(checkSlots(n), o.validate(), o.checkLimit(n))
	if o.Durability != DurabilityNone {
		err = errors.Join(err, errors.New("Create does not accept Durability: a nameless cache ends with its processes"))
	}
	return err
}

func (o *Options) checkOpen(n int64) error {
	err := errors.Join(checkSlots(n), o.validate(), o.checkLimit(n))
	if o.Dir != "" {
		err = errors.Join(err, errors.New("Open does not accept Dir: its path is complete"))
	}
	return err
}

func checkSlots(n int64) error {
	if n < 1 || n > MaxSlots {
		return fmt.Errorf("%d slots, expected 1 to %d", n, int64(MaxSlots))
	}
	return nil
}

func (o *Options) checkLimit(n int64) error {
	if checkSlots(n) == nil && o.MaxBytes > 0 && o.MaxBytes < firstRecord(n) {
		return fmt.Errorf("MaxBytes is %d, the first page and the index of %d slots take %d",
			o.MaxBytes, n, firstRecord(n))
	}
	return nil
}

func orDefault(o *Options) Options {
	var v Options
	if o != nil {
		v = *o
	}
	if v.Logger == nil {
		v.Logger = slog.New(slog.DiscardHandler)
	}
	return v
}
