package filelist

import (
	"slices"
	"strings"
	"testing"
)

func TestNaturalOrder(t *testing.T) {
	want := []string{"", "0", "00", "01", "1", "2", "10", "a", "a1", "a1b", "a2", "a02.tif", "a2.tif", "a10.tif", "a99999999999999999999.tif",
		"a100000000000000000000.tif", "b", "b1/2", "b1/10", "b2/1", "é"}
	for i, a := range want {
		for j, b := range want {
			if got := Compare(a, b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("Compare(%q, %q) = %d", a, b, got)
			}
		}
	}
}

func TestListNamesFiles(t *testing.T) {
	text := "\ufeff# two files\n\n  a.tif \r\n/abs/b.tif\ns3://bucket/c#1.tif\n../d *.tif"
	got, err := Parse("dir/list.txt", []byte(text))
	if want := []string{"dir/a.tif", "/abs/b.tif", "s3://bucket/c#1.tif", "d *.tif"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, expected %q", got, err, want)
	}
	got, err = Parse("s3://bucket/x/list.txt", []byte("a.tif\n../b.tif\n"))
	if want := []string{"s3://bucket/x/a.tif", "s3://bucket/b.tif"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, expected %q", got, err, want)
	}
}

func TestWrongListsNameTheLine(t *testing.T) {
	for _, c := range []struct{ list, text, want string }{
		{"l.txt", "# none\n\n", "l.txt: the list names no file"},
		{"l.txt", "", "l.txt: the list names no file"},
		{"l.txt", "a.tif\n\nb\x00.tif", "l.txt:3: no text"},
		{"l.txt", strings.Repeat("a", maxName+1), "l.txt:1: a line of "},
		{"l.txt", strings.Repeat("a\n", MaxFiles+1), "l.txt:100001: more than 100000 files"},
		{"s3://b/l.txt", "a.tif\n/tmp/a.tif\n", "s3://b/l.txt:2: /tmp/a.tif is the path of a file"},
		{"s3://b/d/l.txt", "../../a.tif\n", "s3://b/d/l.txt:1: ../../a.tif lies above the store"},
		{"https://host/l.txt?sig=hunter2", "/a", "https://host/l.txt"},
	} {
		_, err := Parse(c.list, []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.40q: %v, expected %q", c.text, err, c.want)
		}
	}
}

func TestPrefixOfPattern(t *testing.T) {
	for pattern, want := range map[string]string{"a/b*.tif": "a/b", "a": "a", "*": "", "a[1]": "a", `a\*b`: "a", "x?": "x"} {
		if got := Prefix(pattern); got != want {
			t.Errorf("Prefix(%q) = %q, expected %q", pattern, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("l.txt", []byte("a.tif\n#\nb"))
	f.Add("s3://b/l", []byte("../a\n/x\n"))
	f.Fuzz(func(t *testing.T, list string, text []byte) {
		files, err := Parse(list, text)
		if (err == nil) == (len(files) == 0) {
			t.Errorf("%d files, %v", len(files), err)
		}
		if slices.Contains(files, "") {
			t.Error("a file without a name")
		}
	})
}
