package worker

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"
	"strconv"
)

// sendTries bounds how often one result is sent whose bytes came changed, or too slowly. How long a broken connection is made again is the heartbeats' matter, which
// end the work.
const sendTries = 4

func (w *work) reads() {
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
		func() {
			defer rescue(&err)
			i.read, err = w.computer.Read(i.ctx, i.lease)
		}()
	}
	switch {
	case i.ctx.Err() != nil: // nobody wants it: what Read says of that is no error
		if read && err == nil {
			w.drop(i)
		}
		if w.ctx.Err() != nil {
			return false
		}
		w.discharge(i, false)
		return true
	case err != nil:
		return w.reportOf(err, i)
	}
	w.ready <- i // has room for all that are held
	return true
}

// drop gives the computer back what it has read of a block.
func (w *work) drop(i *item) {
	var err error
	func() {
		defer rescue(&err)
		w.computer.Drop(i.read)
	}()
	i.read = nil
	switch {
	case err == nil:
	case w.ctx.Err() == nil:
		w.report(err, 0, -1)
	default: // told with the farewell
		w.mu.Lock()
		w.dropErr = errors.Join(w.dropErr, err)
		w.mu.Unlock()
	}
}

func (w *work) computes(slot int) {
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
		w.drop(i)
	} else {
		func() {
			defer rescue(&err)
			body, err = w.computer.Compute(i.ctx, slot, i.read)
		}()
	}
	i.read = nil
	switch {
	case w.ctx.Err() != nil:
		return false
	case i.ctx.Err() != nil:
		w.discharge(i, false)
		return true
	case err == nil:
		err = w.fits(body)
	}
	if err != nil {
		return w.reportOf(err, i)
	}
	err = w.send(i, body)
	switch {
	case err == nil:
		w.discharge(i, true)
		return true
	case w.ctx.Err() != nil:
		return false
	case refusedWith(err, "superseded"), refusedWith(err, "lease"):
		w.log.Info("another worker's result was first", "block", i.lease.Block)
		w.discharge(i, true)
		return true
	}
	w.stop(verdictOf(err))
	return false
}

// reportOf reports an error of a block, unless another worker has finished that.
func (w *work) reportOf(err error, i *item) (goOn bool) {
	if goOn = w.report(err, i.id, i.lease.Block); goOn {
		w.log.Info("an error of a block that another worker has finished", "block", i.lease.Block, "error", err)
		w.discharge(i, false)
	}
	return goOn
}

func (w *work) fits(body [][]byte) error {
	var n int64
	for _, b := range body {
		n += int64(len(b))
	}
	if n > w.maxResult {
		return fmt.Errorf("the result has %d bytes; results of this run have %d at most", n, w.maxResult)
	}
	return nil
}

// send brings a result to the run; it returns when the run has taken it, or does not want it, or the work ends. Its errors are never the function's.
func (w *work) send(i *item, body [][]byte) error {
	var sum uint32
	for _, b := range body {
		sum = crc32.Update(sum, castagnoli, b)
	}
	fields := []field{
		{"Content-Type", "application/octet-stream"},
		{headerWorker, strconv.Itoa(w.number)},
		{headerLease, strconv.FormatUint(i.id, 10)},
		{headerBlock, strconv.Itoa(i.lease.Block)},
		{headerChecksum, fmt.Sprintf("%08x", sum)},
	}
	return w.withResults(w.ctx, func(l *link) error {
		pause := firstPause
		for tries := 1; ; {
			_, err := l.call(w.links, pathResult, fields, body, 0, maxMessage)
			switch {
			case err == nil, w.ctx.Err() != nil:
				return err
			case refusedWith(err, "checksum"), refusedWith(err, "slow"):
				if tries++; tries > sendTries {
					return err
				}
			case final(err):
				return err
			}
			rest(w.ctx, &pause)
		}
	})
}

// report tells the run of an error, and ends the work with it; goOn: the run does not mind.
func (w *work) report(err error, id uint64, block int) (goOn bool) {
	m := errorMessage{Worker: w.number, Lease: id, Block: block}
	m.Message, m.Stack, m.Code = wordsOf(err)
	ctx, cancel := within(w.links, w.times.Silence)
	defer cancel()
	told := w.withAny(func(l *link) error {
		return l.retry(ctx, func(ctx context.Context) error {
			_, err := tell[empty](ctx, l, pathError, m, w.times.Silence, maxMessage)
			return err
		})
	})
	switch {
	case told == nil:
	case refusedWith(told, "superseded"), refusedWith(told, "lease"):
		return true
	case refusedWith(told, "ended"), refusedWith(told, "done"), refusedWith(told, "lost"):
	default:
		err = afterwards(err, fmt.Errorf("the run could not be told: %w", told))
	}
	w.mu.Lock()
	if w.failure == nil {
		w.failure = err
	}
	w.mu.Unlock()
	w.stop(err)
	return false
}

// wordsOf is what the run is told of an error; a message has room for it.
func wordsOf(err error) (message, stack, code string) {
	if message = cut(shown(err.Error()), maxText); message == "" {
		message = "an error without words"
	}
	var s interface{ Stack() []byte }
	if errors.As(err, &s) {
		stack = cut(shown(string(s.Stack())), maxStack)
	}
	var c Coder
	if errors.As(err, &c) {
		code = cut(shown(c.Code()), maxCode)
	}
	// A text may grow by being written in JSON. The rest of a message is short.
	for b, e := encode([]string{message, stack}); e == nil && len(b) > maxMessage-2<<10; b, e = encode([]string{message, stack}) {
		message, stack = cut(message, max(len(message)/2, 64)), cut(stack, len(stack)/2)
	}
	return message, stack, code
}

// rescue makes an error of a panic.
func rescue(err *error) {
	if p := recover(); p != nil {
		e, ok := p.(error)
		if ok {
			e = fmt.Errorf("panic: %w", e)
		} else {
			e = fmt.Errorf("panic: %v", p)
		}
		*err = &StackError{Err: e, Trace: debug.Stack()}
	}
}
