package shm

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"leat/internal/npy"
	"leat/ndarray"
)

// handles draws handles that pass their check.
func handles() *rapid.Generator[handle] {
	return rapid.Custom(func(t *rapid.T) handle {
		h := handle{view: views(4).Draw(t, "view")}
		lo, _, _ := h.view.bounds()
		h.view.offset += max(-lo, 0)
		_, hi, err := h.view.bounds()
		if err != nil {
			t.Fatal(err)
		}
		h.size = hi + rapid.Int64Range(0, 1<<40).Draw(t, "more")
		copy(h.boot[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "boot"))
		copy(h.id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		switch h.kind = rapid.SampledFrom([]string{kindMemfd, kindFile, kindUser}).Draw(t, "kind"); h.kind {
		case kindMemfd:
			h.pid, h.fd = rapid.IntRange(1, math.MaxInt32).Draw(t, "pid"),
				rapid.IntRange(0, math.MaxInt32).Draw(t, "fd")
			h.base = rapid.Int64Range(0, math.MaxInt64-h.size).Draw(t, "base")
		case kindFile:
			h.root = rapid.SampledFrom([]string{"run", "tmp"}).Draw(t, "root")
		case kindUser:
			h.path = rapid.Custom(func(t *rapid.T) string {
				part := rapid.Custom(func(t *rapid.T) string {
					return rapid.OneOf(rapid.StringMatching(`[^/\x00]{1,5}`),
						rapid.StringMatching(`[a-z%@:. ]{0,5}x`)).Draw(t, "text")
				}).Filter(func(s string) bool { return s != "." && s != ".." })
				return "/" + strings.Join(rapid.SliceOfN(part, 0, 4).Draw(t, "parts"), "/")
			}).Draw(t, "path")
			h.dev, h.ino, h.mtime = rapid.Uint64().Draw(t, "dev"), rapid.Uint64().Draw(t, "ino"),
				rapid.Int64().Draw(t, "mtime")
		}
		return h
	})
}

func sameHandle(a, b handle) bool {
	if !a.view.elem.Equal(b.view.elem) || fmt.Sprint(a.view.shape, a.view.strides) != fmt.Sprint(b.view.shape,
		b.view.strides) {
		return false
	}
	a.view = view{offset: a.view.offset}
	b.view = view{offset: b.view.offset}
	return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
}

func TestHandleRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := handles().Draw(t, "handle")
		text := h.text()
		head, _, _ := strings.Cut(string(text), h.view.elem.Descr())
		if strings.ContainsAny(head, " \t\r\n'\"") {
			t.Fatalf("blanks in %q", text)
		}
		back, err := parseHandle(text)
		if err != nil {
			t.Fatal(err)
		}
		if !sameHandle(h, back) {
			t.Fatalf("%v came back as %v", h, back)
		}
		if again := back.text(); again != text {
			t.Fatalf("%q became %q", text, again)
		}
	})
}

const (
	zeros     = "00000000000000000000000000000000"
	someID    = "00112233445566778899aabbccddeeff"
	someMemfd = "leat-shm1:memfd:" + zeros + ":12/3/4096:" + someID + ":1000:100:2,3:-12,4:'<f4'"
	someFile  = "leat-shm1:file:" + zeros + ":run:" + someID + ":1000:100:-:-:[('a:b', '<f4'), ('', '|V4')]"
	someUser  = "leat-shm1:user:" + zeros + ":/data/a%20%C3%A9.npy@64769/12/-5:" + zeros + ":1000:100:0:4:'|b1'"
)

func TestHandleText(t *testing.T) {
	h, err := parseHandle(someMemfd)
	if err != nil {
		t.Fatal(err)
	}
	want := handle{kind: kindMemfd, id: [16]byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
		0xcc, 0xdd, 0xee, 0xff},
		size: 1000, pid: 12, fd: 3, base: 4096,
		view: view{npy.ElemOfDType(ndarray.Float32), 100, []int{2, 3}, []int{-12, 4}}}
	if !sameHandle(want, h) {
		t.Errorf("%q is %+v", someMemfd, h)
	}
	h, err = parseHandle(someFile)
	if err != nil || h.kind != kindFile || h.root != "run" || h.view.shape != nil || h.view.elem.Fields()[0].Name != "a:b" {
		t.Errorf("%q is %+v, %v", someFile, h, err)
	}
	h, err = parseHandle(someUser)
	if err != nil || h.path != "/data/a é.npy" || h.dev != 64769 || h.ino != 12 || h.mtime != -5 {
		t.Errorf("%q is %+v, %v", someUser, h, err)
	}
	for _, s := range []Handle{someMemfd, someFile, someUser} {
		if isInline(s) {
			t.Errorf("%q is inline", s)
		}
	}
}

func TestInvalidHandles(t *testing.T) {
	memfd := func(old, with string) string {
		if strings.Count(someMemfd, old) != 1 {
			t.Fatalf("%q is not once in %q", old, someMemfd)
		}
		return strings.Replace(someMemfd, old, with, 1)
	}
	user := func(path string) string { return strings.Replace(someUser, "/data/a%20%C3%A9.npy", path, 1) }
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "begin"},
		{"another text", "hello", "begin"},
		{"a later version", memfd("shm1", "shm2"), "begin"},
		{"a part missing", "leat-shm1:memfd:" + zeros + ":1/2/3", "parts"},
		{"an unknown kind", memfd("memfd", "fd"), "kind"},
		{"no kind", memfd("memfd", ""), "kind"},
		{"a kind in capitals", memfd("memfd", "MEMFD"), "kind"},
		{"a short boot id", memfd(zeros, "00"), "boot id"},
		{"a boot id with dashes", memfd(zeros, "00000000-0000-0000-0000-00000000"), "boot id"},
		{"an id in capitals", memfd(someID, strings.ToUpper(someID)), "canonical"},
		{"no process", memfd("12/3", "0/3"), "descriptor"},
		{"a process below 0", memfd("12/3", "-1/3"), "descriptor"},
		{"a process beyond numbers", memfd("12/3", "2147483648/3"), "descriptor"},
		{"a descriptor below 0", memfd("12/3", "12/-3"), "descriptor"},
		{"a descriptor for oneself", memfd("12/3/", "self/3/"), "place"},
		{"a base below 0", memfd("/4096:", "/-4096:"), "outside of any memfd"},
		{"a base beyond numbers", memfd("/4096:", "/9223372036854775807:"), "outside of any memfd"},
		{"no base", memfd("/4096:", ":"), "place"},
		{"four numbers", memfd("/4096:", "/4096/1:"), "place"},
		{"a leading zero", memfd(":1000:", ":01000:"), "canonical"},
		{"a plus", memfd(":1000:", ":+1000:"), "canonical"},
		{"a negative size", memfd(":1000:", ":-1000:"), "negative"},
		{"no size", memfd(":1000:", "::"), "size"},
		{"a size beyond numbers", memfd(":1000:", ":9223372036854775808:"), "size"},
		{"a size of many digits", memfd(":1000:", ":"+strings.Repeat("9", 3000)+":"), "size"},
		{"an underscore", memfd(":1000:", ":1_000:"), "size"},
		{"a blank", memfd(":1000:", ": 1000:"), "size"},
		{"a digit that is not ASCII", memfd(":1000:", ":1000٣:"), "size"},
		{"an offset below numbers", memfd(":100:", ":-9223372036854775809:"), "offset"},
		{"minus nothing", memfd(":100:", ":-0:"), "view of bytes"},
		{"a view before the object", memfd(":100:", ":11:"), "view of bytes -1"},
		{"a view behind the object", memfd(":100:", ":989:"), "view of bytes 977 to 1001"},
		{"an offset before the object", memfd(":100:2,3:-12,4:", ":-1:2,3:12,4:"), "view of bytes"},
		{"an empty view outside", memfd(":100:2,3:", ":1001:0,3:"), "view of bytes 1001"},
		{"a stride missing", memfd("-12,4", "-12"), "2 dimensions with 1 strides"},
		{"no strides", memfd("-12,4", "-"), "2 dimensions with 0 strides"},
		{"an empty list", memfd("-12,4", ""), "strides"},
		{"a comma too many", memfd("-12,4", "-12,4,"), "strides"},
		{"a negative dimension", memfd(":2,3:", ":-2,3:"), "negative"},
		{"33 dimensions", memfd(":2,3:-12,4:", ":"+strings.Repeat("1,", 32)+"1:"+strings.Repeat("4,", 32)+"4:"),
			"shape"},
		{"strides beyond numbers", memfd("-12,4", "9223372036854775807,4"), "beyond any memory"},
		{"more elements than memory", memfd(":2,3:-12,4:", ":4294967296,4294967296:0,0:"), "larger than any memory"},
		{"double quotes", memfd("'<f4'", `"<f4"`), "canonical"},
		{"a blank in the type", memfd("'<f4'", "'<f4' "), "canonical"},
		{"an order for one byte", memfd("'<f4'", "'<u1'"), "canonical"},
		{"a big-endian type", memfd("'<f4'", "'>f4'"), "big-endian"},
		{"no type", memfd("'<f4'", ""), "expected a string"},
		{"a path for a file", strings.Replace(someFile, ":run:", ":/run/user/0/x:", 1), "place"},
		{"another root", strings.Replace(someFile, ":run:", ":var:", 1), "place"},
		{"a relative path", user("data/a"), "absolute"},
		{"a path that goes up", user("/data/../etc/passwd"), "clean"},
		{"a path of two slashes", user("/data//a"), "clean"},
		{"a path with a slash at the end", user("/data/"), "clean"},
		{"a path with a hidden slash", user("/data%2Fa"), "canonical"},
		{"a path with a letter escaped", user("/data%61"), "canonical"},
		{"a path escaped in small letters", user("/data%c3%a9"), "canonical"},
		{"a path with half an escape", user("/data%2"), "place"},
		{"a path with a bare percent sign", user("/data%zz"), "place"},
		{"a path with a bare blank", user("/data/a b"), "canonical"},
		{"a path with a NUL", user("/data/a%00b"), "clean"},
		{"a path longer than the kernel's", user("/" + strings.Repeat("a", 4096)), "clean"},
		{"no path", user(""), "absolute"},
		{"no device", strings.Replace(someUser, "@64769/", "@", 1), "place"},
		{"a huge text", someMemfd + strings.Repeat(" ", maxHandle), "characters"},
	} {
		h, err := parseHandle(Handle(c.text))
		if !errors.Is(err, errHandle) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, error %v, expected %q", c.name, h, err, c.want)
		}
		if len(fmt.Sprint(err)) > 500 {
			t.Errorf("%s: the error has %d characters", c.name, len(fmt.Sprint(err)))
		}
	}
}

func TestTheLongestPathHasAHandle(t *testing.T) {
	h := handle{kind: kindUser, path: "/" + strings.Repeat("é", 2047), dev: math.MaxUint64, ino: math.MaxUint64,
		mtime: math.MinInt64, size: math.MaxInt64}
	h.view = contiguousView(wideRecord(t, 37), math.MaxInt32, slices.Repeat([]int{1}, maxDims), false)
	for i := range h.view.strides {
		h.view.strides[i] = math.MinInt64
	}
	back, err := parseHandle(h.text())
	if err != nil || !sameHandle(h, back) {
		t.Errorf("%d characters: %v", len(h.text()), err)
	}
}

func TestSmallArraysTravelInTheirHandle(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 100} {
		b, err := npy.Header{Elem: npy.ElemOfDType(ndarray.Uint16), Shape: []int{n}}.Append(nil, 64)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 * n {
			b = append(b, byte(i*77))
		}
		text := inlineText(b)
		got, _, err := parseInline(text)
		if err != nil || !bytes.Equal(b, got) || !isInline(text) {
			t.Errorf("%d elements: %q, %v", n, got, err)
		}
		if strings.ContainsAny(string(text), " =\n") {
			t.Errorf("%q", text)
		}
		if _, err := parseHandle(text); !errors.Is(err, errHandle) {
			t.Errorf("an inline handle is %v", err)
		}
	}
}

func TestInvalidInlineHandles(t *testing.T) {
	header, err := npy.Header{Elem: npy.ElemOfDType(ndarray.Uint16), Shape: []int{3}}.Append(nil, 64)
	if err != nil {
		t.Fatal(err)
	}
	good := string(inlineText(append(header, 1, 2, 3, 4, 5, 6))) // 134 bytes: two letters at the end
	encode := func(s string) string { return inlinePrefix + base64.RawStdEncoding.EncodeToString([]byte(s)) }
	for _, c := range []struct{ name, text, want string }{
		{"another kind", someMemfd, "prefix"},
		{"nothing", inlinePrefix, "invalid .npy header"},
		{"no base64", inlinePrefix + "*", "illegal base64"},
		{"padding", good + "=", "illegal base64"},
		{"a line break", good[:40] + "\n" + good[40:], "line breaks"},
		{"a line break at the end", good + "\r\n", "line breaks"},
		{"bits behind the end", good[:len(good)-1] + string(good[len(good)-1]+1), "illegal base64"},
		{"no .npy", encode("hello, world!"), "invalid .npy header"},
		{"too few elements", encode(string(header) + "12345"), "5 bytes"},
		{"too many elements", encode(string(header) + "1234567"), "7 bytes"},
		{"objects", encode(npyFile("{'descr': '|O', 'fortran_order': False, 'shape': (), }")), "Python objects"},
		{"big-endian", encode(npyFile("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }") + "1234"), "big-endian"},
	} {
		if _, _, err := parseInline(Handle(c.text)); !errors.Is(err, errHandle) || !strings.Contains(fmt.Sprint(err),
			c.want) {
			t.Errorf("%s: error %v, expected %q", c.name, err, c.want)
		}
	}
}

func FuzzParseHandle(f *testing.F) {
	for _, s := range []string{someMemfd, someFile, someUser} {
		f.Add(s)
	}
	for i := range 20 {
		f.Add(string(handles().Example(i).text()))
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := parseHandle(Handle(s))
		if err != nil {
			if !errors.Is(err, errHandle) || !sameHandle(h, handle{}) {
				t.Fatalf("%v, %v", h, err)
			}
			return
		}
		if again := string(h.text()); again != s {
			t.Fatalf("%q became %q", s, again)
		}
		lo, hi, err := h.view.bounds()
		if err != nil || lo < 0 || hi > h.size || lo > hi {
			t.Fatalf("bytes %d to %d of %d, %v", lo, hi, h.size, err)
		}
	})
}

func FuzzParseInline(f *testing.F) {
	f.Add(string(inlineText([]byte(npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }") + "\x01\x02\x03\x04"))))
	f.Fuzz(func(t *testing.T, s string) {
		b, _, err := parseInline(Handle(s))
		if err != nil {
			if !errors.Is(err, errHandle) {
				t.Fatal(err)
			}
			return
		}
		if again := string(inlineText(b)); again != s {
			t.Fatalf("%q became %q", s, again)
		}
	})
}

func BenchmarkHandle(b *testing.B) {
	h, err := parseHandle(someMemfd)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("text", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = h.text()
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := parseHandle(someMemfd); err != nil {
				b.Fatal(err)
			}
		}
	})
}
