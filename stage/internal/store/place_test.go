package store

import (
	"math"
	"testing"
)

func TestCharge(t *testing.T) {
	for size, want := range map[int64]int64{0: 4096, 1: 4096, 4096: 4096, 4097: 8192, 1 << 20: 1 << 20,
		100 << 10: 25 * 4096} {
		if got := Charge(size); got != want {
			t.Errorf("%d bytes take %d, not %d", size, got, want)
		}
	}
}

func TestParseNames(t *testing.T) {
	for _, id := range []uint64{1, 0xab, 0x0123456789abcdef, math.MaxUint64} {
		for _, ext := range []string{"", ".tif", ".x_y-z.1"} {
			e, err := parseExt(ext)
			if err != nil {
				t.Error(err)
			}
			p := Place{ID: id, Offset: File, Ext: e}
			name := p.name()
			if got, ok := parseFile(name[:2], name[3:]); got != id || !ok {
				t.Errorf("%s is of %x, not %x", name, got, id)
			}
		}
		p := Place{ID: id, Offset: 4096}
		if got, ok := parseSegment(p.name()); got != id || !ok {
			t.Errorf("%s is of %x, not %x", p.name(), got, id)
		}
	}
	for _, name := range []string{"", "0000000000000000", "000000000000000g", "00000000000000AB", "00000000000000001",
		".leat"} {
		if id, ok := parseSegment(name); ok {
			t.Errorf("%q is taken for %d", name, id)
		}
	}
	for _, name := range []string{"00000000000000ac", "00000000000000ab.", "00000000000000ab.a/b", "00000000000000abc",
		"ab"} {
		if id, ok := parseFile("ab", name); ok {
			t.Errorf("%q is taken for %d", name, id)
		}
	}
}

func TestExt(t *testing.T) {
	for name, want := range map[string]string{
		"a/b/scene.tif": ".tif", "x.tar.gz": ".gz", "no": "", "dir.d/no": "", ".hidden": "", "end.": "", "a.b c": "",
		"a.\x00": "", "a.ü": "",
		"a.fourteenletter1": ".fourteenletter1", "a.fourteenletter12": "", "": "", "/": "", "a.SAFE": ".SAFE",
	} {
		if got := Ext(name); got != want {
			t.Errorf("%q ends with %q, not %q", name, got, want)
		}
	}
}

func TestInvalidPlaces(t *testing.T) {
	bad := [16]byte{'/', '.', '.'}
	inside := [16]byte{'.', 'a', 0, 'b'}
	for _, p := range []Place{{}, {ID: 1, Offset: 1}, {ID: 1, Offset: -2}, {ID: 1, Offset: SegmentSize},
		{ID: 1, Offset: math.MinInt64}, {ID: 1, Offset: File, Ext: bad}, {ID: 1, Offset: File, Ext: inside}} {
		if p.Check() == nil {
			t.Errorf("%+v", p)
		}
	}
}
