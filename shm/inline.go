package shm

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// Small arrays travel in their handle: a whole .npy in base64 without padding.
const inlinePrefix = "leat-npy1:"

var inlineEncoding = base64.RawStdEncoding.Strict()

// inlineText returns the handle that holds a whole .npy.
func inlineText(npy []byte) Handle {
	b := make([]byte, len(inlinePrefix), len(inlinePrefix)+inlineEncoding.EncodedLen(len(npy)))
	copy(b, inlinePrefix)
	return Handle(inlineEncoding.AppendEncode(b, npy))
}

// isInline reports whether a handle claims to hold its array.
func isInline(h Handle) bool { return strings.HasPrefix(string(h), inlinePrefix) }

// parseInline returns the .npy of an inline handle, checked: the header is one that parseNPYHeader
// reads and the elements that it tells of follow, and nothing else. The caller owns the bytes. The
// error wraps ErrHandle.
func parseInline(h Handle) ([]byte, error) {
	npy, err := readInline(string(h))
	if err != nil {
		return nil, handleError(h, err)
	}
	return npy, nil
}

func readInline(s string) ([]byte, error) {
	s, ok := strings.CutPrefix(s, inlinePrefix)
	if !ok {
		return nil, fmt.Errorf("it does not begin with %q", inlinePrefix)
	}
	if strings.ContainsAny(s, "\r\n") { // which the decoder would pass over
		return nil, errors.New("it is broken into lines")
	}
	npy, err := inlineEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	e, shape, _, offset, err := parseNPYHeader(npy)
	if err != nil {
		return nil, err
	}
	size, err := dataSize(e, shape)
	if err != nil {
		return nil, err
	}
	if size != int64(len(npy)-offset) {
		return nil, fmt.Errorf("it holds %d bytes of elements, its shape %v of %v takes %d", len(npy)-offset, shape, e,
			size)
	}
	return npy, nil
}
