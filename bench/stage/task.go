package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"leat/bench/measured"
	"leat/bench/runner"
	"leat/stage"
)

// What a process does with all objects, in a measurement.
const (
	opStage    = "stage"    // prefetches all, reads each in order, releases it
	opInto     = "into"     // the same, but reads all into the same memory
	opRecycled = "recycled" // opStage, and the memory of each is recycled
	opCopy     = "copy"     // prefetches all and waits for the copies; reads nothing
	opPlain    = "plain"    // the job of opStage without a stage
	opGet      = "get"      // reads each into memory, no more
	opBare     = "bare"     // the same by net/http alone
	opBareIn   = "barein"   // the same, each goroutine into the same memory again and again
	opWrite    = "write"    // one write to a file of the same directory for each
	opAlone    = "alone"    // the same to a file that no other goroutine writes to meanwhile
	opRead     = "read"     // one read of such a file into new memory for each
	opReuse    = "reuse"    // the same into the same memory
	opMemory   = "memory"   // opStage; what counts is the memory of the process
	opNDVI     = "ndvi"     // leat apply on two files
	opHits     = "hits"     // reads each, one after the other
)

// task is what a process has to do.
type task struct {
	Op       string
	Dir      string
	URL      string        // of the server; "": a source in the process
	Latency  time.Duration // of that source
	Kind     string        // of the objects, see object
	Objects  int
	Size     int64
	Workers  int
	Ranges   int
	MaxBytes int64 // 0: the default
	MaxFiles int   // 0: the default
	Keep     stage.Keep
	Shuffle  bool // opHits: another order in each epoch
	Seed     int  // of the orders
	Epochs   int
	Profile  string

	Files, Stage string // of opNDVI: where the files are, if not at URL; the directory of the stage, "": none
	Side         int    // of the rasters of which a window is wanted; 0: all of them
}

// epoch is what one pass over the objects took.
type epoch struct {
	Took, User, System time.Duration
	Reads              int64 // objects whose bytes the source was asked for
	Checks             int64 // objects that the source was asked about
}

// answer is what a process did.
type answer struct {
	Epochs []epoch
	Memory int64  // bytes of the process's peak above its start
	Err    string `json:",omitempty"`
}

// process is a child that has got ready for its task.
type process struct {
	cmd  *exec.Cmd
	in   interface{ Close() error }
	to   *json.Encoder
	from *json.Decoder
}

// start runs this program again in a role.
func start(ctx context.Context, role string) (*process, error) {
	cmd, err := runner.Command(ctx, "stage", role)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd, in, json.NewEncoder(in), json.NewDecoder(out)}, nil
}

// end waits for the end of a child, which comes with that of its input.
func (p *process) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// tell sends a task, and waits until the child is ready for it.
func (p *process) tell(t task) error {
	if err := p.to.Encode(t); err != nil {
		return err
	}
	var ready answer
	if err := p.from.Decode(&ready); err != nil {
		return err
	}
	return ready.err()
}

func (a answer) err() error {
	if a.Err != "" {
		return errors.New(a.Err)
	}
	return nil
}

// measure has n processes do a task at the same time.
func (b *bench) measure(n int, name string, t task) ([]answer, error) {
	if b.profiles != "" {
		t.Profile = filepath.Join(b.profiles, name)
	}
	all := make([]*process, n)
	for i := range all {
		p, err := start(b.ctx, "worker")
		if err != nil {
			return nil, err
		}
		defer p.end()
		if all[i] = p; n > 1 && t.Profile != "" {
			t.Profile = fmt.Sprintf("%s-%d", filepath.Join(b.profiles, name), i)
		}
		if err := p.tell(t); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Op, err)
		}
	}
	answers, errs := make([]answer, n), make([]error, n)
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			if errs[i] = p.to.Encode("go"); errs[i] == nil {
				errs[i] = p.from.Decode(&answers[i])
			}
		})
	}
	wg.Wait()
	for i, a := range answers {
		errs[i] = errors.Join(errs[i], a.err())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Op, err)
	}
	return answers, nil
}

// one has a process do a task.
func (b *bench) one(name string, t task) (answer, error) {
	all, err := b.measure(1, name, t)
	if err != nil {
		return answer{}, err
	}
	return all[0], nil
}

// fresh calls f with an empty directory, whose bytes are going to be so many.
func (p place) fresh(size int64, f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(p.dir, "run-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := measured.TouchMemory(dir, size); err != nil {
		return err
	}
	return f(dir)
}
