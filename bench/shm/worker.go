package shm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"golang.org/x/sync/errgroup"

	"leat/bench/runner"
	"leat/shm"
)

// request asks a worker for one element of an array.
type request struct {
	Handle shm.Handle
	Index  int
	Warm   shm.Handle // if not empty, another array of the parent's to attach before
	Time   bool       // measure attaching
}

type reply struct {
	Value        float64
	First, Known time.Duration
	Error        string `json:",omitempty"`
}

// work answers requests until there are no more.
func work(in io.Reader, out io.Writer) error {
	s, err := shm.Open(nil)
	if err != nil {
		return err
	}
	defer s.Close()
	requests, replies := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var q request
		if err := requests.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r, err := answer(s, q)
		if err != nil {
			r.Error = err.Error()
		}
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

func answer(s *shm.Pool, q request) (r reply, err error) {
	if q.Warm != "" {
		a, err := s.Attach(q.Warm, shm.ReadOnly)
		if err != nil {
			return r, err
		}
		defer a.Close()
	}
	begin := time.Now()
	a, err := s.Attach(q.Handle, shm.ReadOnly)
	if err != nil {
		return r, err
	}
	r.First = time.Since(begin)
	v, err := shm.Slice[float64](a)
	if err != nil {
		return r, err
	}
	r.Value = v[q.Index]
	if err := a.Close(); err != nil || !q.Time {
		return r, err
	}
	const times = 1000
	begin = time.Now()
	for range times {
		a, err := s.Attach(q.Handle, shm.ReadOnly)
		if err != nil {
			return r, err
		}
		if err := a.Close(); err != nil {
			return r, err
		}
	}
	r.Known = time.Since(begin) / times
	return r, nil
}

// worker is one seen from the parent.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	enc *json.Encoder
	dec *json.Decoder
}

func startWorker() (*worker, error) {
	cmd, err := runner.Command(context.Background(), "shm", "worker")
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: cmd}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.enc, w.dec = json.NewEncoder(w.in), json.NewDecoder(bufio.NewReader(out))
	return w, w.cmd.Start()
}

func (w *worker) ask(q request) (r reply, err error) {
	if err := w.enc.Encode(q); err != nil {
		return r, err
	}
	if err := w.dec.Decode(&r); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, fmt.Errorf("the worker: %s", r.Error)
	}
	return r, nil
}

func (w *worker) stop() {
	w.in.Close()
	_ = w.cmd.Wait()
}

// both has two workers answer n requests between them, each one by one, and checks what they read.
func both(workers [2]*worker, n int, make func(n int) request) error {
	var g errgroup.Group
	for i, w := range workers {
		g.Go(func() error {
			for k := i; k < n; k += len(workers) {
				q := make(k)
				r, err := w.ask(q)
				if err != nil {
					return err
				}
				if want := float64(q.Index); r.Value != want {
					return fmt.Errorf("task %d read %v, not %v", k, r.Value, want)
				}
			}
			return nil
		})
	}
	return g.Wait()
}
