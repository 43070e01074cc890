package terminal

import (
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestControlCharactersInNamesAreQuoted(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"", ""},
		{"s3://bucket/scene 1.tif", "s3://bucket/scene 1.tif"},
		{"Höhen/標高.tif", "Höhen/標高.tif"},
		{"a\u00a0b\u202fc", "a\u00a0b\u202fc"}, // blanks of macOS's file names
		{"👩\u200d🚀", "👩\u200d🚀"},
		{"\ufffd", "\ufffd"},
		{"a\x1b[31mb", `"a\x1b[31mb"`},
		{"a\nleat: done", `"a\nleat: done"`},
		{"a\tb", `"a\tb"`},
		{"a\x9bb", `"a\x9bb"`},         // invalid UTF-8
		{"a\u009b31m", `"a\u009b31m"`}, // the control sequence introducer in one character
		{"gpj\u202e.exe", `"gpj\u202e.exe"`},
		{"a\u2028b", `"a\u2028b"`},
		{`"a"`, `"\"a\""`},
	} {
		if got := Name(test.name); got != test.want {
			t.Errorf("%q became %s, expected %s", test.name, got, test.want)
		}
	}
}

func TestTextKeepsLines(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"Traceback:\n\tline 1\r\n", "Traceback:\n\tline 1\n"},
		{"\x1b]0;title\a done\x1b", `\x1b]0;title\a done\x1b`},
		{"50 %\r100 %", `50 %\r100 %`},
		{"\xff\u202e", `\xff\u202e`},
		{`C:\data "x" é`, `C:\data "x" é`},
	} {
		if got := Text(test.text); got != test.want {
			t.Errorf("%q became %q, expected %q", test.text, got, test.want)
		}
	}
}

func FuzzNoControlCharacters(f *testing.F) {
	f.Add("a\x1b[2J\n\xff\u202e\ufffd\"")
	f.Fuzz(func(t *testing.T, s string) {
		name, text := Name(s), Text(s)
		for _, r := range name {
			if unicode.IsControl(r) {
				t.Fatalf("%q became %q", s, name)
			}
		}
		for _, r := range text {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q became %q", s, text)
			}
		}
		if !utf8.ValidString(name) || !utf8.ValidString(text) {
			t.Fatalf("%q became %q and %q", s, name, text)
		}
		if name != s {
			if back, err := strconv.Unquote(name); err != nil || back != s {
				t.Fatalf("%q became %q, which is %q, %v", s, name, back, err)
			}
		} else if strings.HasPrefix(name, `"`) {
			t.Fatalf("%q looks quoted", name)
		}
	})
}
