package batch

import (
	"io"
	"os"
	"strings"
)

// EndOfLog bounds how much of a log or of a program's output is shown, in bytes.
const EndOfLog = 4 << 10

// End returns the last lines of a file, or "" if it is empty or can't be read.
func End(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil || !i.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, i.Size()-EndOfLog-1), EndOfLog+1))
	if err != nil {
		return ""
	}
	return Tail(string(b), EndOfLog)
}

// Tail returns the last n bytes of a text, whole lines if it has several, without trailing white
// space.
func Tail(s string, n int) string {
	if len(s) > n {
		s = s[len(s)-n:]
		if _, rest, ok := strings.Cut(s, "\n"); ok {
			s = rest
		}
	}
	return strings.TrimRight(strings.ToValidUTF8(s, "?"), "\r\n \t")
}
