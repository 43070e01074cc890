package namespace

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const statText = "41 (a) b (c) S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 12345 1 2 3\n"

func TestParseStat(t *testing.T) {
	got, err := parseStat(statText)
	if want := (statLine{"a) b (c", 'S', 4194560, 3, 12345}); err != nil || got != want {
		t.Errorf("%+v, %v; expected %+v", got, err, want)
	}
	for _, bad := range []string{"", "1 sleep S", ")(", "1 (a) S 1 2", strings.Replace(statText, "12345", "-1", 1),
		strings.Replace(statText, " S ", " SS ", 1), strings.Replace(statText, "4194560", "x", 1),
		strings.Replace(statText, " 0 12345", " 12345", 1)[:40]} {
		if s, err := parseStat(bad); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestEndingTasks(t *testing.T) {
	const none = "Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000100\n"
	kill := func(name string) string {
		return strings.Replace(none, name+":\t0000000000000000", name+":\t0000000000004100", 1)
	}
	for _, c := range []struct {
		what   string
		s      statLine
		status string
		want   bool
	}{
		{"running", statLine{state: 'R'}, none, false},
		{"running, by flags of no meaning here", statLine{state: 'D', flags: ^uint64(4)}, none, false},
		{"zombie", statLine{state: 'Z'}, none, true},
		{"dead", statLine{state: 'X'}, none, true},
		{"exiting", statLine{state: 'D', flags: 4}, none, true},
		{"killed in its own queue", statLine{state: 'D'}, kill("SigPnd"), true},
		{"killed in the shared queue", statLine{state: 'D'}, kill("ShdPnd"), true},
		{"terminated, which it may ignore", statLine{state: 'S'},
			strings.Replace(none, "SigPnd:\t0000000000000000", "SigPnd:\t0000000000004000", 1), false},
		{"status of no sense", statLine{state: 'S'}, "SigPnd\nShdPnd:\tx\n:", false},
	} {
		if got := ending(c.s, c.status); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestCommandText(t *testing.T) {
	for raw, want := range map[string]string{
		"":                             "",
		"sleep\x00100\x00":             "sleep 100",
		"a\x00\x00b\x00":               "a  b",
		"\x1b[31m\xff\u202e\n":         "?[31m???",
		strings.Repeat("é", 150):       strings.Repeat("é", 100),
		"x" + strings.Repeat("é", 150): "x" + strings.Repeat("é", 99),
	} {
		if got := commandText(raw); got != want {
			t.Errorf("%q: %q, not %q", raw, got, want)
		}
	}
}

func TestCommandTextHidesSecrets(t *testing.T) {
	long := strings.Repeat("s", commandBytes)
	for raw, want := range map[string]string{
		"leat\x00-i\x00a=https://h/a.tif?X-Amz-Signature=SECRET&X-Amz-Date=1\x00-o\x00o.tif": "leat -i a=https://... -o o.tif",
		"leat\x00--endpoint\x00http://h:9000":                                                "leat --endpoint http://h:9000",
		"leat\x00--endpoint\x00http://user:SECRET@h:9000":                                    "leat --endpoint http://...",
		"leat\x00--endpoint=http://user:SEC@RET@h:9000/x@y":                                  "leat --endpoint=http://...",
		"x https://SECRET@h/p s3://b/n https://[::1]:80/p#t=SECRET y":                        "x https://... s3://b/n https://... y",
		"http://user:SEC/RET@h/p?x":                                                          "http://...",
		"http://user:SEC?RET@h/p":                                                            "http://...",
		"http://user:SEC#RET@h/p":                                                            "http://...",
		`http://user:SEC"RET@h/p`:                                                            `http://..."RET@h/p`,
		"sh\x00-c\x00curl 'http://u:SECRET@h/a?SECRET' >b":                                   "sh -c curl 'http://...' >b",
		"a?b@c:d/e":                      "a?b@c:d/e",
		"\xffhttps://h/\xff?SECRET":      "?https://...",
		"https://h/?" + long[:5000-4000]: "https://...",
		// The beginning of a command line that is longer.
		("x\x00https://h/" + long)[:commandBytes]:                                "x https://...",
		("https://h/?" + long[:3000] + "\x00http://user" + long)[:commandBytes]:  "https://... http://...",
		("https://h/?" + long[:3000] + "\x00http://user:" + long)[:commandBytes]: "https://... http://...",
	} {
		if got := commandText(raw); got != want {
			t.Errorf("%.100q: %q, not %q", raw, got, want)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add(statText, "SigPnd:\t0000000000000100\n", "sleep\x00100")
	f.Add("1 ()) S", "ShdPnd:", "\xff")
	f.Fuzz(func(t *testing.T, stat, status, command string) {
		if s, err := parseStat(stat); err == nil {
			ending(s, status)
			if !strings.Contains(stat, "("+s.comm+")") {
				t.Fatalf("%q: command %q", stat, s.comm)
			}
		}
		shown := commandText(command)
		if len(shown) > 200 || !utf8.ValidString(shown) || strings.ContainsFunc(shown,
			func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q is shown as %q", command, shown)
		}
	})
}
