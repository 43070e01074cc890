package pyfunc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"leat/apply/internal/exec"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/internal/childproc"
	"leat/shm"
)

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
	outputs  []outputArray      // of the last block
	ready    bool
	// sent lists the blocks that the server has got and not answered, at most two. goesAhead is
	// whether it takes a block before it has answered the one before, and quick whether that pays.
	sent      []int
	goesAhead bool
	quick     bool
	raised    bool // an exception ended the last block: the server skips those of sent
}

// Blocks are sent ahead if the last one was answered within quickTime and has outputs of at most
// quickBytes: others gain nothing. The last blocks of a run are then not left to one worker. The
// memory must be enough for a few of such outputs, since two are in use.
const (
	quickTime   = time.Millisecond
	quickBytes  = 256 << 10
	quickMemory = 16 * quickBytes
)

// maxAhead is the longest message of a block that is sent ahead: it must fit into the socket while
// the server sends an answer.
const maxAhead = 16 << 10

// open starts or takes a process, or passes on a connection.
func (s *slot) open(ctx context.Context) error {
	f := s.function
	s.known = map[*shm.Array]int{}
	s.ready, s.sent, s.quick = false, nil, false
	if f.socket != nil {
		c, err := passOn(f.socket)
		if err != nil {
			return err
		}
		s.conn = c
		_, err = s.conn.call(ctx, f.loadMessage(), "loaded")
		return err
	}
	if _, err := f.Await(); err != nil {
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

// compute computes a block. After an error, the next block has a new connection, unless the
// function has raised an exception.
func (s *slot) compute(ctx context.Context, b *exec.Block) (err error) {
	defer func() {
		s.raised = s.ready && errors.As(err, new(*outcome.PythonError))
		if err != nil && !s.raised {
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
	start := time.Now()
	in, err := s.exchange(ctx, b)
	if err != nil {
		return err
	}
	if in[0] == '{' {
		a, err := parseAnswer(in)
		if err == nil {
			err = fmt.Errorf("it answered a block with a message of type %q", a.Type)
		}
		return err
	}
	var values []json.RawMessage
	if s.outputs, values, err = parseDone(s.outputs[:0], in, len(s.job.Outputs)); err != nil {
		return err
	}
	took := time.Since(start)
	if err := s.take(b, values); err != nil {
		return err
	}
	s.quick = s.goesAhead && took <= quickTime && s.memory.max >= quickMemory && outputBytes(s.outputs) <= quickBytes
	return nil
}

// exchange returns the answer to a block, which it sends first unless begin has.
func (s *slot) exchange(ctx context.Context, b *exec.Block) ([]byte, error) {
	if len(s.sent) > 0 {
		if s.sent[0] != b.Number {
			panic(fmt.Sprintf("block %d is computed before block %d", b.Number, s.sent[0]))
		}
		more := len(s.sent) > 1
		s.sent = append(s.sent[:0], s.sent[1:]...)
		return s.conn.await(ctx, more, func() error { return nil })
	}
	m, ok := b.Memory()
	if !ok {
		return nil, errors.New("the block is not in shared memory")
	}
	number, err := s.mapMemory(ctx, m)
	if err != nil {
		return nil, err
	}
	return s.conn.exchange(ctx, appendBlock(s.conn.begin(), b.Block, false, number, m.Arrays))
}

// begin sends a block before compute is called with it, if that pays, and reports whether the next
// one may be sent too. The outputs of the block before the last one that was sent must not be in
// use. An error is left to compute, which sends the block again.
func (s *slot) begin(b *exec.Block) bool {
	if n := len(s.sent); n > 0 && s.sent[n-1] == b.Number {
		return s.quick
	}
	if !s.quick || s.conn == nil {
		return false
	}
	m, ok := b.Memory()
	number, known := s.known[m.Array]
	if !ok || !known || m.Private {
		return false
	}
	message := appendBlock(s.conn.begin(), b.Block, len(s.sent) > 0, number, m.Arrays)
	if len(message) > maxAhead || s.conn.sendMessage(message) != nil {
		return false
	}
	s.sent = append(s.sent, b.Number)
	return true
}

// mapMemory returns the number of the memory of a block, which the server maps unless it knows it.
func (s *slot) mapMemory(ctx context.Context, m exec.Memory) (int, error) {
	if number, known := s.known[m.Array]; known {
		return number, nil
	}
	number := len(s.known)
	path, begin, err := m.Array.File()
	if err != nil {
		return 0, err
	}
	mode := os.O_RDWR
	if m.Private {
		mode = os.O_RDONLY
	}
	file, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return 0, fmt.Errorf("the memory of the block: %w", err)
	}
	defer file.Close()
	message := &memoryMessage{Type: "memory", Number: number, Bytes: m.Bytes, Begin: begin, Private: m.Private}
	if _, err := s.conn.call(ctx, message, "mapped", int(file.Fd())); err != nil {
		return 0, err
	}
	s.known[m.Array] = number
	return number, nil
}

// take passes on the outputs and the values of a computed block.
func (s *slot) take(b *exec.Block, values []json.RawMessage) error {
	if err := s.memory.reach(s.outputs); err != nil {
		return err
	}
	for i, o := range s.outputs {
		if !o.set {
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
	if len(values) > 0 && !s.job.Values.Function.Merges {
		return errors.New("the function emitted values, which nothing receives")
	}
	for _, v := range values {
		b.Emit(v)
	}
	return nil
}

// setup describes the run to the server.
func (s *slot) setup(ctx context.Context, b *exec.Block) error {
	var err error
	if s.memory == nil {
		if s.memory, err = newOutputMemory(b.OutputBytes()); err != nil {
			return err
		}
	}
	a, err := s.conn.call(ctx, s.setupMessage(b), "ready", int(s.memory.file.Fd()))
	if err != nil {
		return err
	}
	s.ready, s.goesAhead = true, a.Ahead
	return nil
}

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
	s.process, s.conn, s.memory, s.ready, s.sent, s.quick = nil, nil, nil, false, nil, false
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
	if s.life.Err() != nil || len(s.sent) > 0 && !s.raised { // the run has ended early
		s.drop()
		return value, nil
	}
	var a *answer
	for err == nil && len(s.sent) > 0 {
		s.sent = s.sent[1:]
		_, err = s.conn.await(s.life, len(s.sent) > 0, func() error { return nil })
	}
	if err == nil {
		a, err = s.conn.call(s.life, closeMessage{Type: "close"}, "closed")
	}
	if err == nil && len(a.Value) > 0 {
		value = a.Value
	}
	if s.process != nil && err == nil {
		s.function.end(s.process)
		s.process, s.conn = nil, nil
		return value, nil
	}
	s.drop()
	if s.life.Err() != nil {
		return value, nil
	}
	return value, err
}

// passOn passes one end of a connection through the function socket.
func passOn(socket *net.UnixConn) (*conn, error) {
	here, there, err := childproc.SocketPair("function")
	if err != nil {
		return nil, err
	}
	defer there.Close()
	if _, _, err := socket.WriteMsgUnix([]byte("c"), unix.UnixRights(int(there.Fd())), nil); err != nil {
		return nil, errors.Join(fmt.Errorf("the function socket takes no connection: %w", ended(err)), here.Close())
	}
	return &conn{UnixConn: here}, nil
}
