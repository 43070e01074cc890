package exec

import (
	"bytes"
	"slices"
	"testing"
)

// rawCodec is a codec for byte slices.
type rawCodec struct{}

func (rawCodec) Encode(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Decode(b []byte) (any, error) { return b, nil }

func FuzzWorkerValues(f *testing.F) {
	code := &Function{WorkerValues: rawCodec{}}
	var body []byte
	for _, v := range [][]byte{[]byte("one"), {}, []byte("three")} {
		b, err := code.encodeWorkerValue(v, nil)
		if err != nil {
			f.Fatal(err)
		}
		body = append(body, b...)
	}
	for _, b := range [][]byte{body, body[:len(body)-1], body[:3], nil, {255, 255, 255, 255}} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		values, err := code.decodeWorkerValues(body)
		if err != nil {
			return
		}
		var again []byte
		for _, v := range values {
			b, err := code.encodeWorkerValue(v, nil)
			if err != nil {
				t.Fatal(err)
			}
			again = slices.Concat(again, b)
		}
		if !bytes.Equal(again, body) {
			t.Fatalf("%x instead of %x", again, body)
		}
	})
}
