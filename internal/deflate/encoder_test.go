package deflate

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/klauspost/compress/flate"

	"leat/internal/adler"
	"leat/internal/inflate"
	"leat/internal/pytest"
)

var updateGolden = flag.Bool("update-golden", false, "write testdata/streams.txt instead of comparing with it")

// layouts are the options that lead to different matchers.
var layouts = []Options{
	{},
	{Element: 1, Row: 512, Predictor: 2},
	{Element: 2, Row: 1024, Predictor: 1},
	{Element: 2, Row: 1024, Predictor: 2},
	{Element: 4, Row: 2048, Predictor: 1},
	{Element: 4, Row: 2048, Predictor: 2},
	{Element: 4, Row: 2048, Predictor: 3},
	{Element: 1, Row: 1 << 20},
	{Element: 8, Row: 4096, Predictor: 1},
	{Element: 8, Row: 4096, Predictor: 2},
	{Element: 16, Row: 3000, Predictor: 1},
}

// kinds are kinds of data that the matchers treat differently.
var kinds = []string{"zero", "noise", "runs", "few", "skew", "ramp", "repeats", "classes", "scene", "floats",
	"nodata above", "rare bytes", "fibonacci", "nodata",
	"values", "long values"}

// made returns n bytes of a kind, the same on every machine: it computes with integers only.
func made(kind string, n int) []byte {
	r := rand.New(rand.NewPCG(uint64(len(kind)), 7))
	p := make([]byte, n)
	switch kind {
	case "noise":
		for i := range p {
			p[i] = byte(r.Uint32())
		}
	case "runs":
		v, left := byte(0), 0
		for i := range p {
			if left == 0 {
				v, left = byte(r.Uint32()), 1+r.IntN(1+r.IntN(900))
			}
			p[i] = v
			left--
		}
	case "few":
		for i := range p {
			p[i] = "abcd"[r.IntN(4)]
		}
	case "skew": // noise of few values: sums of bits
		for i := range p {
			v := r.Uint64()
			p[i] = byte(v&3 + v>>2&3 + v>>4&7 + v>>7&7)
		}
	case "ramp":
		for i := range p {
			p[i] = byte(i / 3)
		}
	case "repeats": // at every distance, and beyond the window
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		for i := 300; i+300 < n; i += 300 + r.IntN(200) {
			from := max(0, i-1-r.IntN(min(i, 40000)))
			copy(p[i:i+r.IntN(290)], p[from:])
		}
	case "classes":
		for i := range p {
			x, y := i%512, i/512
			p[i] = byte((x/41+y/29)%5 + (x*x+y*y)/9000%3)
		}
	case "scene", "nodata above": // uint16 after predictor 2
		for i := 0; i+2 <= n; i += 2 {
			if v := r.Uint64(); kind == "scene" || i > n/3 {
				binary.LittleEndian.PutUint16(p[i:], uint16(v&15)+uint16(v>>4&15)-uint16(v>>8&31))
			}
		}
	case "floats": // planes of float32 after predictor 3
		for i := range p {
			switch v := r.Uint64(); i / 512 % 4 {
			case 0:
				p[i] = byte(v & 255 / 255)
			case 1:
				p[i] = byte(v&7) - byte(v>>3&7)
			default:
				p[i] = byte(v)
			}
		}
	case "nodata": // float32 of -9999, planes after predictor 3 in rows of 1024 bytes
		for i := 0; i < n; i += 256 {
			p[i] = "\xc6\x56\x20\xc4"[i/256%4]
		}
	case "values", "long values": // elements of four and eight bytes; many repeat
		size := 4
		if kind == "long values" {
			size = 8
		}
		var e [8]byte
		for i := 0; i < n; i += size {
			x := uint64(r.IntN(40)*r.IntN(40) + 1<<16)
			binary.LittleEndian.PutUint64(e[:], x*x*x*0x9e3779b1>>8)
			if size == 4 {
				binary.LittleEndian.PutUint32(e[:], uint32(x*x)*2654435761)
			}
			copy(p[i:min(i+size, n)], e[:])
		}
	case "rare bytes":
		for i := range p {
			if p[i] = 7; r.IntN(100) == 0 {
				p[i] = byte(r.Uint32())
			}
		}
	case "fibonacci": // words longer than the limit, if it were not for that
		a, b, v, left := 1, 1, byte(0), 1
		for i := range p {
			if left == 0 {
				a, b = b, a+b
				v, left = v+1, b
			}
			p[i] = v
			left--
		}
		r.Shuffle(n, func(i, j int) { p[i], p[j] = p[j], p[i] })
	}
	return p
}

// lengths are around all limits.
func lengths() []int {
	all := []int{512, 4095, 24576, 24577, 24590, blockSize, blockSize + 13, 131072 + 5}
	if !testing.Short() {
		all = append(all, blockSize-1, blockSize+1, 65536, 2*blockSize, segmentSize-1, segmentSize, segmentSize+1,
			segmentSize+30000)
	}
	return all
}

// check decodes a stream of data with compress/zlib and internal/inflate, and checks its size.
func check(t testing.TB, stream, data []byte) {
	t.Helper()
	if most := len(data) + len(data)/1000 + 64; len(stream) > most {
		t.Fatalf("%d bytes for %d, at most %d were promised", len(stream), len(data), most)
	}
	m := decoders.Get().(*decoding)
	defer decoders.Put(m)
	var err error
	if m.other == nil {
		m.other, err = zlib.NewReader(bytes.NewReader(stream))
	} else {
		err = m.other.(zlib.Resetter).Reset(bytes.NewReader(stream), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	// One byte more than data has, so that a longer stream is noticed.
	m.got = slices.Grow(m.got[:0], len(data)+1)[:len(data)+1]
	n, err := io.ReadFull(m.other, m.got)
	ended := err == io.ErrUnexpectedEOF || err == io.EOF && n == 0
	if !ended || !bytes.Equal(m.got[:n], data) {
		t.Fatalf("compress/zlib decodes %d bytes of %d: %v", n, len(data), err)
	}
	got := m.got[:len(data)]
	clear(got)
	if n, err := m.ours.Zlib(got, stream); err != nil || n != len(data) || !bytes.Equal(got, data) {
		t.Fatalf("internal/inflate decodes %d bytes of %d: %v", n, len(data), err)
	}
}

// decoding is what check uses again: new decoders took as long as decoding.
type decoding struct {
	other io.ReadCloser // compress/zlib
	ours  inflate.Decoder
	got   []byte
}

var decoders = sync.Pool{New: func() any { return new(decoding) }}

func TestDecodersReadStreams(t *testing.T) {
	encoders := make([]*Encoder, len(layouts))
	for i, o := range layouts {
		encoders[i] = NewEncoder(o)
	}
	step := 1
	if testing.Short() {
		step = 3
	}
	for _, kind := range kinds {
		short := made(kind, 300)
		for _, e := range encoders {
			for n := 0; n <= 300; n += step {
				check(t, e.AppendZlib(nil, short[:n]), short[:n])
			}
		}
		for _, n := range lengths() {
			data := made(kind, n)
			for _, e := range encoders {
				check(t, e.AppendZlib(nil, data), data)
			}
		}
	}
}

// TestOtherLibrariesReadStreams decodes with zlib and, where it is installed, libdeflate, which
// refuses incomplete codes that others accept.
func TestOtherLibrariesReadStreams(t *testing.T) {
	dir := t.TempDir()
	type stream struct{ Path, Sum string }
	var all []stream
	for i, o := range layouts {
		e := NewEncoder(o)
		for j, kind := range kinds {
			for _, n := range []int{0, 1, 5, 100, 258, 5000, 70000, 200000} {
				data := made(kind, n)
				path := fmt.Sprintf("%s/%d-%d-%d", dir, i, j, n)
				if err := os.WriteFile(path, e.AppendZlib(nil, data), 0o600); err != nil {
					t.Fatal(err)
				}
				sum := sha256.Sum256(data)
				all = append(all, stream{path, hex.EncodeToString(sum[:])})
			}
		}
	}
	var result struct {
		Libraries []string
		Wrong     []string
	}
	pytest.Run(t, []string{"zlib", "ctypes"}, `
import ctypes, hashlib, json, sys, zlib
decoders = {"zlib": zlib.decompress}
try:
    lib = ctypes.CDLL("libdeflate.so.0")
    lib.libdeflate_alloc_decompressor.restype = ctypes.c_void_p
    d = ctypes.c_void_p(lib.libdeflate_alloc_decompressor())
    size = ctypes.c_size_t()
    out = ctypes.create_string_buffer(1 << 20)
    long = ctypes.c_size_t
    def libdeflate(b):
        status = lib.libdeflate_zlib_decompress(d, b, long(len(b)), out, long(1 << 20), ctypes.byref(size))
        return out.raw[:size.value] if status == 0 else b"status %d" % status
    decoders["libdeflate"] = libdeflate
except OSError:
    pass
wrong = []
for s in json.load(sys.stdin):
    b = open(s["Path"], "rb").read()
    for name, decode in decoders.items():
        try:
            ok = hashlib.sha256(decode(b)).hexdigest() == s["Sum"]
        except zlib.error:
            ok = False
        if not ok:
            wrong.append(name + ": " + s["Path"])
print(json.dumps({"Libraries": list(decoders), "Wrong": wrong}))
`, all, &result)
	for _, w := range result.Wrong {
		t.Errorf("not decoded by %s", w)
	}
	t.Logf("%d streams decoded by %s", len(all), strings.Join(result.Libraries, " and "))
}

// reused holds an encoder per layout that has encoded other data.
func reused(o Options) *Encoder {
	e := NewEncoder(o)
	for _, kind := range kinds {
		e.AppendZlib(nil, made(kind, 50000))
	}
	return e
}

func TestReuseChangesNoStream(t *testing.T) {
	for _, o := range layouts {
		e := reused(o)
		for _, kind := range kinds {
			for _, n := range []int{0, 3, 90, 30000, 150000} {
				data := made(kind, n)
				fresh := NewEncoder(o).AppendZlib(nil, data)
				prefix := []byte("what stands before")
				again := e.AppendZlib(prefix[:len(prefix):len(prefix)], data)
				if !bytes.HasPrefix(again, prefix) || !bytes.Equal(again[len(prefix):], fresh) {
					t.Fatalf("%+v, %d bytes of %s: another stream from a used encoder", o, n, kind)
				}
			}
		}
	}
}

// TestEncoderMemory checks the size that the documentation of Encoder gives.
func TestEncoderMemory(t *testing.T) {
	e := NewEncoder(Options{Element: 4, Row: 1024})
	n := int(unsafe.Sizeof(*e)) + cap(e.tokens)*int(unsafe.Sizeof(e.tokens[0]))
	if most := 420 << 10; n > most {
		t.Errorf("an encoder has %d bytes, at most %d are expected", n, most)
	}
}

// TestStreamsNeverChange compares streams with recorded hashes.
func TestStreamsNeverChange(t *testing.T) {
	var got strings.Builder
	for i, o := range layouts {
		e := NewEncoder(o)
		for _, kind := range kinds {
			for _, n := range []int{0, 1, 77, 300, 20000, 140000} {
				stream := e.AppendZlib(nil, made(kind, n))
				sum := sha256.Sum256(stream)
				fmt.Fprintf(&got, "%d %s %d: %d %x\n", i, kind, n, len(stream), sum[:8])
			}
		}
	}
	const path = "testdata/streams.txt"
	if *updateGolden {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	a, b := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	if len(a) != len(b) {
		t.Fatalf("%d streams, %d are recorded", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("stream changed: %s, recorded %s", a[i], b[i])
		}
	}
}

// encodeBy encodes with one matcher, whatever the sample says.
func encodeBy(e *Encoder, find matcher, data []byte) []byte {
	e.cleared = 0
	w := bitWriter{out: []byte{0x78, 1}, at: 2}
	for at := 0; at < len(data); at += segmentSize {
		e.segment(&w, data, at, min(at+segmentSize, len(data)), find)
	}
	w.align()
	return binary.BigEndian.AppendUint32(w.out[:w.at], adler.Checksum(data))
}

// TestEachMatcher encodes with each matcher, whatever the sample says.
func TestEachMatcher(t *testing.T) {
	matchers := map[string]matcher{"runs": (*Encoder).runs,
		"sixBytes": (*Encoder).sixBytes, "fiveBytes": (*Encoder).fiveBytes,
		"pixels": (*Encoder).pixels, "sparse": (*Encoder).sparse, "elements": (*Encoder).elements,
		"pixelsInContext": (*Encoder).pixelsInContext, "elementsAfterWindow": (*Encoder).elementsAfterWindow}
	options := []Options{{Row: 1}, {Row: 2, Element: 2, Predictor: 2}, {Row: 700, Element: 4},
		{Row: 1400, Element: 2}, {Row: 4096, Element: 8}, {Row: window - 1}}
	encoders := make([]*Encoder, len(options))
	for i, o := range options {
		encoders[i] = NewEncoder(o)
	}
	for _, kind := range kinds {
		for _, n := range []int{1, 2, 12, 13, 14, 16, 17, 22, 31, 250, 30000, 140001} {
			if n > 30000 && testing.Short() {
				continue
			}
			data := made(kind, n)
			for name, m := range matchers {
				for i, o := range options {
					t.Run("", func(t *testing.T) { check(t, encodeBy(encoders[i], m, data), data) })
					if t.Failed() {
						t.Fatalf("%s, %+v, %d bytes of %s", name, o, n, kind)
					}
				}
			}
		}
	}
}

// TestElementsTakeLess compares with klauspost's level 6, which encoded elements of four bytes
// before.
func TestElementsTakeLess(t *testing.T) {
	data := made("values", 512*512*4)
	stream := NewEncoder(Options{Element: 4, Row: 2048, Predictor: 1}).AppendZlib(nil, data)
	check(t, stream, data)
	var out discard
	w, err := flate.NewWriter(&out, 6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if len(stream) > int(out) {
		t.Errorf("%d bytes, klauspost's encoder takes %d", len(stream), out)
	}
}

// TestBlocksTakeOnFewSymbols checks that a tile of nodata has one header, and encodes
// tiles that begin with nodata and end with noise.
func TestBlocksTakeOnFewSymbols(t *testing.T) {
	e := NewEncoder(Options{Element: 2, Row: 1024, Predictor: 2})
	zero := made("zero", 8*blockSize)
	stream := e.AppendZlib(nil, zero)
	check(t, stream, zero)
	if most := len(zero)/maxMatch*2/8 + 100; len(stream) > most {
		t.Errorf("%d bytes for equal pixels, at most %d are expected", len(stream), most)
	}
	for at := 0; at <= len(zero); at += blockSize/2 + 77 {
		data := append(append([]byte(nil), zero[:at]...), made("noise", len(zero)-at)...)
		check(t, e.AppendZlib(nil, data), data)
	}
}

// TestEveryMatch builds streams of one match of each length and of each distance.
func TestEveryMatch(t *testing.T) {
	e := NewEncoder(Options{})
	data := made("noise", window+600)
	encode := func(length, dist int) {
		copy(data[window+10:window+10+length], data[window+10-dist:])
		for i := range length {
			data[window+10+i] = data[window+10-dist+i]
		}
		src := data[:window+10+length]
		n := appendLiterals(e.tokens, 0, src, 0, window+10)
		e.tokens[n] = distToken(uint32(dist)) | (firstLength + uint32(length) - minMatch)
		w := bitWriter{out: []byte{0x78, 1}, at: 2}
		e.code.clear()
		e.code.count(e.tokens[:n+1], src, e.code.vectors)
		e.block(&w, src, 0, len(src), n+1, true)
		w.align()
		got := make([]byte, len(src))
		var d inflate.Decoder
		if k, err := d.Zlib(got, append(w.out[:w.at], 0, 0, 0, 0)); k != len(src) || !bytes.Equal(got, src) {
			t.Fatalf("length %d, distance %d: %d bytes, %v", length, dist, k, err)
		}
	}
	for length := minMatch; length <= maxMatch; length++ {
		encode(length, 1+length*101%window)
	}
	step := 1
	for dist := 1; dist <= window; dist += step {
		encode(3+dist%200, dist)
		if step = 1 + dist/64; !testing.Short() {
			step = 1 + dist/1024
		}
	}
	encode(9, window)
}

// TestNodataTakesLittle encodes a tile of 256 x 256 floats, all nodata, as after predictor 3. Runs
// alone take 1799 bytes, and klauspost's encoder takes 1448.
func TestNodataTakesLittle(t *testing.T) {
	e := NewEncoder(Options{Element: 4, Row: 1024, Predictor: 3})
	data := made("nodata", 256*1024)
	stream := e.AppendZlib(nil, data)
	check(t, stream, data)
	if len(stream) > 1448 {
		t.Errorf("%d bytes, at most 1448 are expected", len(stream))
	}
}

// TestWindowBeforeShortPiece enters a window before a few bytes that end the memory.
func TestWindowBeforeShortPiece(t *testing.T) {
	for _, m := range []matcher{(*Encoder).pixelsInContext, (*Encoder).elementsAfterWindow} {
		e := NewEncoder(Options{Element: 2, Row: 1024, Predictor: 2})
		for n := range 20 {
			src := made("scene", 100+n)
			if k := m(e, e.tokens, src[:len(src):len(src)], 100, len(src)); k > n {
				t.Errorf("%d elements for %d bytes", k, n)
			}
		}
	}
}

func TestHuffmanLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	var h huffman
	for round := range 3000 {
		n := 2 + r.IntN(litSymbols-1)
		counts := make([]uint32, n)
		for i := range counts {
			switch round % 4 {
			case 0:
				counts[i] = uint32(r.IntN(1 << 17))
			case 1:
				counts[i] = uint32(r.IntN(3))
			case 2:
				counts[i] = uint32(1) << min(r.IntN(21), i)
			case 3:
				counts[i] = uint32(math.Exp(r.Float64() * 14))
			}
		}
		limit := []int{litLimit, distLimit, 10, 9}[r.IntN(4)]
		lens := make([]uint8, n)
		h.lengths(lens, counts, limit)
		space, used := 0, 0
		for i, l := range lens {
			if int(l) > limit {
				t.Fatalf("a word of %d bits, at most %d are allowed", l, limit)
			}
			if l != 0 {
				space += 1 << (limit - int(l))
			}
			if counts[i] != 0 {
				if used++; l == 0 {
					t.Fatalf("symbol %d has no word", i)
				}
			}
			for j := range i {
				if counts[j] > counts[i] && counts[i] > 0 && lens[j] > l {
					t.Fatalf("the more frequent symbol %d has the longer word", j)
				}
			}
		}
		if space != 1<<limit {
			t.Fatalf("the code of %d symbols is not complete", used)
		}
		if limit == litLimit && used > 1 {
			best, bits := optimal(counts), 0
			for i, l := range lens {
				bits += int(l) * int(counts[i])
			}
			if bits < best || float64(bits) > 1.02*float64(best) {
				t.Fatalf("%d bits, without a limit %d", bits, best)
			}
		}
	}
}

// optimal returns the number of bits by the best code without a limit, slowly.
func optimal(counts []uint32) int {
	var nodes []int
	for _, c := range counts {
		if c != 0 {
			nodes = append(nodes, int(c))
		}
	}
	bits := 0
	for len(nodes) > 1 {
		for k := range 2 { // the two lightest to the end
			end := len(nodes) - 1 - k
			least := 0
			for i, v := range nodes[:end+1] {
				if v < nodes[least] {
					least = i
				}
			}
			nodes[least], nodes[end] = nodes[end], nodes[least]
		}
		sum := nodes[len(nodes)-1] + nodes[len(nodes)-2]
		bits += sum
		nodes = append(nodes[:len(nodes)-2], sum)
	}
	return bits
}

// FuzzAppendZlib checks the round trip, the bound, and that a used encoder gives the same stream,
// with vectors of literals or without.
func FuzzAppendZlib(f *testing.F) {
	for i, kind := range kinds {
		f.Add(made(kind, 400), uint8(i), uint16(i*37), uint32(i))
	}
	used := make([]*Encoder, len(layouts))
	for i, o := range layouts {
		used[i] = reused(o)
	}
	f.Fuzz(func(t *testing.T, seed []byte, layout uint8, repeat uint16, noise uint32) {
		// The seed is repeated with some bytes changed, so that inputs reach more than one block.
		data := append([]byte(nil), seed...)
		r := rand.New(rand.NewPCG(uint64(noise), 1))
		for range repeat % 300 {
			if len(data) == 0 || len(data) > 3*blockSize {
				break
			}
			n := len(data)
			from := r.IntN(n)
			data = append(data, data[from:min(n, from+1+r.IntN(3000))]...)
			for range noise % 7 {
				data[r.IntN(len(data))] ^= byte(r.Uint32())
			}
		}
		i := int(layout) % len(layouts)
		stream := NewEncoder(layouts[i]).AppendZlib(nil, data)
		check(t, stream, data)
		used[i].code.vectors = vectors(noise % uint32(fastest+1))
		if again := used[i].AppendZlib(nil, data); !bytes.Equal(again, stream) {
			t.Fatal("another stream from a used encoder")
		}
	})
}

// TestEqualElementsTakeLittle encodes tiles of one value: samples must recognize them although the
// header of a block takes most of the stream, and long matches take one token in 258 bytes.
func TestEqualElementsTakeLittle(t *testing.T) {
	for _, c := range []struct {
		o          Options
		side, most int
		planes     bool
	}{
		{Options{Element: 4, Row: 192, Predictor: 3}, 48, 71, true},
		{Options{Element: 4, Row: 192, Predictor: 1}, 48, 40, false},
		{Options{Element: 4, Row: 1024, Predictor: 1}, 256, 300, false},
		{Options{Element: 8, Row: 2048, Predictor: 1}, 256, 820, false},
	} {
		data := make([]byte, c.side*c.o.Row)
		for i := range data {
			data[i] = "\xc6\x1c\x3c\x00\x01\x02\x03\x04"[i%c.o.Element]
		}
		if c.planes { // bytes of one significance together, as differences
			clear(data)
			for i := 0; i < len(data); i += c.side {
				data[i] = "\xc6\x56\x20\xc4"[i/c.side%4]
			}
		}
		stream := NewEncoder(c.o).AppendZlib(nil, data)
		check(t, stream, data)
		if len(stream) > c.most {
			t.Errorf("%+v: %d bytes, at most %d are expected", c.o, len(stream), c.most)
		}
	}
}

// TestValuesAfterNoiseTakeLittle encodes a tile in which elements repeat in one part only: the
// noise in the sample must not hide what the matcher of elements saves.
func TestValuesAfterNoiseTakeLittle(t *testing.T) {
	const half = 128 << 10
	r := rand.New(rand.NewPCG(2, 9))
	data := made("noise", half)
	values := made("noise", 32<<10)
	for range half / 8 { // four elements that stand together elsewhere too
		at := r.IntN(len(values)/8) * 8
		data = append(data, values[at:at+8]...)
	}
	for _, flip := range []bool{false, true} {
		if flip {
			data = append(data[half:], data[:half]...)
		}
		e := NewEncoder(Options{Element: 2, Row: 1024, Predictor: 1})
		stream := e.AppendZlib(nil, data)
		check(t, stream, data)
		if most := encodeBy(e, (*Encoder).elements, data); len(stream) > len(most) {
			t.Errorf("%d bytes, the matcher of elements takes %d", len(stream), len(most))
		}
	}
}

// TestEstimates compares estimated sizes with those of the codes.
func TestEstimates(t *testing.T) {
	for _, kind := range kinds {
		e := NewEncoder(Options{Element: 1, Row: 512})
		data := made(kind, blockSize)
		n := e.elements(e.tokens, data, 0, len(data))
		estimated := e.code.of(e.tokens[:n], data, e.code.vectors)
		body, head := e.code.build()
		if d := body + head - estimated; d < -body/20-600 || d > body/20+600 {
			t.Errorf("%s: %d bits, %d are estimated", kind, body+head, estimated)
		}
	}
}

// TestMasksAreEncodedAsRuns encodes a mask of 8 bits whose areas have smooth edges. Elements repeat
// so often in it that they were once chosen without a comparison, but runs take less space.
func TestMasksAreEncodedAsRuns(t *testing.T) {
	const side, cell = 256, 16
	r := rand.New(rand.NewPCG(3, 1))
	var nodes [side/cell + 2][side/cell + 2]int
	for y := range nodes {
		for x := range nodes[y] {
			nodes[y][x] = r.IntN(1000)
		}
	}
	data := make([]byte, side*side)
	for i := range data { // between four nodes, weighted by distance
		x, y := i%side, i/side
		a, b := nodes[y/cell], nodes[y/cell+1]
		k, u, v := x/cell, x%cell, y%cell
		if (a[k]*(cell-u)+a[k+1]*u)*(cell-v)+(b[k]*(cell-u)+b[k+1]*u)*v > 550*cell*cell {
			data[i] = 255
		}
	}
	e := NewEncoder(Options{Element: 1, Row: side, Predictor: 1})
	s := e.newSample(data, 0, len(data))
	body, _ := s.size((*Encoder).runs)
	if body < s.raw/empty || body >= s.raw/mixed {
		t.Fatalf("runs shrink the mask to %d of %d bits: not between 1/%d and 1/%d", body, s.raw, empty, mixed)
	}
	runs, elements := encodeBy(e, (*Encoder).runs, data), encodeBy(e, (*Encoder).elements, data)
	stream := e.AppendZlib(nil, data)
	check(t, stream, data)
	if len(stream) != len(runs) || len(runs) >= len(elements) {
		t.Errorf("%d bytes, runs take %d, elements %d", len(stream), len(runs), len(elements))
	}
}

// TestHeightsAreNoLarger compares smooth 16-bit heights of several units with klauspost's encoder.
func TestHeightsAreNoLarger(t *testing.T) {
	for _, perMetre := range []float64{0.5, 1, 2, 4, 10} {
		for _, noise := range []float64{0.01, 0.3} {
			r := rand.New(rand.NewPCG(7, 9))
			noLarger(t, fmt.Sprintf("%v units a metre, noise of %v m", perMetre, noise), func(col, row int) uint16 {
				x, y := float64(col), float64(row)
				h := 800 + 300*math.Sin(x/211)*math.Cos(y/167) + 20*math.Sin(x/23+y/31) +
					3*math.Sin(x/5)*math.Sin(y/7) + r.NormFloat64()*noise
				return uint16(math.Round(h * perMetre))
			})
		}
	}
}

// TestAreasAreNoLarger compares 16-bit maps of areas with klauspost's encoder: a number for each
// area, and the day of a year.
func TestAreasAreNoLarger(t *testing.T) {
	const side = 512
	r := rand.New(rand.NewPCG(5, 5))
	areas := make([]uint16, side*side)
	for range 4000 {
		col, row, width, height, number := r.IntN(side), r.IntN(side), 3+r.IntN(30), 3+r.IntN(30), uint16(r.Uint32())
		for y := row; y < min(side, row+height); y++ {
			for x := col; x < min(side, col+width); x++ {
				areas[y*side+x] = number
			}
		}
	}
	noLarger(t, "areas", func(x, y int) uint16 { return areas[y*side+x] })
	noLarger(t, "days", func(x, y int) uint16 { return areas[y/3*side+x/3] % 366 })
}

// noLarger encodes the differences of a tile of 16 bits, and fails the test if klauspost's encoder
// needs fewer bytes for them.
func noLarger(t *testing.T, name string, pixel func(x, y int) uint16) {
	t.Helper()
	const side = 256
	var data []byte
	for y := range side {
		before := uint16(0)
		for x := range side {
			v := pixel(x, y)
			data = binary.LittleEndian.AppendUint16(data, v-before)
			before = v
		}
	}
	stream := NewEncoder(Options{Element: 2, Row: 2 * side, Predictor: 2}).AppendZlib(nil, data)
	check(t, stream, data)
	var other bytes.Buffer
	w, err := flate.NewWriter(&other, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const wrapper = 6 // of zlib: a header and a checksum
	if most := other.Len() + wrapper; len(stream) > most {
		t.Errorf("%s: %d bytes, expected at most %d", name, len(stream), most)
	}
}
