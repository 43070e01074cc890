package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"leat/objstore"
	"leat/stage"
)

// work is a measured process: it gets a task, prepares, reports that, gets the order to begin, and
// reports what it did.
func work(in io.Reader, out io.Writer) error {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	var t task
	if err := from.Decode(&t); err != nil {
		return err
	}
	w := &worker{task: t, ctx: context.Background(), atStart: peak()}
	if err := w.open(); err != nil {
		return to.Encode(answer{Err: err.Error()})
	}
	if err := to.Encode(answer{}); err != nil {
		return errors.Join(err, w.close())
	}
	var word string
	if err := from.Decode(&word); err != nil { // the benchmark was ended
		return w.close()
	}
	var a answer
	err := w.profiled(func() (err error) { a.Epochs, err = w.epochs(); return err })
	a.Memory = peak() - w.atStart
	if err = errors.Join(err, w.close()); err != nil {
		a.Err = err.Error()
	}
	return to.Encode(a)
}

type worker struct {
	task
	ctx     context.Context
	atStart int64
	source  objstore.Source
	slow    *slow            // the source, if it lies in the process
	bucket  *objstore.Bucket // the source, if it is the server
	pool    *stage.Pool
	random  *rand.Rand // of the orders of opHits
}

func (w *worker) open() (err error) {
	if w.Op == opNDVI {
		return nil
	}
	if w.URL == "" {
		w.slow = &slow{latency: w.Latency}
		w.source = w.slow
	} else if w.bucket, err = objstore.Open(w.ctx, w.URL, nil); err != nil {
		return err
	} else {
		w.source = w.bucket
	}
	if slices.Contains([]string{opStage, opInto, opRecycled, opCopy, opMemory, opHits}, w.Op) {
		w.pool, err = stage.Open(context.Background(), w.Dir, &stage.Options{Workers: w.Workers, Ranges: w.Ranges,
			MaxBytes: w.MaxBytes,
			MaxFiles: int64(w.MaxFiles), Keep: w.Keep, Logger: slog.Default()})
	}
	return err
}

func (w *worker) close() error {
	var errs []error
	if w.pool != nil {
		errs = append(errs, w.pool.Close())
	}
	if w.bucket != nil {
		errs = append(errs, w.bucket.Close())
	}
	return errors.Join(errs...)
}

func (w *worker) profiled(f func() error) error {
	if w.Profile == "" {
		return f()
	}
	file, err := os.Create(w.Profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

func (w *worker) epochs() (all []epoch, err error) {
	do := map[string]func() error{opStage: w.stageAll, opInto: w.stageAll, opRecycled: w.stageAll,
		opMemory: w.stageAll, opCopy: w.copyAll,
		opPlain: w.plain, opGet: w.getAll,
		opBare: w.bareAll, opBareIn: w.bareAll, opWrite: w.writeAll,
		opAlone: w.writeAlone, opRead: w.readAll, opReuse: w.readAll,
		opNDVI: w.ndvi, opHits: w.readEpoch}[w.Op]
	if do == nil {
		return nil, fmt.Errorf("%q: no such task", w.Op)
	}
	if w.Op == opRead || w.Op == opReuse {
		if err := w.writeAll(); err != nil {
			return nil, err
		}
	}
	for range max(w.Epochs, 1) {
		reads, checks := w.asked()
		user, system := processor()
		begin := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		e := epoch{Took: time.Since(begin)}
		e.User, e.System = processor()
		e.User, e.System = e.User-user, e.System-system
		e.Reads, e.Checks = w.asked()
		e.Reads, e.Checks = e.Reads-reads, e.Checks-checks
		all = append(all, e)
	}
	return all, nil
}

// asked is what the source in this process was asked so far, or what the pool asked the server.
func (w *worker) asked() (reads, checks int64) {
	if w.slow != nil {
		return w.slow.reads.Load(), w.slow.checks.Load()
	}
	if w.pool != nil {
		c := w.pool.Counters()
		return c.Reads, c.Checks
	}
	return 0, 0
}

func (w *worker) object(i int) object { return object{i, w.Size} }

// stageAll is the job: all objects are asked for, and then read one after another.
func (w *worker) stageAll() error {
	all := make([]*stage.Ref, w.Objects)
	for i := range all {
		all[i] = w.pool.Prefetch(w.source, w.object(i).name())
	}
	get := func(l *stage.Ref) ([]byte, error) { return l.Bytes(w.ctx) }
	if w.Op == opInto {
		memory := make([]byte, w.Size)
		get = func(l *stage.Ref) ([]byte, error) {
			r, err := l.Open(w.ctx)
			if err != nil {
				return nil, err
			}
			if r.Size() != w.Size {
				return nil, errors.Join(fmt.Errorf("an object has %d bytes, not %d", r.Size(), w.Size), r.Close())
			}
			_, err = r.ReadAt(memory, 0)
			return memory, errors.Join(err, r.Close())
		}
	}
	for i, l := range all {
		b, err := get(l)
		if err == nil {
			err = w.object(i).check(b)
		}
		if err != nil {
			return err
		}
		if w.Op == opRecycled {
			w.pool.Recycle(b)
		}
		l.Release()
	}
	return nil
}

// copyAll brings all to the disk.
func (w *worker) copyAll() error {
	all := make([]*stage.Ref, w.Objects)
	for i := range all {
		all[i] = w.pool.Prefetch(w.source, w.object(i).name())
	}
	if err := w.pool.Wait(w.ctx); err != nil {
		return err
	}
	for i, l := range all {
		r, err := l.Open(w.ctx)
		if err != nil {
			return err
		}
		if !r.Staged() || r.Size() != w.Size {
			return fmt.Errorf("object %d of %d bytes is not on the disk as one of %d", i, r.Size(), w.Size)
		}
		if err := r.Close(); err != nil {
			return err
		}
		l.Release()
	}
	return nil
}

// processor is the time that this process had of processors.
func processor() (user, system time.Duration) {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0, 0
	}
	return time.Duration(r.Utime.Nano()), time.Duration(r.Stime.Nano())
}

// peak is the most memory that this process had so far, in bytes; 0 where the system does not tell.
func peak() int64 {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
