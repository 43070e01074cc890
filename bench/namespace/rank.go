package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"leat/bench/runner"
	"leat/namespace"
)

// order is sent to a process, answer is its reply.
type order struct {
	Op   string // join, close, descriptors, hold
	At   int64  // nanoseconds of the clock at which to begin; 0: at once
	Job  *job
	From int // hold: jobs From to To-1, with directories in Dir
	To   int
	Dir  string
}

// job is a namespace.Spec that can be sent: rank Rank of Ranks, in one directory that the job
// writes.
type job struct {
	Key, Dir    string
	Rank, Ranks int
}

func (j *job) spec() namespace.Spec {
	return namespace.Spec{
		Key: j.Key, Ranks: namespace.Ranks{Rank: j.Rank, Ranks: j.Ranks, LocalRank: j.Rank, LocalRanks: j.Ranks},
		Dirs: []namespace.Dir{{Path: j.Dir, Remote: "s3://bucket/data"}},
	}
}

type answer struct {
	Err         string
	Took        time.Duration
	Done        int64 // nanoseconds of the clock
	Number      int
	Descriptors int // more than when the process began
}

// serve is such a process.
func serve(r io.Reader, w io.Writer) error {
	in, out := json.NewDecoder(r), json.NewEncoder(w)
	var member *namespace.Namespace
	var before int
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a answer
		var err error
		if o.At != 0 {
			time.Sleep(time.Until(time.Unix(0, o.At)))
		}
		begin := time.Now()
		switch o.Op {
		case "join":
			if before == 0 {
				before = descriptors()
				begin = time.Now()
			}
			if member, err = namespace.Join(context.Background(), o.Job.spec()); err == nil {
				a.Number = member.Number()
			}
		case "close":
			if member == nil {
				err = errors.New("not joined")
				break
			}
			err, member = member.Close(), nil
		case "descriptors":
			a.Descriptors = descriptors() - before
		case "hold":
			for i := o.From; i < o.To && err == nil; i++ {
				dir := filepath.Join(o.Dir, fmt.Sprint("live", i))
				_, err = namespace.Join(context.Background(), (&job{Key: dir, Dir: dir, Ranks: 1}).spec())
			}
		}
		a.Took, a.Done = time.Since(begin), time.Now().UnixNano()
		if err != nil {
			a.Err = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

func descriptors() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// rank is this program's side of such a process.
type rank struct {
	cmd *exec.Cmd
	to  io.WriteCloser
	in  *json.Decoder
	out *json.Encoder
}

func (r *rank) send(o order) error { return r.out.Encode(o) }

func (r *rank) receive() (a answer, err error) {
	if err := r.in.Decode(&a); err != nil {
		return a, fmt.Errorf("a process is gone: %w", err)
	}
	return a, nil
}

func (r *rank) do(o order) (answer, error) {
	if err := r.send(o); err != nil {
		return answer{}, err
	}
	a, err := r.receive()
	if err == nil && a.Err != "" {
		err = fmt.Errorf("%s: %s", o.Op, a.Err)
	}
	return a, err
}

// pool is some processes.
type pool struct {
	ctx  context.Context
	list []*rank
	held int
}

func (p *pool) start(n int) error {
	for range n {
		cmd, err := runner.Command(p.ctx, "namespace", "rank")
		if err != nil {
			return err
		}
		to, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		from, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		p.list = append(p.list, &rank{cmd, to, json.NewDecoder(from), json.NewEncoder(to)})
	}
	return nil
}

// hold has processes hold so many jobs in all, a hundred each.
func (p *pool) hold(n int, dir string) error {
	const each = 100
	for p.held < n {
		to := min(n, p.held+each)
		if err := p.start(1); err != nil {
			return err
		}
		if _, err := p.list[len(p.list)-1].do(order{Op: "hold", From: p.held, To: to, Dir: dir}); err != nil {
			return err
		}
		p.held = to
	}
	return nil
}

// each gives all one order.
func (p *pool) each(o order) (list []answer, err error) {
	for _, r := range p.list {
		a, err := r.do(o)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// end ends the processes. What they held is free then.
func (p *pool) end() {
	for _, r := range p.list {
		r.to.Close()
		_ = r.cmd.Process.Kill()
	}
	for _, r := range p.list {
		_ = r.cmd.Wait()
	}
	p.list = nil
}
