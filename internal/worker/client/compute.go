package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"
	"strconv"

	"leat/internal/worker/protocol"
	"leat/internal/worker/runerror"
)

// sendTries bounds how often a result is sent again after a wrong checksum or a stalled body.
// Broken connections are retried until a heartbeat timeout ends the work.
const sendTries = 4

func (w *work) readLoop() {
	for {
		select {
		case i := <-w.todo:
			if !w.readOne(i) {
				return
			}
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *work) readOne(i *item) (goOn bool) {
	var err error
	read := i.ctx.Err() == nil
	if read {
		err = call(func() (err error) {
			i.read, err = w.handler.Read(i.ctx, i.lease)
			return err
		}, func(err error) { w.reportOf(err, i) })
	}
	switch {
	case i.ctx.Err() != nil: // canceled: an error of Read is expected
		if read && err == nil {
			w.discard(i)
		}
		if w.ctx.Err() != nil {
			return false
		}
		w.endLease(i, false)
		return true
	case err != nil:
		return w.reportOf(err, i)
	}
	w.ready <- i // never blocks: it has space for all held leases
	return true
}

// discard passes an unused read value back to the handler.
func (w *work) discard(i *item) {
	err := call(func() error {
		w.handler.Discard(i.read)
		return nil
	}, func(err error) { w.report(err, 0, -1) })
	i.read = nil
	switch {
	case err == nil:
	case w.ctx.Err() == nil:
		w.report(err, 0, -1)
	default: // reported when the worker leaves
		w.mu.Lock()
		w.discardErr = errors.Join(w.discardErr, err)
		w.mu.Unlock()
	}
}

func (w *work) computeLoop(slot int) {
	for {
		select {
		case i := <-w.ready:
			if !w.computeOne(slot, i) {
				return
			}
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *work) computeOne(slot int, i *item) (goOn bool) {
	var body [][]byte
	var err error
	if i.ctx.Err() != nil {
		w.discard(i)
	} else {
		w.computed.Add(1)
		err = call(func() (err error) {
			body, err = w.handler.Compute(i.ctx, slot, i.read)
			return err
		}, func(err error) { w.reportOf(err, i) })
	}
	i.read = nil
	switch {
	case w.ctx.Err() != nil:
		return false
	case i.ctx.Err() != nil:
		w.endLease(i, false)
		return true
	case err == nil:
		err = w.checkSize(body)
	}
	if err != nil {
		return w.reportOf(err, i)
	}
	err = w.send(i, body)
	switch {
	case err == nil:
		w.endLease(i, true)
		return true
	case w.ctx.Err() != nil:
		return false
	case refusedWith(err, "superseded"), refusedWith(err, "lease"):
		w.log.Info("result superseded", "block", i.lease.Block)
		w.endLease(i, true)
		return true
	}
	w.stop(endCause(err))
	return false
}

// reportOf reports an error of a block and reports whether to continue: another worker may have
// finished the block.
func (w *work) reportOf(err error, i *item) (goOn bool) {
	if goOn = w.report(err, i.id, i.lease.Block); goOn {
		w.log.Info("error of superseded block ignored", "block", i.lease.Block, "error", err)
		w.endLease(i, false)
	}
	return goOn
}

func (w *work) checkSize(body [][]byte) error {
	var n int64
	for _, b := range body {
		n += int64(len(b))
	}
	if n > w.maxResult {
		return fmt.Errorf("result has %d bytes, at most %d are allowed", n, w.maxResult)
	}
	return nil
}

// send sends a result and returns once the coordinator has accepted or refused it, or the work
// ends. Its errors never come from the handler.
func (w *work) send(i *item, body [][]byte) error {
	var sum uint32
	for _, b := range body {
		sum = crc32.Update(sum, protocol.Castagnoli, b)
	}
	fields := []field{
		{"Content-Type", "application/octet-stream"},
		{protocol.HeaderWorker, strconv.Itoa(w.number)},
		{protocol.HeaderLease, strconv.FormatUint(i.id, 10)},
		{protocol.HeaderBlock, strconv.Itoa(i.lease.Block)},
		{protocol.HeaderChecksum, fmt.Sprintf("%08x", sum)},
	}
	return w.withResults(w.ctx, func(l *conn) error {
		pause := firstPause
		for tries := 1; ; {
			_, err := l.call(w.connCtx, protocol.PathResult, fields, body, 0, protocol.MaxMessage)
			switch {
			case err == nil, w.ctx.Err() != nil:
				return err
			case refusedWith(err, "checksum"), refusedWith(err, "slow"):
				if tries++; tries > sendTries {
					return err
				}
			case isFinal(err):
				return err
			}
			backOff(w.ctx, &pause, lastPause)
		}
	})
}

// report sends an error to the coordinator and ends the work. It returns true if the coordinator
// ignores the error because the block is done.
func (w *work) report(err error, id uint64, block int) (goOn bool) {
	m := protocol.ErrorReport{Worker: w.number, Lease: id, Block: block}
	m.Message, m.Stack, m.Code = errorTexts(err)
	ctx, cancel := within(w.connCtx, w.times.HeartbeatTimeout)
	defer cancel()
	sendErr := w.withAny(func(l *conn) error {
		return l.retry(ctx, func(ctx context.Context) error {
			_, err := post[protocol.Empty](ctx, l, protocol.PathError, m, w.times.HeartbeatTimeout, protocol.MaxMessage)
			return err
		})
	})
	switch {
	case sendErr == nil:
	case refusedWith(sendErr, "superseded"), refusedWith(sendErr, "lease"):
		return true
	case refusedWith(sendErr, "ended"), refusedWith(sendErr, "done"), refusedWith(sendErr, "lost"):
	default:
		err = runerror.Join(err, fmt.Errorf("reporting error to the coordinator: %w", sendErr))
	}
	w.mu.Lock()
	if w.failure == nil {
		w.failure = err
	}
	w.mu.Unlock()
	w.stop(err)
	return false
}

// errorTexts returns message, stack and code of an error, shortened to fit a message.
func errorTexts(err error) (message, stack, code string) {
	if message = protocol.Truncate(protocol.Sanitize(err.Error()), protocol.MaxText); message == "" {
		message = "error without text"
	}
	var s interface{ Stack() []byte }
	if errors.As(err, &s) {
		stack = protocol.Truncate(protocol.Sanitize(string(s.Stack())), protocol.MaxStack)
	}
	var c Coder
	if errors.As(err, &c) {
		code = protocol.Truncate(protocol.Sanitize(c.Code()), protocol.MaxCode)
	}
	// JSON escapes may lengthen a text. The other fields of a message are short.
	for b, e := protocol.Encode([]string{message, stack}); e == nil && len(b) > protocol.MaxMessage-2<<10; b,
		e = protocol.Encode([]string{message, stack}) {
		message, stack = protocol.Truncate(message, max(len(message)/2, 64)), protocol.Truncate(stack, len(stack)/2)
	}
	return message, stack, code
}

// call calls a function of the handler and turns a panic into an error. If the function ends its
// goroutine (runtime.Goexit), call does not return and passes an error to goexit instead.
func call(f func() error, goexit func(error)) (err error) {
	ended := true
	defer func() {
		if ended {
			goexit(cmp.Or(err, errGoexit))
		}
	}()
	func() {
		defer recoverError(&err)
		err = f()
	}()
	ended = false
	return err
}

var errGoexit = errors.New("the function ended its goroutine (runtime.Goexit)")

// recoverError turns a panic into an error. An error with a code keeps its text: a handler may
// panic with one while its goroutine ends.
func recoverError(err *error) {
	p := recover()
	if p == nil {
		return
	}
	e, ok := p.(error)
	var c Coder
	switch {
	case errors.As(e, &c):
	case ok:
		e = fmt.Errorf("panic: %w", e)
	default:
		e = fmt.Errorf("panic: %v", p)
	}
	*err = &StackError{Err: e, Trace: debug.Stack()}
}
