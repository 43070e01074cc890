package pyfunc

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"

	"leat/internal/childproc"
)

// connect returns a connection and its other end.
func connect(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	here, file, err := childproc.SocketPair("function")
	if err != nil {
		t.Fatal(err)
	}
	there, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return &conn{UnixConn: here}, there
}

// An answer that is damaged, too long, cut off or followed by more is an error.
func TestDamagedAnswers(t *testing.T) {
	length := func(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }
	for name, answer := range map[string]string{
		"nothing":         "",
		"part of length":  "\x02\x00",
		"no bytes":        length(0),
		"one byte":        length(1) + "{",
		"too long":        length(maxMessage + 1),
		"longest length":  length(math.MaxUint32),
		"cut off":         length(100) + "{}",
		"cut off, long":   length(maxMessage) + strings.Repeat(" ", 1<<20),
		"more after it":   message(`{"type":"ready"}`) + "x",
		"second message":  message(`{"type":"ready"}`) + message(`{"type":"ready"}`),
		"no JSON":         message("{]"),
		"list":            message("[1]"),
		"deep":            message(`{"value":` + strings.Repeat("[", 1<<20)),
		"another type":    message(`{"type":"mapped"}`),
		"no type":         message("{}"),
		"type of a field": message(`{"type":"ready","pid":"1"}`),
		"block":           message("d" + strings.Repeat("\x00", 40)),
	} {
		t.Run(name, func(t *testing.T) {
			c, there := connect(t)
			go func() {
				defer there.Close()
				var head [lengthSize]byte
				if _, err := io.ReadFull(there, head[:]); err != nil {
					return
				}
				_, _ = io.CopyN(io.Discard, there, int64(binary.LittleEndian.Uint32(head[:])))
				_, _ = io.WriteString(there, answer)
			}()
			a, err := c.call(t.Context(), closeMessage{Type: "close"}, "ready")
			if err == nil {
				t.Errorf("accepted as %+v", a)
			}
		})
	}
}

// Two answers that arrive together, or in parts, are two answers.
func TestAnswersThatFollow(t *testing.T) {
	first, second := message(done(-1, 0, 0, 0, 0, `["first"]`)), message(done(-1, 0, 0, 0, 0, `["the second"]`))
	both := first + second
	for cut := range len(both) {
		c, there := connect(t)
		go func() {
			_, _ = io.WriteString(there, both[:cut])
			runtime.Gosched()
			_, _ = io.WriteString(there, both[cut:])
		}()
		for i, want := range []string{first, second} {
			got, err := c.await(t.Context(), i == 0, func() error { return nil })
			if err != nil || string(got) != want[lengthSize:] {
				t.Fatalf("cut at %d: answer %d is %q (%v), expected %q", cut, i, got, err, want[lengthSize:])
			}
		}
		c.Close()
		there.Close()
	}
}

// message returns a message with its length.
func message[T string | []byte](text T) string {
	return string(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))) + string(text)
}

// A server that places an output beyond its memory, or grows that beyond its limit, causes an
// error.
func TestHostileOutputs(t *testing.T) {
	const limit = 1 << 20
	m, err := newOutputMemory(limit)
	if err != nil {
		t.Skip(err)
	}
	defer m.close()
	o := outputArray{set: true, offset: 64, bands: 1, rows: 8, columns: 8}
	if err := m.reach([]outputArray{o}); err == nil {
		t.Error("an array in an empty file is accepted")
	}
	if err := m.file.Truncate(limit + 4096); err != nil {
		t.Fatal(err)
	}
	if err := m.reach([]outputArray{o}); err == nil {
		t.Error("a file beyond its limit is accepted")
	}
	if err := os.Truncate(fmt.Sprintf("/proc/self/fd/%d", m.file.Fd()), 0); err == nil {
		t.Error("the file of outputs can shrink")
	}
}

// FuzzDone parses answers to blocks, and places what they name in a memory of 64 KiB.
func FuzzDone(f *testing.F) {
	f.Add(done(64, 9, 2, 3, 4, `[1,"a"]`), uint8(1))
	f.Add(done(math.MaxInt64-63, 12, math.MaxUint32, 1, 1, ""), uint8(1))
	f.Add(done(math.MinInt64, 0, 1, 1, 1, "{}"), uint8(2))
	f.Add([]byte("d"), uint8(0))
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		f.Add(done(int64(random.Uint64()), random.Uint32N(16), random.Uint32(), random.Uint32(), random.Uint32(), "[]"), uint8(1))
	}
	f.Fuzz(func(t *testing.T, message []byte, outputs uint8) {
		arrays, values, err := parseDone(nil, message, int(outputs))
		if err != nil {
			return
		}
		for _, v := range values {
			if !json.Valid(v) {
				t.Errorf("the value %q", v)
			}
		}
		m := &outputMemory{max: 1 << 16, mapped: make([]byte, 1<<16)}
		for _, a := range arrays {
			if !a.set {
				continue
			}
			if array, err := m.array(a); err == nil {
				clear(array.Raw())
			}
		}
	})
}
