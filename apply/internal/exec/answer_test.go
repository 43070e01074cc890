package exec

import (
	"strings"
	"testing"
)

func TestInvalidAnswer(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":                 "",
		"a head that is cut off":  "\xff\x00\x00\x00{}",
		"a head that is not JSON": "\x02\x00\x00\x00{]",
		"no outputs":              "\x02\x00\x00\x00{}",
		"a type that there is not": "\x34\x00\x00\x00" + `{"outputs":[{"type":77,"bands":1,"bytes":0}]}` +
			strings.Repeat(" ", 7),
		"too few bytes": "\x34\x00\x00\x00" + `{"outputs":[{"type":1,"bands":1,"bytes":9}]}` +
			strings.Repeat(" ", 8),
		"a negative place": "\x42\x00\x00\x00" +
			`{"outputs":[{"type":1,"bands":1,"bytes":0,"shared":9,"at":-4}]}` + "   ",
		"a negative length": "\x34\x00\x00\x00" + `{"outputs":[{"type":1,"bands":1,"bytes":-9}]}` +
			strings.Repeat(" ", 7),
	} {
		if _, _, err := parseAnswer([]byte(body), 1); err == nil {
			t.Errorf("%s is taken for an answer", name)
		}
	}
}

// FuzzAnswer checks that any data from a worker causes at most an error.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("\x34\x00\x00\x00" + `{"outputs":[{"type":1,"bands":1,"bytes":9}]}        ` + "123456789"))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, parts, err := parseAnswer(body, 1)
		if err == nil && (len(a.Outputs) != 1 || len(parts) != 1 || len(parts[0]) != a.Outputs[0].Bytes) {
			t.Errorf("%d outputs, %d parts", len(a.Outputs), len(parts))
		}
	})
}
