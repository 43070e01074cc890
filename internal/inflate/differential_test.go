package inflate

import (
	"bytes"
	stdflate "compress/flate"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/flate"

	"leat/internal/guardtest"
)

// standard decodes with the standard library, the independent reference.
func standard(src []byte, most int) (out []byte, err error) {
	r, err := zlib.NewReader(bytes.NewReader(src))
	if err != nil {
		return nil, err
	}
	out, err = io.ReadAll(io.LimitReader(r, int64(most)+1))
	return out, err
}

// Streams and targets of the comparisons.
var sources, targets = guardtest.New(4 << 20), guardtest.New(4 << 20)

// together takes all blocks of two streams, or none, as mixed.
var together = [...]Pair{
	{Decoder{always: true}, Decoder{always: true}},
	{Decoder{never: true}, Decoder{never: true}},
}

// agree decodes src into space bytes, by the loops in assembly and by the one in Go, from and to
// memory that begins or ends at what can't be accessed, and compares with the standard library.
func agree(t testing.TB, d *Decoder, src []byte, space int) {
	t.Helper()
	want, wantErr := standard(src, space)
	n, got, err := agreeWith(t, d, src, space, want, wantErr)
	if !hasAVX2 {
		return
	}
	from, otherFrom := sources.First(len(src)), otherSources.Last(len(src))
	copy(from, src)
	copy(otherFrom, src)
	to, otherTo := targets.First(space), otherTargets.Last(space)
	for i := range together {
		clear(to)
		clear(otherTo)
		nA, errA, nB, errB := together[i].Both(to, from, otherTo, otherFrom)
		if nA != n || nB != n || errA != err || errB != err ||
			!bytes.Equal(to[:n], got) || !bytes.Equal(otherTo[:n], got) {
			t.Fatalf("%d bytes, %v; twice at once %d bytes, %v and %d bytes, %v", n, err, nA, errA, nB, errB)
		}
	}
	d.portable = true
	n2, got2, err2 := agreeWith(t, d, src, space, want, wantErr)
	d.portable = false
	if n != n2 || err != err2 || !bytes.Equal(got, got2) {
		t.Fatalf("assembly: %d bytes, %v; Go: %d bytes, %v", n, err, n2, err2)
	}
}

// agreeWith decodes with one loop, at both ends of memory.
func agreeWith(t testing.TB, d *Decoder, src []byte, space int, want []byte, wantErr error) (int, []byte, error) {
	t.Helper()
	from := sources.First(len(src))
	copy(from, src)
	around := targets.First(space + 64)
	n, err := decode(t, d, around[:space:space], around[space:], from, want, wantErr)
	got := bytes.Clone(around[:n])
	from = sources.Last(len(src))
	copy(from, src)
	around = targets.Last(space + 64)
	dst := around[64:]
	n2, err2 := decode(t, d, dst, around[:64], from, want, wantErr)
	if n2 != n || err2 != err || !bytes.Equal(dst[:n], got) {
		t.Fatalf("%d bytes, %v; elsewhere %d bytes, %v", n, err, n2, err2)
	}
	return n, got, err
}

// decode decodes src and compares with what the standard library finds. The bytes outside of dst
// must stay as they are.
func decode(t testing.TB, d *Decoder, dst, outside, src, want []byte, wantErr error) (int, error) {
	t.Helper()
	space := len(dst)
	for i := range dst {
		dst[i] = 0xa5
	}
	for i := range outside {
		outside[i] = 0xa5
	}
	n, err := d.Zlib(dst, src)
	if bytes.Count(outside, []byte{0xa5}) < len(outside) {
		t.Fatal("bytes outside of the target were written")
	}
	if k := min(n, len(want)); !bytes.Equal(dst[:k], want[:k]) || err == ErrLong && n < space {
		t.Fatalf("%d bytes and error %v, other bytes than the standard library's %d", n, err, len(want))
	}
	switch {
	case len(want) > space:
		// The standard library may find a fault only behind what fits.
		if err == nil {
			t.Fatalf("%d bytes decoded, the standard library finds more than %d", n, space)
		}
	case wantErr == nil:
		if err != nil || !bytes.Equal(dst[:n], want) {
			t.Fatalf("%d bytes and error %v, the standard library gives %d", n, err, len(want))
		}
	case err == nil:
		t.Fatalf("%d bytes decoded, the standard library refuses them: %v", n, wantErr)
	}
	return n, err
}

// samples are data of many kinds.
func samples(r *rand.Rand) [][]byte {
	var all [][]byte
	for _, n := range []int{0, 1, 2, 3, 7, 100, 257, 258, 259, 1000, 5000, 40000, 70000} {
		noise, few, runs, ramp, skew := make([]byte, n), make([]byte, n), make([]byte, n), make([]byte, n),
			make([]byte, n)
		v, left := byte(0), 0
		for i := range n {
			noise[i] = byte(r.Uint32())
			few[i] = "abcd"[r.IntN(4)]
			if left == 0 {
				v, left = byte(r.Uint32()), 1+r.IntN(1+r.IntN(900))
			}
			runs[i] = v
			left--
			ramp[i] = byte(i / 3)
			skew[i] = byte(min(r.ExpFloat64()*9, 255))
		}
		distant := bytes.Clone(noise) // repeats at every distance
		for i := 300; i+300 < n; i += 300 + r.IntN(200) {
			from := max(0, i-1-r.IntN(min(i, 32768)))
			copy(distant[i:i+r.IntN(290)], distant[from:])
		}
		all = append(all, noise, few, runs, ramp, skew, distant)
	}
	return all
}

func deflated(t testing.TB, data []byte, level int) []byte {
	var b bytes.Buffer
	w, err := zlib.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// framed puts header and sum around a raw stream of data.
func framed(raw, data []byte) []byte {
	return binary.BigEndian.AppendUint32(append([]byte{0x78, 0x9c}, raw...), adler32.Checksum(data))
}

func TestDecodesLikeStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var d Decoder
	streams := 0
	for _, data := range samples(r) {
		if len(data) > 5000 && testing.Short() {
			continue
		}
		for _, level := range []int{-2, -1, 0, 1, 6, 9} {
			for _, tail := range []string{"", "what follows the stream"} {
				src := append(deflated(t, data, level), tail...)
				n := len(data)
				for _, space := range []int{n, n + 1, n + 300, n - 1, n / 2, 0} {
					if space >= 0 {
						agree(t, &d, src, space)
						streams++
					}
				}
			}
		}
		for _, level := range []int{-2, 1, 2, 3, 5, 7, 9} {
			var b bytes.Buffer
			w, err := flate.NewWriter(&b, level)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write(data); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			agree(t, &d, framed(b.Bytes(), data), len(data))
			streams++
		}
	}
	t.Logf("%d streams", streams)
}

func TestRefusesDamagedStreamsLikeStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var d Decoder
	for _, data := range samples(r) {
		if len(data) > 1000 && testing.Short() {
			continue
		}
		for _, level := range []int{0, 1, 9} {
			src := deflated(t, data, level)
			step := 1 + len(src)/50
			for n := 0; n < len(src); n += step {
				agree(t, &d, src[:n], len(data))
				flipped := bytes.Clone(src)
				flipped[n] ^= 1 << r.IntN(8)
				agree(t, &d, flipped, len(data))
				agree(t, &d, flipped, len(data)+400)
			}
		}
	}
}

// TestStreamsCutAnywhere cuts streams at every byte, which both loops must refuse alike.
func TestStreamsCutAnywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var d Decoder
	for i, data := range samples(r) {
		if len(data) != 1000 && (len(data) != 5000 || testing.Short()) {
			continue
		}
		src := deflated(t, data, []int{1, 9, -2}[i%3])
		for n := range src {
			agree(t, &d, src[:n], len(data)+400*(n%2))
		}
	}
}

// TestLongBlocks decodes blocks longer than fastAVX2 decodes at once.
func TestLongBlocks(t *testing.T) {
	data := make([]byte, 5*stretch/2)
	for i := range data {
		data[i] = byte(i >> 16)
	}
	var d Decoder
	for _, space := range []int{len(data), len(data) - 1, len(data) + 1000, stretch + 100} {
		agree(t, &d, deflated(t, data, 9), space)
	}
}

func TestHandmadeStreamsLikeStandardLibrary(t *testing.T) {
	var d Decoder
	r := rand.New(rand.NewPCG(5, 6))
	// Random headers of dynamic blocks: incomplete, over-subscribed, with one distance, and now and
	// then sound ones.
	for range 60000 {
		raw := make([]byte, 10+r.IntN(60))
		for i := range raw {
			raw[i] = byte(r.Uint32())
		}
		raw[0] = raw[0]&^7 | []byte{4, 5, 2, 3, 0, 1}[r.IntN(6)]
		agree(t, &d, append([]byte{0x78, 0x9c}, raw...), r.IntN(700))
	}
	for _, c := range []struct {
		name string
		src  []byte
		want error
	}{
		{"nothing", nil, ErrHeader},
		{"another method", []byte{0x79, 0x9b}, ErrHeader},
		{"a dictionary", []byte{0x78, 0xbb, 0, 0, 0, 1}, ErrHeader},
		{"a block of no kind", []byte{0x78, 0x9c, 7, 0, 0, 0, 0}, ErrDamaged},
		{"a stored block whose length is not confirmed", []byte{0x78, 0x9c, 1, 5, 0, 0, 0, 1, 2, 3, 4, 5}, ErrDamaged},
		{"another sum", []byte{0x78, 0x9c, 1, 1, 0, 0xfe, 0xff, 7, 0, 0, 0, 0}, ErrChecksum},
	} {
		if _, err := d.Zlib(make([]byte, 100), c.src); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, not %v", c.name, err, c.want)
		}
	}
}

func FuzzZlib(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	for i, data := range samples(r) {
		if len(data) <= 5000 {
			src := deflated(f, data, []int{-2, 0, 1, 9}[i%4])
			f.Add(src, len(data))
			f.Add(src[2:], len(data))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, space int) {
		if space < 0 || space > 1<<17 || len(src) > 1<<20 {
			return
		}
		var d Decoder
		agree(t, &d, src, space)
		// As a raw stream it needs no sum to be right, and gets one.
		source := bytes.NewReader(src)
		out, err := io.ReadAll(io.LimitReader(stdflate.NewReader(source), 1<<17+1))
		if err == nil && len(out) <= 1<<17 {
			src = framed(src[:len(src)-source.Len()], out)
		} else {
			src = append([]byte{0x78, 0x9c}, src...)
		}
		agree(t, &d, src, space)
		agree(t, &d, src, min(len(out), 1<<17))
	})
}
