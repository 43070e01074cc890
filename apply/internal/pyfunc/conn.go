package pyfunc

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"leat/apply/outcome"
)

// conn exchanges messages with a server. One goroutine uses it.
type conn struct {
	*net.UnixConn
	// cancel ends the server, and explain says in its error how the server ended; nil if the server
	// is not a process of this one.
	cancel  func()
	explain func(error) error
	// out and in are the last messages, with their lengths. From read on, in has unread bytes
	// of the next message.
	out, in      []byte
	read, unread int
}

// errEnded is returned when the server has closed the connection.
var errEnded = errors.New("the connection to it ended")

// lengthSize is the size of the length of a message.
const lengthSize = 4

// begin returns the beginning of a message for exchange, to which the caller appends.
func (c *conn) begin() []byte { return append(c.out[:0], make([]byte, lengthSize)...) }

// call sends a message as JSON, with descriptors if there are any, and returns the answer. An
// answer of another type is an error.
func (c *conn) call(ctx context.Context, message any, want string, descriptors ...int) (*answer, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	in, err := c.exchange(ctx, append(c.begin(), text...), descriptors...)
	if err != nil {
		return nil, err
	}
	a, err := parseAnswer(in)
	if err == nil && a.Type != want {
		return nil, fmt.Errorf("it answered with a message of type %q, expected %q", a.Type, want)
	}
	return a, err
}

// parseAnswer returns an answer that is JSON. If its type is error, that is an error.
func parseAnswer(text []byte) (*answer, error) {
	a := &answer{}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("it sent a message that can't be read: %w", err)
	}
	if a.Type == "error" {
		return nil, &outcome.PythonError{Kind: a.Kind, Message: a.Message, Traceback: a.Traceback}
	}
	return a, nil
}

// exchange sends a message that starts with begin, with descriptors if there are any. It returns
// the answer, which is valid until the next call. A canceled ctx closes the connection.
func (c *conn) exchange(ctx context.Context, message []byte, descriptors ...int) ([]byte, error) {
	return c.await(ctx, false, func() error { return c.sendMessage(message, descriptors...) })
}

// await returns the next answer, after it has called send. more is whether another one may follow.
func (c *conn) await(ctx context.Context, more bool, send func() error) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() {
		if c.cancel != nil {
			c.cancel() // a function that hangs does not notice the end of its connection
		}
		_ = c.Close()
	})
	err := send()
	var in []byte
	if err == nil {
		in, err = c.receive(more)
	}
	switch {
	case !stop(): // even if the answer came: the connection is closed
		return nil, context.Cause(ctx)
	case err != nil && c.explain != nil:
		err = c.explain(err)
	case errors.Is(err, errEnded):
		err = errors.New("the function failed: " + errEnded.Error())
	}
	return in, err
}

// sendMessage sends a message that starts with begin, with descriptors if there are any.
func (c *conn) sendMessage(message []byte, descriptors ...int) error {
	c.out = message
	size := len(message) - lengthSize
	if size > maxMessage {
		return fmt.Errorf("a message of %d bytes, at most %d are allowed", size, maxMessage)
	}
	binary.LittleEndian.PutUint32(message, uint32(size))
	return c.send(message, descriptors)
}

func (c *conn) send(message []byte, descriptors []int) error {
	if len(descriptors) > 0 {
		n, _, err := c.WriteMsgUnix(message, unix.UnixRights(descriptors...), nil)
		if err != nil {
			return ended(err)
		}
		message = message[n:]
	}
	if len(message) == 0 {
		return nil
	}
	_, err := c.Write(message)
	return ended(err)
}

// receive returns the next message. more is whether another one may follow.
func (c *conn) receive(more bool) ([]byte, error) {
	if len(c.in) < 64<<10 {
		c.in = append(c.in, make([]byte, 64<<10-len(c.in))...)
	}
	have := copy(c.in, c.in[c.read:c.read+c.unread])
	c.read, c.unread = 0, 0
	if have < lengthSize {
		n, err := io.ReadAtLeast(c, c.in[have:], lengthSize-have)
		if err != nil {
			return nil, ended(err)
		}
		have += n
	}
	size := int(binary.LittleEndian.Uint32(c.in))
	if size < 2 || size > maxMessage {
		return nil, fmt.Errorf("it sent a message of %d bytes, expected 2 to %d", size, maxMessage)
	}
	end := lengthSize + size
	if have < end {
		if len(c.in) < end {
			c.in = append(c.in, make([]byte, end-len(c.in))...)
		}
		if _, err := io.ReadFull(c, c.in[have:end]); err != nil {
			return nil, ended(err)
		}
		have = end
	}
	if have != end && !more {
		return nil, fmt.Errorf("it sent %d bytes after its answer", have-end)
	}
	c.read, c.unread = end, have-end
	return c.in[lengthSize:end], nil
}

// ended returns errEnded for the errors of a connection that the other side has closed.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) ||
		errors.Is(err, unix.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return errEnded
	}
	return err
}
