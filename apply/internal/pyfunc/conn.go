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
	buffer []byte
}

// errEnded is returned when the server has closed the connection.
var errEnded = errors.New("the connection to it ended")

// call sends a message, with the descriptor if that is not negative, and returns the answer, which
// has one of the types. A canceled ctx closes the connection.
func (c *conn) call(ctx context.Context, message any, descriptor int, want string) (*answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	a, err := c.exchange(message, descriptor)
	if !stop() { // even if the answer came: the connection is closed
		return nil, context.Cause(ctx)
	}
	switch {
	case err != nil:
		return nil, err
	case a.Type == "error":
		return nil, &outcome.PythonError{Kind: a.Kind, Message: a.Message, Traceback: a.Traceback}
	case a.Type != want:
		return nil, fmt.Errorf("it answered with a message of type %q, expected %q", a.Type, want)
	}
	return a, nil
}

func (c *conn) exchange(message any, descriptor int) (*answer, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	if len(text) > maxMessage {
		return nil, fmt.Errorf("a message of %d bytes, at most %d are allowed", len(text), maxMessage)
	}
	c.buffer = append(binary.LittleEndian.AppendUint32(c.buffer[:0], uint32(len(text))), text...)
	rest := c.buffer
	if descriptor >= 0 {
		n, _, err := c.WriteMsgUnix(rest, unix.UnixRights(descriptor), nil)
		if err != nil {
			return nil, ended(err)
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		if _, err := c.Write(rest); err != nil {
			return nil, ended(err)
		}
	}
	return c.receive()
}

// receive returns the next message.
func (c *conn) receive() (*answer, error) {
	if cap(c.buffer) < 64<<10 {
		c.buffer = make([]byte, 64<<10)
	}
	c.buffer = c.buffer[:cap(c.buffer)]
	have, err := io.ReadAtLeast(c, c.buffer, 4)
	if err != nil {
		return nil, ended(err)
	}
	size := int(binary.LittleEndian.Uint32(c.buffer))
	if size < 2 || size > maxMessage {
		return nil, fmt.Errorf("it sent a message of %d bytes, expected 2 to %d", size, maxMessage)
	}
	if have < 4+size {
		if len(c.buffer) < 4+size {
			c.buffer = append(c.buffer, make([]byte, 4+size-len(c.buffer))...)
		}
		if _, err := io.ReadFull(c, c.buffer[have:4+size]); err != nil {
			return nil, ended(err)
		}
		have = 4 + size
	}
	if have != 4+size {
		return nil, fmt.Errorf("it sent %d bytes after its answer", have-4-size)
	}
	a := &answer{}
	if err := json.Unmarshal(c.buffer[4:4+size], a); err != nil {
		return nil, fmt.Errorf("it sent a message that can't be read: %w", err)
	}
	return a, nil
}

// ended returns errEnded for the errors of a connection that the other side has closed.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) ||
		errors.Is(err, unix.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return errEnded
	}
	return err
}
