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
	// tailBytes is how much of a worker's output is kept for the word of its death: a Go panic or a Python traceback fits.
	tailBytes = 16 << 10
	// lineBytes is the longest line that is passed on whole.
	lineBytes = 8 << 10
)

// outputWait is how long the output of a worker that has ended is waited for: it ends with the worker and its group, but a process that left the
// group may hold it open for good.
const outputWait = 200 * time.Millisecond

// output takes what a worker writes: it keeps the end and passes on the lines.
type output struct {
	from   *os.File
	pass   func(line string) // nil: nobody is told
	begun  []byte            // a line without its end yet; only of the goroutine that reads
	passed chan struct{}     // closed when there is nothing more to come
	lines  int64             // that were passed on or are; only of the goroutine that reads
	line   atomic.Int64      // the number of the one that is just passed on, from 1; 0: none is

	mu   sync.Mutex // not held while lines are passed on, which may take long
	tail []byte     // at most 2*tailBytes, of which the last tailBytes count
	cut  bool       // there was more before
}

// newOutput reads from until its end and closes it.
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

// await returns when all that was written has been passed on, or it is no use to wait any longer: somebody else holds the output open, or
// whoever the lines are passed on to does not return. In that case the goroutine ends when they do.
func (o *output) await() {
	_ = o.from.SetReadDeadline(time.Now().Add(outputWait))
	// It does not return when it is at the same line in three looks: a machine that stands still for a moment makes one of them worth nothing.
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

// pipeBytes are the most that a pipe holds on Linux, unless root has allowed more.
const pipeBytes = 1 << 20

// rest takes what lies in the pipe when the deadline of await has come: on a machine that stood still until then, all of it may.
func (o *output) rest() {
	_ = o.from.SetReadDeadline(time.Time{})
	c, err := o.from.SyscallConn()
	if err != nil {
		return
	}
	b := make([]byte, 32<<10)
	for n, all := 1, 0; n > 0 && all < pipeBytes; all += n { // whoever holds it may write for ever
		_ = c.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), b) // which does not wait
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
		if room := lineBytes - len(o.begun); len(line) > room {
			line, after, ended = line[:room], rest[room:], true
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

// end returns the last lines, at most tailBytes of them, without a line break at their end.
func (o *output) end() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	t, cut := o.tail, o.cut
	if len(t) > tailBytes {
		t, cut = t[len(t)-tailBytes:], true
	}
	if cut {
		// A line that has lost its beginning misleads; but for one that is all there is.
		if i := bytes.IndexByte(t, '\n'); i >= 0 && i < len(t)-1 {
			t = t[i+1:]
		}
	}
	return strings.ToValidUTF8(strings.TrimRight(string(t), "\r\n"), "\uFFFD")
}

// oneAtATime keeps the lines of several workers apart.
type oneAtATime struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneAtATime) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
