//go:build linux

package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"time"
)

// modelProcess controls a process that makes the requested calls.
type modelProcess struct {
	number int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	in     *json.Decoder
	out    *json.Encoder
	stderr bytes.Buffer

	file     *modelFile // that it has, or had, open; nil if none since it was started
	open     bool
	handle   Handle
	counters *modelCounters
}

// modelCall is a call to a process, modelReply its result.
type modelCall struct {
	Op         string
	Path, Dir  string
	N, Max     int64
	Verify     Verify
	Durability Durability
	Handle     Handle
	Hidden     bool // there are no unnamed files
	Slot       int64
	Data       []byte
	Fails      bool // the fill
	Overwrite  bool
}

type modelReply struct {
	Err, Is string // Is is the kind of the error, by modelErrors
	Yes     bool
	Data    []byte // JSON keeps nil and empty apart
	Calls   int    // of fill
	Stats   Stats
	Report  *Report
	Entries []Entry

	N          int64
	UUID, Path string
	Handle     Handle
}

var modelErrors = map[string]error{"miss": ErrMiss, "range": errRange, "closed": ErrClosed, "exist": fs.ErrExist,
	"test": errTest}

// String is what rapid prints of a drawn one.
func (p *modelProcess) String() string { return fmt.Sprint("process ", p.number) }

// GoString is String.
func (p *modelProcess) GoString() string { return p.String() }

type fataler interface {
	Fatalf(format string, args ...any)
}

// start starts the process, with a file as descriptor 3 if f is not nil.
func (p *modelProcess) start(t fataler, f *os.File) {
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), "LEAT_PROCTEST=make calls")
	if f != nil {
		p.cmd.ExtraFiles = []*os.File{f}
	}
	p.stderr.Reset()
	p.cmd.Stderr = &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatalf("%v", err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("%v", err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%v", err)
	}
	p.in, p.out = json.NewDecoder(stdout), json.NewEncoder(p.stdin)
}

// kill sends SIGKILL and waits for the end.
func (p *modelProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *modelProcess) ask(t fataler, o modelCall) (a modelReply) {
	late := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Process.Kill() })
	err := p.out.Encode(o)
	if err == nil {
		err = p.in.Decode(&a)
	}
	if !late.Stop() {
		err = errors.New("no answer in two minutes")
	}
	if err != nil {
		p.kill()
		t.Fatalf("process %d: %s: %v\n%s", p.number, o.Op, err, &p.stderr)
	}
	return a
}

// makeCalls is the process. It ends when the test closes its input, and leaves all open.
func makeCalls([]string) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var c *Cache
	for {
		var o modelCall
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var a modelReply
		opened, err := o.open()
		if opened != nil {
			c = opened
			a.N, a.UUID, a.Path = c.N(), c.UUID(), c.path
			a.Handle, err = c.Handle()
		} else if err == nil {
			err = o.do(c, &a)
		}
		if err != nil {
			a.Err = err.Error()
			for name, target := range modelErrors {
				if errors.Is(err, target) {
					a.Is += name
				}
			}
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

// open makes a call that opens a cache. It returns nil for other calls.
func (o *modelCall) open() (*Cache, error) {
	setFaults()
	if o.Hidden {
		setFaults("tempfile.no O_TMPFILE")
	}
	switch o.Op {
	case "make":
		return Create(o.N, &Options{Dir: o.Dir, MaxBytes: o.Max, Verify: o.Verify})
	case "open":
		return Open(o.Path, o.N, &Options{MaxBytes: o.Max, Verify: o.Verify, Durability: o.Durability})
	case "attach":
		return Attach(o.Handle, &Options{Verify: o.Verify})
	case "attach file":
		f := os.NewFile(3, "passed")
		c, err := AttachFile(f, &Options{Verify: o.Verify})
		return c, errors.Join(err, f.Close())
	case "load":
		return Load(o.Path, &Options{Verify: o.Verify})
	}
	return nil, nil
}

// do makes the other calls. It overwrites memory that the caller owns after it was reported, which
// no entry may show.
func (o *modelCall) do(c *Cache, a *modelReply) (err error) {
	ctx := context.Background()
	switch o.Op {
	case "put":
		a.Yes, err = c.Put(o.Slot, o.Data)
		clear(o.Data)
	case "get":
		var b []byte
		b, err = c.Get(o.Slot)
		a.Data = bytes.Clone(b)
		clear(b)
	case "view":
		err = c.View(o.Slot, func(b []byte) error {
			a.Data = append([]byte{}, b...)
			return nil
		})
	case "has":
		a.Yes, err = c.Has(o.Slot)
	case "get or fill":
		var b []byte
		b, err = c.GetOrFill(ctx, o.Slot, func(context.Context) ([]byte, error) {
			a.Calls++
			if o.Fails {
				return nil, errTest
			}
			return o.Data, nil
		})
		a.Data = bytes.Clone(b)
		clear(b)
	case "freeze":
		err = c.Freeze(context.Background())
	case "stats":
		a.Stats, err = c.Stats()
	case "each":
		err = c.Each(ctx, func(e Entry) error { a.Entries = append(a.Entries, e); return nil })
	case "check":
		a.Report, err = c.Check(ctx)
	case "preserve":
		err = preserve(c, o.Path, o.Overwrite)
	case "close":
		err = c.Close()
	default:
		err = fmt.Errorf("no call %q", o.Op)
	}
	return err
}
