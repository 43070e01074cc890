package shm

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"leat/internal/npy"
)

// inlinePrefix begins the handle of a small array: a whole .npy in base64 without padding.
const inlinePrefix = "leat-npy1:"

var inlineEncoding = base64.RawStdEncoding.Strict()

// inlineText returns the handle that holds a whole .npy file.
func inlineText(file []byte) Handle {
	b := make([]byte, len(inlinePrefix), len(inlinePrefix)+inlineEncoding.EncodedLen(len(file)))
	copy(b, inlinePrefix)
	return Handle(inlineEncoding.AppendEncode(b, file))
}

// isInline reports whether a handle claims to hold its array.
func isInline(h Handle) bool { return strings.HasPrefix(string(h), inlinePrefix) }

// parseInline returns the .npy file of an inline handle and its header, which exactly the elements
// of its array follow. The caller owns the bytes. The error wraps errHandle.
func parseInline(h Handle) ([]byte, npy.Header, error) {
	file, header, err := decodeInline(string(h))
	if err != nil {
		return nil, npy.Header{}, handleError(h, err)
	}
	return file, header, nil
}

func decodeInline(s string) ([]byte, npy.Header, error) {
	s, ok := strings.CutPrefix(s, inlinePrefix)
	if !ok {
		return nil, npy.Header{}, fmt.Errorf("expected prefix %q", inlinePrefix)
	}
	if strings.ContainsAny(s, "\r\n") { // which the decoder ignores
		return nil, npy.Header{}, errors.New("line breaks in base64")
	}
	file, err := inlineEncoding.DecodeString(s)
	if err != nil {
		return nil, npy.Header{}, err
	}
	h, err := parseHeader(file)
	if err != nil {
		return nil, npy.Header{}, err
	}
	size, err := h.Elem.DataSize(h.Shape)
	if err != nil {
		return nil, npy.Header{}, err
	}
	if has := len(file) - h.DataOffset; size != int64(has) {
		return nil, npy.Header{}, fmt.Errorf("%d bytes of elements, expected %d for shape %v of %v", has, size, h.Shape, h.Elem)
	}
	return file, h, nil
}

// parseHeader parses the header of an array that can be shared: not one of big-endian numbers.
func parseHeader(b []byte) (npy.Header, error) {
	h, err := npy.ParseHeader(b)
	if err == nil && h.BigEndian {
		err = fmt.Errorf("%w: big-endian numbers", npy.ErrUnsupported)
	}
	return h, err
}
