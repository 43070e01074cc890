package pyfunc

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"leat/apply/internal/exec"
	"leat/block"
	"leat/ndarray"
)

// The first bytes of messages that are not JSON.
const (
	letterBlock = 'b'
	letterDone  = 'd'
)

// doneHead and outputSize are the sizes of the head of the answer to a block, and of the place of
// an output in it.
const (
	doneHead   = 8
	outputSize = 24
)

// appendBlock appends the message about a block whose arrays are in the memory of this number.
// ahead is set if leat has not sent the message after its use of the outputs of the block before.
func appendBlock(to []byte, b block.Block, ahead bool, memory int, arrays []exec.Place) []byte {
	to = append(to, letterBlock, 0, 0, 0)
	if ahead {
		to[len(to)-3] = 1
	}
	to = binary.LittleEndian.AppendUint32(to, uint32(memory))
	for _, v := range [...]int{b.Number, b.Window.Col, b.Window.Row, b.Window.Width, b.Window.Height} {
		to = binary.LittleEndian.AppendUint64(to, uint64(v))
	}
	for _, a := range arrays {
		to = binary.LittleEndian.AppendUint64(to, uint64(a.Pixels))
		to = binary.LittleEndian.AppendUint64(to, uint64(a.Mask))
	}
	return to
}

// outputArray is the place of an output in the output memory.
type outputArray struct {
	set                  bool // the function has set the output
	offset               int64
	code                 uint32
	bands, rows, columns int
}

// typeCodes are the types of pixels in the order of their codes.
var typeCodes = [...]ndarray.DType{ndarray.Uint8, ndarray.Int8, ndarray.Uint16, ndarray.Int16, ndarray.Uint32,
	ndarray.Int32, ndarray.Uint64, ndarray.Int64, ndarray.Float16, ndarray.Float32, ndarray.Float64, ndarray.Complex64,
	ndarray.Complex128}

// parseDone appends the places of n outputs in the answer to a block, and returns them with the
// values that the function emitted.
func parseDone(to []outputArray, message []byte, n int) ([]outputArray, []json.RawMessage, error) {
	end := doneHead + n*outputSize
	if len(message) < end || message[0] != letterDone {
		return nil, nil, fmt.Errorf("it answered a block with %d bytes, expected at least %d", len(message), end)
	}
	for at := doneHead; at < end; at += outputSize {
		p := message[at:]
		word := func(i int) uint32 { return binary.LittleEndian.Uint32(p[8+4*i:]) }
		o := outputArray{offset: int64(binary.LittleEndian.Uint64(p)), code: word(0), bands: int(word(1)),
			rows: int(word(2)), columns: int(word(3))}
		o.set = o.offset >= 0
		to = append(to, o)
	}
	if len(message) == end {
		return to, nil, nil
	}
	var values []json.RawMessage
	if err := json.Unmarshal(message[end:], &values); err != nil {
		return nil, nil, fmt.Errorf("it emitted values that can't be read: %w", err)
	}
	return to, values, nil
}
