package pyfunc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"leat/apply/internal/exec"
	"leat/apply/internal/resolve"
	"leat/codec"
)

// Spec names a function. Workers get it as JSON.
type Spec struct {
	// File is the absolute path of a Python file, or Module the name of a module; neither if the
	// function comes through a socket. Name is the function's name in it.
	File   string `json:"file,omitempty"`
	Module string `json:"module,omitempty"`
	Name   string `json:"name,omitempty"`
	// Directory is where modules are found first.
	Directory string `json:"directory,omitempty"`
	// Path, if not nil, lists directories that are searched for modules before Python's own.
	// Directory is then searched only if there is a File.
	Path       []string        `json:"path,omitempty"`
	Executable string          `json:"executable,omitempty"` // absolute path of Python
	Params     json.RawMessage `json:"params,omitempty"`
	SHA256     string          `json:"sha256,omitempty"`  // of the source, once it is known
	Version    string          `json:"version,omitempty"` // of leat
	// Text is the source of File, for workers: they need not have the file.
	Text []byte `json:"text,omitempty"`
}

// Label returns the function's name for messages and descriptions.
func (s *Spec) Label() string {
	switch {
	case s.File != "":
		return s.File + ":" + s.Name
	case s.Module != "":
		return s.Module + ":" + s.Name
	}
	return "function of the caller"
}

// Source identifies the function and its source, for resuming. The directory of a file does not
// matter.
func (s *Spec) Source() string {
	named := Spec{Module: s.Module, Name: s.Name}
	if s.File != "" {
		named.File = filepath.Base(s.File)
	}
	return named.Label() + " sha256:" + s.SHA256
}

// Compared returns the part of the spec that a resumed run must have in common with the first one,
// besides the source.
func (s *Spec) Compared() *Spec { return &Spec{Params: s.Params} }

// Codec encodes specs.
func Codec() codec.Codec[any] { return codec.Any(codec.JSON[*Spec]()) }

// Emits encodes emitted values, which are JSON.
func Emits() codec.Codec[any] { return codec.Any(codec.JSON[json.RawMessage]()) }

// Function runs the function of a spec for the slots of this process.
type Function struct {
	spec Spec
	out  io.Writer
	// socket is where connections are passed on; nil: processes are started.
	socket *net.UnixConn
	closes bool

	starting sync.Mutex // held while a process starts
	alone    bool       // processes can't be forked; under starting

	mu     sync.Mutex
	server *forkServer // nil if it has no process
	loaded *process    // has loaded the function, for the first slot

	closeFollows bool           // Close waits for ending; set by Begin
	ending       sync.WaitGroup // processes that have answered close, and end

	loading *loading // nil if Begin loads nothing
}

// loading is the first loading of a function, by which the rest of its Function is completed.
type loading struct {
	cancel   func()
	done     chan struct{} // closed when the fields below are set
	err      error
	canceled bool // err came after cancel
}

// Options are what a Function needs besides its spec.
type Options struct {
	Output io.Writer // receives what the processes print; nil: os.Stderr
	// Socket, if not nil, is the function socket of the caller, which serves the connections that
	// are passed through it.
	Socket *net.UnixConn
	Closes bool // what Function.Closes returns, with a socket
}

// New returns the function of a spec.
func New(spec Spec, o Options) *Function {
	f := &Function{spec: spec, out: o.Output, socket: o.Socket, closes: o.Closes}
	if f.out == nil {
		f.out = os.Stderr
	}
	return f
}

// Begin returns the function of a spec, and begins to load it in one process, which the first slot
// then uses. This completes the spec by the sum of the source. The caller must call Close after the
// run, even if loading fails.
func Begin(ctx context.Context, spec Spec, o Options) *Function {
	f := New(spec, o)
	if f.socket != nil {
		return f
	}
	f.closeFollows = true
	ctx, cancel := context.WithCancel(ctx)
	l := &loading{cancel: cancel, done: make(chan struct{})}
	f.loading = l
	go func() {
		defer close(l.done)
		p, a, err := f.start(ctx)
		if err != nil {
			l.err, l.canceled = err, ctx.Err() != nil
			return
		}
		f.spec.SHA256, f.closes = a.SHA256, a.Closes
		f.mu.Lock()
		f.loaded = p
		f.mu.Unlock()
	}()
	return f
}

// Await waits until the function is loaded. canceled reports whether an error is due to the end of
// the context or to Close.
func (f *Function) Await() (canceled bool, err error) {
	if f.loading == nil {
		return false, nil
	}
	<-f.loading.done
	return f.loading.canceled, f.loading.err
}

// Closes reports whether the function is a class with a method close, which may return a value. It
// must be loaded.
func (f *Function) Closes() bool { return f.closes }

// WorkerSpec returns the spec for workers in other processes. It has the source of a file, so that
// they need not read it. If they share no directory with this machine, they also look for Python in
// their own $PATH.
func (f *Function) WorkerSpec(share bool) (*Spec, error) {
	s := f.spec
	if s.File != "" {
		source, err := os.ReadFile(s.File)
		if err != nil {
			return nil, err
		}
		if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != s.SHA256 {
			return nil, fmt.Errorf("%s was changed after it was loaded", s.File)
		}
		if len(source) <= maxSource {
			s.Text = source
		}
	}
	if !share {
		s.Executable = filepath.Base(s.Executable)
	}
	return &s, nil
}

// maxSource is the maximum length of a source that workers get with the job; they read larger ones.
const maxSource = 8 << 20

// Spec returns the spec, with the sum of the source once the function is loaded.
func (f *Function) Spec() *Spec { return &f.spec }

// Close ends the process of Begin, if no slot has used it, and waits for the end of all others.
func (f *Function) Close() {
	if f.loading != nil {
		f.loading.cancel()
		<-f.loading.done
	}
	if p := f.takeLoaded(); p != nil {
		p.end()
	}
	f.ending.Wait()
}

// end ends a process after its last block. If Close follows, the run goes on meanwhile: an
// interpreter with NumPy takes 15 ms to end, and the fork server 8.
func (f *Function) end(p *process) {
	if f.closeFollows {
		f.ending.Go(p.end)
	} else {
		p.end()
	}
}

func (f *Function) takeLoaded() *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.loaded
	f.loaded = nil
	return p
}

// start starts a process and loads the function in it.
func (f *Function) start(ctx context.Context) (*process, *answer, error) {
	p, err := f.newProcess(ctx)
	if err != nil {
		return nil, nil, err
	}
	a, err := p.conn.call(ctx, f.loadMessage(), "loaded")
	if err != nil {
		p.kill()
		p.end()
		return nil, nil, err
	}
	return p, a, nil
}

func (f *Function) loadMessage() *loadMessage {
	m := &loadMessage{Type: "load", Protocol: protocolVersion, Version: f.spec.Version}
	if s := &f.spec; f.socket == nil {
		m.Function = &functionSource{File: s.File, Module: s.Module, Name: s.Name, Directory: s.Directory, Path: s.Path,
			SHA256: s.SHA256, Source: s.Text}
	}
	return m
}

// Exec returns the function of a run of the job.
func (f *Function) Exec(job *resolve.Job) exec.Function {
	var loaded <-chan struct{}
	if f.loading != nil {
		loaded = f.loading.done
	}
	return exec.Function{
		Shared:       true,
		Loading:      loaded,
		Emits:        Emits(),
		WorkerValues: Emits(),
		Setup: func(ctx context.Context, w exec.WorkerInfo) (any, error) {
			s := &slot{function: f, job: job, info: w, life: ctx}
			return s, s.open(ctx)
		},
		Begin:   func(b *exec.Block) bool { return b.State().(*slot).begin(b) },
		Compute: func(ctx context.Context, b *exec.Block) error { return b.State().(*slot).compute(ctx, b) },
		Close: func(state any) (any, error) {
			s, _ := state.(*slot)
			if s == nil {
				return nil, nil
			}
			return s.close()
		},
	}
}
