package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestJobsMustBeUTF8(t *testing.T) {
	for text, valid := range map[string]bool{
		``: true, `{"a": "b"}`: true, `"\u00e9"`: true, `"é\n\\"`: true, `"\ud83d\ude00"`: true, `"\ufffd\uFFFD"`: true,
		`"\\udcff"`: true, `"\\\\ud800"`: true, `"\ud83d\ude00\ud83d\uDE00"`: true,
		`"\udcff"`: false, `"\uD800"`: false, `"\ud83dx"`: false, `"\ud83d\u0041"`: false, `"\ud83d\ud83d\ude00"`: false,
		`"\ude00\ud83d"`: false, `"\ud83d\\ude00"`: false, `"\\\udcff"`: false, `\`: true, `\u`: true, `\ud800`: false,
		"\"\xff\"": false, "\"\xed\xb3\xbf\"": false,
	} {
		if err := checkUTF8([]byte(text)); (err == nil) != valid {
			t.Errorf("%q: error %v, expected it to be valid: %t", text, err, valid)
		}
	}
}

// TestNoTextOfJobsIsReplaced compares checkUTF8 with what the decoder makes of random texts.
func TestNoTextOfJobsIsReplaced(t *testing.T) {
	parts := []string{`\ud83d`, `\ude00`, `\udfff`, `\uDBFF`, `\\`, `\n`, `\u0041`, `u`, `d83d`, `é`, "\xff", `\"`, `x`}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		var b strings.Builder
		for range 1 + r.IntN(6) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text := `"` + b.String() + `"`
		var decoded string
		if err := json.Unmarshal([]byte(text), &decoded); err != nil {
			continue
		}
		replaced := strings.ContainsRune(decoded, '\ufffd')
		if err := checkUTF8([]byte(text)); (err != nil) != replaced {
			t.Fatalf("%s: error %v, but the decoder makes %q of it", text, err, decoded)
		}
	}
}
