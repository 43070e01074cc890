package pyfunc

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leat/apply/internal/exec"
	"leat/block"
	"leat/internal/pytest"
	"leat/ndarray"
)

// BenchmarkBlock measures the round trip of a block to a function that does nothing, and what a
// block costs if each is sent before the one before is answered.
func BenchmarkBlock(b *testing.B) {
	python, source := pytest.Python(b, "numpy"), filepath.Join(b.TempDir(), "f.py")
	if err := os.WriteFile(source, []byte("def f(b):\n    pass\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	f := New(Spec{File: source, Name: "f", Executable: python}, Options{Output: b.Output()})
	p, _, err := f.start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer p.end()
	outputs, err := newOutputMemory(1 << 20)
	if err != nil {
		b.Fatal(err)
	}
	defer outputs.close()
	setup := &setupMessage{Type: "setup", Blocks: blocksMessage{Count: 1}, Outputs: []outputMessage{}, Inputs: []inputMessage{
		{Name: "a", Files: []fileMessage{{Type: "uint8", Bands: []int{1}, Nodata: []*string{nil}}}}}}
	if _, err := p.conn.call(b.Context(), setup, "ready", int(outputs.file.Fd())); err != nil {
		b.Fatal(err)
	}
	inputs, err := newOutputMemory(4096)
	if err != nil {
		b.Fatal(err)
	}
	defer inputs.close()
	if err := inputs.file.Truncate(4096); err != nil {
		b.Fatal(err)
	}
	if _, err := p.conn.call(b.Context(), &memoryMessage{Type: "memory", Bytes: 4096}, "mapped",
		int(inputs.file.Fd())); err != nil {
		b.Fatal(err)
	}
	places := []exec.Place{{Pixels: 0, Mask: -1}}
	send := func() error {
		return p.conn.sendMessage(appendBlock(p.conn.begin(), block.Block{Window: block.Window{Width: 64, Height: 64}},
			false, 0, places))
	}
	receive := func(more bool, send func() error) {
		in, err := p.conn.await(b.Context(), more, send)
		if err == nil {
			_, _, err = parseDone(nil, in, 0)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			receive(false, send)
		}
	})
	b.Run("ahead", func(b *testing.B) {
		if err := send(); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			receive(true, send)
		}
		receive(false, func() error { return nil })
	})
}

// While a worker computes a block that was sent ahead, it takes the next one only if the last was
// quick: others may be idle.
func TestSlowBlocksAreNotSentAhead(t *testing.T) {
	b := &exec.Block{Block: block.Block{Number: 5}}
	for _, quick := range []bool{false, true} {
		if s := (&slot{sent: []int{5}, quick: quick}); s.begin(b) != quick {
			t.Errorf("quick %v: the next block is sent: %v", quick, !quick)
		}
	}
}

// Both sides give types the same codes: test_block.py has the same list.
func TestTypeCodes(t *testing.T) {
	names := strings.Fields("uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64 complex64 complex128")
	if len(names) != len(typeCodes) {
		t.Fatal(len(typeCodes))
	}
	for i, name := range names {
		if got := typeCodes[i].String(); got != name {
			t.Errorf("code %d: %s, expected %s", i, got, name)
		}
	}
}

// done returns an answer to a block with one output and these bytes after it.
func done(offset int64, code, bands, rows, columns uint32, rest string) []byte {
	m := append([]byte{letterDone}, make([]byte, doneHead-1)...)
	m = binary.LittleEndian.AppendUint64(m, uint64(offset))
	for _, v := range []uint32{code, bands, rows, columns} {
		m = binary.LittleEndian.AppendUint32(m, v)
	}
	return append(m, rest...)
}

func TestAnswersToBlocks(t *testing.T) {
	outs, values, err := parseDone(nil, done(64, 9, 2, 3, 4, `[1,"a"]`), 1)
	want := outputArray{set: true, offset: 64, code: 9, bands: 2, rows: 3, columns: 4}
	if err != nil || len(outs) != 1 || outs[0] != want || len(values) != 2 || !bytes.Equal(values[1], []byte(`"a"`)) {
		t.Errorf("%v %s %v", outs, values, err)
	}
	if outs, values, err = parseDone(outs[:0], done(-1, 0, 0, 0, 0, ""), 1); err != nil || outs[0].set || values != nil {
		t.Errorf("%v %s %v", outs, values, err)
	}
	for _, wrong := range [][]byte{[]byte("d"), []byte("xx"), done(0, 0, 1, 1, 1, "")[:30], done(0, 0, 1, 1, 1, "{"),
		append([]byte{'b'}, make([]byte, 40)...)} {
		if _, _, err := parseDone(nil, wrong, 1); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// An output that is not within the memory, or not aligned, is an error.
func TestPlacesOfOutputs(t *testing.T) {
	m := &outputMemory{max: 4096}
	good := outputArray{set: true, offset: 64, code: 2, bands: 1, rows: 8, columns: 8}
	if d, end, err := m.place(good); err != nil || d != ndarray.Uint16 || end != 64+128 {
		t.Errorf("%v %d %v", d, end, err)
	}
	for name, change := range map[string]func(*outputArray){
		"type":     func(o *outputArray) { o.code = uint32(len(typeCodes)) },
		"offset":   func(o *outputArray) { o.offset = 8 },
		"end":      func(o *outputArray) { o.offset = 4096 - 64 },
		"no bands": func(o *outputArray) { o.bands = 0 },
		"overflow": func(o *outputArray) { o.bands, o.rows, o.columns = 1<<32-1, 1<<32-1, 1<<32-1 },
	} {
		wrong := good
		change(&wrong)
		if _, _, err := m.place(wrong); err == nil {
			t.Errorf("%s: %+v is accepted", name, wrong)
		}
	}
}
