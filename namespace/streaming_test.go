package namespace

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packLocals is the layout once more, for the table and the fuzzer; the truth for it is written by
// Python in another test.
func packLocals(text string, padding int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(4+len(text)))
	return append(append(b, text...), make([]byte, padding)...)
}

func TestUnpackStreamingRecords(t *testing.T) {
	for name, c := range map[string]struct {
		data   []byte
		number int
		dirs   []string
		want   string
	}{
		"two directories":          {packLocals("/a\x00b c\x0012", 0), 12, []string{"/a", "b c"}, ""},
		"padded to a page":         {packLocals("/größe\x000", 4000), 0, []string{"/größe"}, ""},
		"no directory":             {packLocals("7", 0), 7, []string{}, ""},
		"released":                 {make([]byte, 4096), 0, nil, "released"},
		"empty":                    {nil, 0, nil, "expected at least 4"},
		"torn in the size":         {[]byte{9, 0, 0}, 0, nil, "expected at least 4"},
		"torn in the text":         {packLocals("/abcdef\x0012", 0)[:9], 0, nil, "but is 9"},
		"a size of itself only":    {[]byte{4, 0, 0, 0}, 0, nil, "given as 4 bytes"},
		"a negative size":          {[]byte{0xff, 0xff, 0xff, 0xff, 'x'}, 0, nil, "-1 bytes"},
		"a huge size":              {[]byte{0, 0, 0, 0x7f}, 0, nil, "2130706432 bytes"},
		"bytes that are not text":  {packLocals("/a\xff\x0012", 0), 0, nil, "not UTF-8"},
		"no number":                {packLocals("/a\x00", 0), 0, nil, "expected a number"},
		"a number with a sign":     {packLocals("/a\x00-1", 0), 0, nil, "expected a number"},
		"a number with zeros":      {packLocals("/a\x00012", 0), 0, nil, "expected a number"},
		"a number of many digits":  {packLocals("/a\x00"+strings.Repeat("9", 99), 0), 0, nil, "expected a number"},
		"padding inside the size":  {packLocals("/a\x0012\x00\x00", 0), 0, nil, "expected a number"},
		"directory after a number": {packLocals("12\x00/a", 0), 0, nil, "expected a number"},
	} {
		number, dirs, err := unpackLocals(c.data, int64(len(c.data)))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, expected %q in it", name, err, c.want)
			}
			continue
		}
		if err != nil || number != c.number || !cmp.Equal(dirs, c.dirs) {
			t.Errorf("%s: %d %q %v", name, number, dirs, err)
		}
	}
	if _, _, err := unpackLocals(make([]byte, 4), 4); !errors.Is(err, errReleased) {
		t.Errorf("%v is not errReleased", err)
	}
}

func TestParseStreamingName(t *testing.T) {
	for name, want := range map[string]int{"000000_locals": 0, "000123_locals": 123, "1234567_locals": 1234567} {
		if n, ok := parseStreamingName(name); !ok || n != want || streamingName(n) != name {
			t.Errorf("%s: %d %v", name, n, ok)
		}
	}
	for _, name := range []string{"", "_locals", "00012_locals", "0000123_locals", "+00123_locals", "-00123_locals",
		"000123_barrier", "000123_locals.lock", "00012x_locals", "1234567890123_locals"} {
		if n, ok := parseStreamingName(name); ok {
			t.Errorf("%s: %d", name, n)
		}
	}
}

func TestMapsFile(t *testing.T) {
	id := dirID{Ino: 77}
	const device, path = "00:17", "/dev/shm/000012_locals"
	for line, want := range map[string]bool{
		"7f00-7f10 rw-s 00000000 00:17 77                         /dev/shm/000012_locals":           true,
		"7f00-7f10 rw-s 00000000 00:17 77                         /dev/shm/000012_locals (deleted)": true,
		"7f00-7f10 rw-s 00000000 00:17 77":                                                true,
		"7f00-7f10 rw-s 00000000 00:99 77                         /dev/shm/000012_locals": true,
		"7f00-7f10 rw-s 00000000 00:99 77                         /other":                 false,
		"7f00-7f10 rw-s 00000000 00:17 78                         /dev/shm/000012_locals": false,
		"7f00-7f10 rw-p 00000000 00:00 0 ":                                                false,
		"00:17 77":                                                                        false,
		"":                                                                                false,
		"7f00 rw-s 0 00:17 seventy-seven x":                                               false,
	} {
		if got := mapsFile(line, id, device, path); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func FuzzUnpackLocals(f *testing.F) {
	f.Add(packLocals("/a\x00b c\x0012", 20), int64(40))
	f.Add([]byte{0, 0, 0, 0}, int64(4096))
	f.Add(packLocals("\x00\x000", 0), int64(7))
	f.Fuzz(func(t *testing.T, data []byte, length int64) {
		number, dirs, err := unpackLocals(data, length)
		if err != nil {
			return
		}
		again := packLocals(strings.Join(append(dirs, strconv.Itoa(number)), "\x00"), 0)
		if !strings.HasPrefix(string(data), string(again)) {
			t.Fatalf("%q was read as %d %q", data, number, dirs)
		}
	})
}

func FuzzMapsFile(f *testing.F) {
	f.Add("7f00-7f10 rw-s 00000000 00:17 77                         /dev/shm/000012_locals", "/dev/shm/000012_locals")
	f.Add("a b c d 77", "")
	f.Fuzz(func(t *testing.T, line, path string) {
		if mapsFile(line, dirID{Ino: 77}, "00:17", path) && !strings.Contains(line, "77") {
			t.Fatalf("%q", line)
		}
	})
}
