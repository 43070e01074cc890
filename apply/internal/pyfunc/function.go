package pyfunc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"leat/apply/internal/exec"
	"leat/apply/internal/jobspec"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/codec"
	"leat/ndarray"
	"leat/shm"
)

// Spec names a function. Workers get it as JSON.
type Spec struct {
	// File is the absolute path of a Python file, or Module the name of a module; neither if the
	// function comes through a socket. Name is the function's name in it.
	File   string `json:"file,omitempty"`
	Module string `json:"module,omitempty"`
	Name   string `json:"name,omitempty"`
	// Directory is where modules are found first.
	Directory  string          `json:"directory,omitempty"`
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
	// maxOutput is the limit of the output memory of a slot.
	maxOutput int64
	closes    bool

	mu     sync.Mutex
	loaded *process // has loaded the function, for the first slot
}

// Options are what a Function needs besides its spec.
type Options struct {
	Output io.Writer // receives what the processes print; nil: os.Stderr
	// Socket, if not nil, is the function socket of the caller, which serves the connections that
	// are passed through it.
	Socket         *net.UnixConn
	Closes         bool // what Function.Closes returns, with a socket
	MaxOutputBytes int64
}

// New returns the function of a spec.
func New(spec Spec, o Options) *Function {
	f := &Function{spec: spec, out: o.Output, socket: o.Socket, closes: o.Closes, maxOutput: o.MaxOutputBytes}
	if f.out == nil {
		f.out = os.Stderr
	}
	return f
}

// Load returns the function of a spec after loading it in one process, which the first slot then
// uses. It completes the spec by the sum of the source. Close ends the process.
func Load(ctx context.Context, spec Spec, o Options) (*Function, error) {
	f := New(spec, o)
	if f.socket != nil {
		return f, nil
	}
	p, a, err := f.start(ctx)
	if err != nil {
		return nil, err
	}
	f.spec.SHA256, f.closes, f.loaded = a.SHA256, a.Closes, p
	return f, nil
}

// Closes reports whether states of the function may have a value at their end: whether it is a
// class with a method close.
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

// Spec returns the spec, with the sum of the source after Load.
func (f *Function) Spec() *Spec { return &f.spec }

// Close ends the process of Load, if no slot has used it.
func (f *Function) Close() {
	if p := f.takeLoaded(); p != nil {
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
	p, err := startProcess(f.spec.Executable, f.out)
	if err != nil {
		return nil, nil, err
	}
	a, err := p.call(ctx, f.loadMessage(), -1, "loaded")
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
		m.Function = &functionSource{File: s.File, Module: s.Module, Name: s.Name, Directory: s.Directory,
			SHA256: s.SHA256, Source: s.Text}
	}
	return m
}

// Exec returns the function of a run of the job.
func (f *Function) Exec(job *resolve.Job) exec.Function {
	return exec.Function{
		Shared:       true,
		Emits:        Emits(),
		WorkerValues: Emits(),
		Setup: func(ctx context.Context, w exec.WorkerInfo) (any, error) {
			s := &slot{function: f, job: job, info: w, life: ctx}
			return s, s.open(ctx)
		},
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

// slot is one connection and its state.
type slot struct {
	function *Function
	job      *resolve.Job
	info     exec.WorkerInfo
	life     context.Context
	process  *process // nil if the server is not a process of this one
	conn     *conn    // nil if there is none
	memory   *outputMemory
	known    map[*shm.Array]int // memories that the server has mapped
	ready    bool
}

// open starts or takes a process, or passes on a connection.
func (s *slot) open(ctx context.Context) error {
	f := s.function
	s.known = map[*shm.Array]int{}
	s.ready = false
	if f.socket != nil {
		c, err := passOn(f.socket)
		if err != nil {
			return err
		}
		s.conn = c
		_, err = s.call(ctx, f.loadMessage(), -1, "loaded")
		return err
	}
	if s.process = f.takeLoaded(); s.process == nil {
		var err error
		if s.process, _, err = f.start(ctx); err != nil {
			return err
		}
	}
	s.conn = s.process.conn
	return nil
}

// passOn passes one end of a connection through the function socket.
func passOn(socket *net.UnixConn) (*conn, error) {
	here, there, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if _, _, err := socket.WriteMsgUnix([]byte("c"), unix.UnixRights(int(there.Fd())), nil); err != nil {
		return nil, errors.Join(fmt.Errorf("the function socket takes no connection: %w", ended(err)), here.Close())
	}
	return &conn{UnixConn: here}, nil
}

func (s *slot) call(ctx context.Context, message any, descriptor int, want string) (*answer, error) {
	if s.process != nil {
		return s.process.call(ctx, message, descriptor, want)
	}
	a, err := s.conn.call(ctx, message, descriptor, want)
	if errors.Is(err, errEnded) {
		err = errors.New("the function failed: " + errEnded.Error())
	}
	return a, err
}

// compute computes a block. After an error, the next block has a new connection, unless the
// function has raised an exception.
func (s *slot) compute(ctx context.Context, b *exec.Block) (err error) {
	defer func() {
		if err != nil && !(s.ready && errors.As(err, new(*outcome.PythonError))) {
			s.drop()
		}
	}()
	if s.conn == nil {
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	if !s.ready {
		if err := s.setup(ctx, b); err != nil {
			return err
		}
	}
	m, ok := b.Memory()
	if !ok {
		return errors.New("the block is not in shared memory")
	}
	message := &blockMessage{Type: "block", Number: b.Number,
		Window: [4]int{b.Window.Col, b.Window.Row, b.Window.Width, b.Window.Height}, Arrays: m.Arrays}
	number, known := s.known[m.Array]
	descriptor := -1
	if !known {
		number = len(s.known)
		path, begin, err := m.Array.File()
		if err != nil {
			return err
		}
		mode := os.O_RDWR
		if m.Private {
			mode = os.O_RDONLY
		}
		file, err := os.OpenFile(path, mode, 0)
		if err != nil {
			return fmt.Errorf("the memory of the block: %w", err)
		}
		defer file.Close()
		descriptor = int(file.Fd())
		message.Memory = memoryMessage{New: true, Bytes: m.Bytes, Begin: begin, Private: m.Private}
	}
	message.Memory.Number = number
	a, err := s.call(ctx, message, descriptor, "done")
	if err != nil {
		return err
	}
	s.known[m.Array] = number
	if len(a.Outputs) != len(s.job.Outputs) {
		return fmt.Errorf("it gave %d outputs, expected %d", len(a.Outputs), len(s.job.Outputs))
	}
	if err := s.memory.reach(a.Outputs); err != nil {
		return err
	}
	for i, o := range a.Outputs {
		if o == nil {
			continue // exec reports it
		}
		out, err := s.memory.array(o)
		if err != nil {
			return fmt.Errorf("output %q: %w", s.job.Outputs[i].Name, err)
		}
		rows, columns := out.Shape[1], out.Shape[2]
		if w := b.Window; (rows != b.Rows() || columns != b.Columns()) && (rows != w.Height || columns != w.Width) {
			return fmt.Errorf("output %q has %d rows and %d columns, expected %d and %d", s.job.Outputs[i].Name, rows, columns,
				b.Rows(), b.Columns())
		}
		b.SetOut(i, out)
	}
	if len(a.Values) > 0 && !s.job.Values.Function.Merges {
		return errors.New("the function emitted values, which nothing receives")
	}
	for _, v := range a.Values {
		b.Emit(v)
	}
	return nil
}

// setup describes the run to the server.
func (s *slot) setup(ctx context.Context, b *exec.Block) error {
	var err error
	if s.memory == nil {
		if s.memory, err = newOutputMemory(s.function.maxOutput); err != nil {
			return err
		}
	}
	if _, err := s.call(ctx, s.setupMessage(b), int(s.memory.file.Fd()), "ready"); err != nil {
		return err
	}
	s.ready = true
	return nil
}

func (s *slot) setupMessage(b *exec.Block) *setupMessage {
	grid, blocks := b.Grid(), b.Blocks()
	m := &setupMessage{Type: "setup", Worker: s.info.Worker, Workers: s.info.Workers, Slot: s.info.Slot,
		Label: fmt.Sprintf("worker %d", s.info.Worker+1), Params: s.function.spec.Params,
		Grid:    gridMessage{Width: grid.Width, Height: grid.Height, CRS: grid.CRS.String()},
		Blocks:  blocksMessage{blocks.Count(), blocks.Cols(), blocks.Rows()},
		Overlap: b.Overlap(), Inputs: []inputMessage{}, Outputs: []outputMessage{},
		Emits: s.job.Values.Function.Merges, MaxOutputBytes: s.function.maxOutput}
	if grid.HasTransform {
		m.Grid.Transform = grid.Transform[:]
	}
	if len(m.Params) == 0 {
		m.Params = json.RawMessage("null")
	}
	for i := range s.job.Inputs.Files {
		f := b.File(i)
		if n := len(m.Inputs); n == 0 || m.Inputs[n-1].Name != f.Name {
			m.Inputs = append(m.Inputs, inputMessage{Name: f.Name, List: s.job.Inputs.Lists[f.Name]})
		}
		in := &m.Inputs[len(m.Inputs)-1]
		in.Files = append(in.Files, describeFile(f, s.job.Values.Controls.Unscale))
	}
	for _, o := range s.job.Outputs {
		out := outputMessage{Name: o.Name, Bands: o.Bands, Nodata: nodataText(o.Nodata)}
		if o.Type.Valid() {
			out.Type = o.Type.String()
		} else if text := o.Spec.Nodata; text != "" && text != "none" {
			out.Nodata = &text
		}
		m.Outputs = append(m.Outputs, out)
	}
	return m
}

func describeFile(f *resolve.File, unscale bool) fileMessage {
	m := fileMessage{Path: f.Path, Type: f.Type.String(), Bands: f.Layers}
	for _, n := range f.Nodata {
		m.Nodata = append(m.Nodata, nodataText(n))
	}
	if len(f.Planes) > 0 {
		m.MaskPlanes, m.Mask = len(f.Planes), f.PlaneOf
	}
	scaled := false
	for _, l := range f.Layers {
		scale, offset := f.Scaling(l, true)
		if scale == 0 {
			scale = 1
		}
		scaled = scaled || scale != 1 || offset != 0
		m.Scale = append(m.Scale, numberText(scale))
		m.Offset = append(m.Offset, numberText(offset))
	}
	if !scaled {
		m.Scale, m.Offset = nil, nil
	}
	m.Unscale = scaled && (unscale || f.Scale != 0)
	return m
}

// CheckScales returns an error if the job applies a scale or offset that is not a finite number.
func CheckScales(job *resolve.Job) error {
	var errs []error
	for _, f := range job.Inputs.Files {
		for _, l := range f.Layers {
			if scale, offset := f.Scaling(l, job.Values.Controls.Unscale); scale-scale != 0 || offset-offset != 0 {
				errs = append(errs, jobspec.Errorf("Controls.Unscale", "input %s: %s has a band %d with scale %v and offset %v",
					f.Name, f.Path, l, scale, offset))
			}
		}
	}
	return errors.Join(errs...)
}

func nodataText(v *ndarray.Scalar) *string {
	if v == nil {
		return nil
	}
	text := v.String()
	return &text
}

func numberText(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// drop ends the connection at once, with the process.
func (s *slot) drop() {
	if s.process != nil {
		s.process.kill()
		s.process.end()
	} else if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.memory != nil { // the next server needs an empty file
		_ = s.memory.close()
	}
	s.process, s.conn, s.memory, s.ready = nil, nil, nil, false
}

// close ends the connection after the last block, and returns the value of the state: JSON, null if
// there is none.
func (s *slot) close() (value json.RawMessage, err error) {
	value = json.RawMessage("null")
	defer func() {
		if s.memory != nil {
			_ = s.memory.close()
			s.memory = nil
		}
	}()
	if s.conn == nil {
		return value, nil
	}
	if s.life.Err() != nil {
		s.drop()
		return value, nil
	}
	a, err := s.call(s.life, closeMessage{Type: "close"}, -1, "closed")
	if err == nil && len(a.Value) > 0 {
		value = a.Value
	}
	if s.process != nil && err == nil {
		s.process.end()
		s.process, s.conn = nil, nil
		return value, nil
	}
	s.drop()
	if s.life.Err() != nil {
		return value, nil
	}
	return value, err
}
