package objstore

import (
	"errors"
	"io"
)

// ReadFull reads a body of [Source.Read] into b, and checks that the body ends there: a source may
// find only then that the object was replaced meanwhile. The error is io.ErrUnexpectedEOF if fewer
// bytes come. It does not close the body.
func ReadFull(body io.Reader, b []byte) (int, error) {
	n, err := io.ReadFull(body, b)
	switch {
	case err == io.EOF:
		return n, io.ErrUnexpectedEOF
	case err != nil:
		return n, err
	}
	return n, CheckEnd(body)
}

var errTooLong = errors.New("the source sent more bytes than were requested")

// CheckEnd returns nil if a body has no more bytes, and else the error of its source.
func CheckEnd(body io.Reader) error {
	var more [1]byte
	switch n, err := io.ReadFull(body, more[:]); {
	case n > 0:
		return errTooLong
	case err == io.EOF:
		return nil
	default:
		return err
	}
}
