package subprocess

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// tailBytes is how much of a worker's output is kept for its exit report: a Go panic or a
	// Python traceback fits.
	tailBytes = 16 << 10
	// lineBytes is the longest line that is not split.
	lineBytes = 8 << 10
)

// outputWait is how long to wait for the output of a worker that has ended: a process that left its
// group may keep it open.
const outputWait = 200 * time.Millisecond

// output reads what a worker writes, keeps the end, and passes on the lines.
type output struct {
	from   *os.File
	pass   func(line string) // nil: lines are not passed on
	begun  []byte            // an incomplete line; used by the reading goroutine only
	passed chan struct{}     // closed when all lines were passed on
	lines  int64             // number of lines passed on; used by the reading goroutine only
	line   atomic.Int64      // the number of the line being passed on, from 1; 0: none

	mu   sync.Mutex // not held while passing lines on, which may block
	tail []byte     // at most 2*tailBytes, of which the last tailBytes count
	cut  bool       // there was more before
}

// newOutput starts a goroutine that reads from to its end and closes it.
func newOutput(from *os.File, pass func(line string)) *output {
	o := &output{from: from, pass: pass, passed: make(chan struct{})}
	go func() {
		defer close(o.passed)
		if _, err := io.Copy(o, o.from); errors.Is(err, os.ErrDeadlineExceeded) {
			o.rest()
		}
		if len(o.begun) > 0 {
			o.passBegun()
		}
		_ = o.from.Close()
	}()
	return o
}

// await returns when all output was passed on, or when waiting longer is useless: another process
// keeps the pipe open, or the function that receives lines does not return. The goroutine then ends
// when they do.
func (o *output) await() {
	_ = o.from.SetReadDeadline(time.Now().Add(outputWait))
	// Give up only if three checks in a row find the same line: the machine may have been paused
	// during one of them.
	for same, line := 0, int64(0); same < 3; {
		t := time.NewTimer(outputWait)
		select {
		case <-o.passed:
			t.Stop()
			return
		case <-t.C:
		}
		if now := o.line.Load(); now == 0 || now != line {
			same, line = 1, now
		} else {
			same++
		}
	}
}

// pipeBytes is the most that a pipe holds on Linux, unless root has raised it.
const pipeBytes = 1 << 20

// rest reads what is left in the pipe after the deadline of await: on a paused machine that may be
// everything.
func (o *output) rest() {
	_ = o.from.SetReadDeadline(time.Time{})
	c, err := o.from.SyscallConn()
	if err != nil {
		return
	}
	b := make([]byte, 32<<10)
	// a process that keeps the pipe open may write forever
	for n, all := 1, 0; n > 0 && all < pipeBytes; all += n {
		_ = c.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), b) // does not block
			return true
		})
		if n > 0 {
			_, _ = o.Write(b[:n])
		}
	}
}

func (o *output) Write(p []byte) (int, error) {
	o.keep(p)
	if o.pass == nil {
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if space := lineBytes - len(o.begun); len(line) > space {
			line, after, ended = line[:space], rest[space:], true
		}
		o.begun = append(o.begun, line...)
		if ended {
			o.passBegun()
		}
		rest = after
	}
	return len(p), nil
}

func (o *output) passBegun() {
	o.lines++
	o.line.Store(o.lines)
	defer o.line.Store(0)
	o.pass(strings.ToValidUTF8(strings.TrimSuffix(string(o.begun), "\r"), "\uFFFD"))
	o.begun = o.begun[:0]
}

func (o *output) keep(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(p) > tailBytes {
		o.tail, o.cut = o.tail[:0], true
		p = p[len(p)-tailBytes:]
	}
	if len(o.tail)+len(p) > 2*tailBytes {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-tailBytes:]...)
		o.cut = true
	}
	o.tail = append(o.tail, p...)
}

// end returns the last lines, at most tailBytes, without a final line break.
func (o *output) end() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	t, cut := o.tail, o.cut
	if len(t) > tailBytes {
		t, cut = t[len(t)-tailBytes:], true
	}
	if cut {
		// Drop a line that has lost its beginning, unless it is the only one.
		if i := bytes.IndexByte(t, '\n'); i >= 0 && i < len(t)-1 {
			t = t[i+1:]
		}
	}
	return strings.ToValidUTF8(strings.TrimRight(string(t), "\r\n"), "\uFFFD")
}

// oneAtATime serializes writes of several workers.
type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
