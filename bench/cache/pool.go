package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"leat/bench/runner"
)

// soon is when workers begin that get the order now: late enough for all to have it.
const soon = 5 * time.Millisecond

// process is this program's side of a worker.
type process struct {
	cmd *exec.Cmd
	to  io.WriteCloser
	out *json.Encoder
	in  *json.Decoder
}

func (p *process) receive() (a part, err error) {
	if err := p.in.Decode(&a); err != nil {
		return a, fmt.Errorf("a worker is gone: %w", err)
	}
	if a.Err != "" {
		return a, errors.New(a.Err)
	}
	return a, nil
}

// measure starts the processes of a task, has them begin together and collects what they did.
func measure(ctx context.Context, t task) (parts []part, err error) {
	var all []*process
	defer func() {
		for _, p := range all {
			if err != nil {
				_ = p.cmd.Process.Kill()
			}
			_ = p.to.Close()
			_ = p.cmd.Wait()
		}
	}()
	for rank := range t.Processes {
		cmd, err := runner.Command(ctx, "cache", "worker")
		if err != nil {
			return nil, err
		}
		to, err := cmd.StdinPipe()
		if err != nil {
			return nil, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		p := &process{cmd: cmd, to: to, out: json.NewEncoder(to), in: json.NewDecoder(out)}
		all = append(all, p)
		t.Rank = rank
		if err := p.out.Encode(t); err != nil {
			return nil, err
		}
	}
	for _, p := range all { // all have warmed up
		if _, err := p.receive(); err != nil {
			return nil, err
		}
	}
	at := begin{At: time.Now().Add(soon).UnixNano()}
	for _, p := range all {
		if err := p.out.Encode(at); err != nil {
			return nil, err
		}
	}
	for _, p := range all {
		a, err := p.receive()
		if err != nil {
			return nil, err
		}
		parts = append(parts, a)
	}
	return parts, nil
}
