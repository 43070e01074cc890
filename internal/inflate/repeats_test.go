package inflate

import (
	"errors"
	"testing"
)

// TestRepeatedMatches has several matches of 258 bytes with the same bits, and targets that end in
// and after the last ones.
func TestRepeatedMatches(t *testing.T) {
	var d Decoder
	for back, dist := range map[int]code{
		1: single, 2: flat(2), 3: flat(30), 8: flat(30), 15: flat(30), 16: flat(30), 31: flat(30), 32: flat(30),
		33: flat(30), 64: flat(30), 100: flat(16), 127: flat(30), 128: flat(30), 129: flat(30), 1024: flat(21),
		2048: flat(30), 32000: flat(30),
	} {
		start := make([]byte, back)
		for i := range start {
			start[i] = byte(i*i + i>>8 + 1)
		}
		// Words of one bit for the matches, or of several.
		for _, bits := range []int{1, 2, 7} {
			lens := make([]int, 286)
			for i := range bits {
				lens[i] = i + 1
			}
			lens[endOfBlock], lens[285], lens[bits-1] = bits+1, bits, bits+1
			lit := makeCode(lens...)
			for times := 1; times <= 70; times++ {
				if times > 8 && times%(1+bits) != 0 || testing.Short() && times%11 > 2 {
					continue
				}
				var w writer
				w.stored(0, start)
				w.dynamic(1, lit, dist)
				for i := range times {
					w.match(lit, dist, 258, back)
					if i == times/2 {
						w.literal(lit, byte(bits-1))
					}
				}
				w.literal(lit, byte(bits-1))
				w.word(lit, endOfBlock)
				src := append(framed(w.raw, w.data), make([]byte, 2*inSpace)...)
				for _, space := range []int{len(w.data), len(w.data) - 1, len(w.data) - 96, len(w.data) - 258,
					len(w.data) + 31, len(w.data) + 127, len(w.data) + 290, len(w.data) + 400} {
					for _, portable := range []bool{false, true} {
						d.portable = portable
						agreeWith(t, &d, src, max(space, 0), w.data[:min(len(w.data), max(space, 0)+1)], nil)
					}
				}
				d.portable = false
			}
		}
	}
}

// TestRepeatedMatchesBeforeTheStart has matches whose distance reaches before the target.
func TestRepeatedMatchesBeforeTheStart(t *testing.T) {
	lens := make([]int, 286)
	lens[0], lens[endOfBlock], lens[285] = 2, 2, 1
	lit, dist := makeCode(lens...), flat(2)
	var d Decoder
	var w writer
	w.dynamic(1, lit, dist)
	w.literal(lit, 0)
	for range 40 {
		w.match(lit, dist, 258, 2)
	}
	w.word(lit, endOfBlock)
	src := framed(w.raw, w.data)
	for _, portable := range []bool{false, true} {
		d.portable = portable
		if n, err := d.Zlib(make([]byte, len(w.data)+900), src); n != 1 || !errors.Is(err, ErrDamaged) {
			t.Errorf("%d bytes, %v; expected 1 and ErrDamaged", n, err)
		}
	}
}
