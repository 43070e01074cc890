package cache

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed lmdb_peer.py
var lmdbPeer string

// lmdb is the peer's process, which takes one order after another.
type lmdb struct {
	cmd      *exec.Cmd
	to       io.WriteCloser
	in       *json.Decoder
	out      *json.Encoder
	versions string
}

// startLMDB starts the peer with the first Python that has the module; nil where none has.
func startLMDB(ctx context.Context) (*lmdb, error) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, python, "-c", "import lmdb").Run() != nil {
			continue
		}
		p := &lmdb{cmd: exec.CommandContext(ctx, python, "-c", lmdbPeer)}
		p.cmd.Stderr = os.Stderr
		var err error
		if p.to, err = p.cmd.StdinPipe(); err != nil {
			return nil, err
		}
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		p.in, p.out = json.NewDecoder(bufio.NewReader(out)), json.NewEncoder(p.to)
		if err := p.cmd.Start(); err != nil {
			return nil, err
		}
		a, err := p.receive()
		if err != nil {
			p.end()
			return nil, err
		}
		p.versions = a.Versions
		return p, nil
	}
	return nil, nil
}

func (p *lmdb) end() {
	if p != nil {
		_ = p.to.Close()
		_ = p.cmd.Wait()
	}
}

type lmdbOrder struct {
	Op        string  `json:"op"` // run, make, open
	What      string  `json:"what"`
	Path      string  `json:"path"`
	Tuned     bool    `json:"tuned"`
	Size      int     `json:"size"`
	Entries   int64   `json:"entries"`
	Slots     int64   `json:"slots"`
	Limit     int64   `json:"limit"`
	Processes int     `json:"processes"`
	Seconds   float64 `json:"seconds"`
}

type lmdbAnswer struct {
	Versions string
	Error    string
	Parts    []struct {
		Count      int64
		Begin, End float64 // seconds of the clock
	}
}

func (p *lmdb) receive() (a lmdbAnswer, err error) {
	if err := p.in.Decode(&a); err != nil {
		return a, fmt.Errorf("LMDB's process is gone: %w", err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("LMDB: %s", a.Error)
	}
	return a, nil
}

func (p *lmdb) do(o lmdbOrder) ([]part, error) {
	if err := p.out.Encode(o); err != nil {
		return nil, fmt.Errorf("LMDB: %w", err)
	}
	a, err := p.receive()
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, q := range a.Parts {
		parts = append(parts, part{Count: q.Count, Begin: int64(q.Begin * 1e9), End: int64(q.End * 1e9)})
	}
	return parts, nil
}

const lmdbName = "LMDB"

// lmdbSystem is the peer as a system.
type lmdbSystem struct {
	p     *lmdb
	tuned bool
}

func (s lmdbSystem) name() string {
	if s.tuned {
		return "LMDB, tuned"
	}
	return lmdbName
}

func (s lmdbSystem) measure(_ context.Context, t task, where place) ([]part, error) {
	what := t.Op
	if what == opFill || what == opInto || what == opRecycled {
		what = opCopy // into memory that Python's allocator gives again
	}
	return s.p.do(lmdbOrder{
		Op: "run", What: what, Path: where.path, Tuned: s.tuned, Size: t.Size, Entries: t.Entries, Slots: t.Fresh,
		Limit:     t.Limit,
		Processes: t.Processes, Seconds: t.For.Seconds(),
	})
}

func (s lmdbSystem) make(dir string, t task) (place, error) {
	w := place{path: filepath.Join(dir, "lmdb")}
	w.drop = func() error { return os.RemoveAll(w.path) }
	_, err := s.p.do(lmdbOrder{Op: "make", Path: w.path, Size: t.Size, Entries: t.Entries})
	return w, err
}

func (s lmdbSystem) open(dir string, _ int64) (took time.Duration, err error) {
	path := filepath.Join(dir, "opened")
	defer os.RemoveAll(path)
	parts, err := s.p.do(lmdbOrder{Op: "open", Path: path})
	if err != nil {
		return 0, err
	}
	return time.Duration(parts[0].End - parts[0].Begin), nil
}
