package main

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"testing"
)

func TestMessagesHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "open", Path: "a\x1b[2Jb", Err: fs.ErrNotExist},
			`leat: open a\x1b[2Jb: file does not exist` + "\n"},
		{errors.New("function failed: Traceback:\n  File \"f.py\"\nleat: done"),
			"leat: function failed: Traceback:\n  File \"f.py\"\n  leat: done\n"},
		{errors.New("column 3: no\n  a + b\n      ^"), "leat: column 3: no\n  a + b\n      ^\n"},
		{errors.Join(errors.New("one\x07"), errors.New("two\n")), "leat: one\\a\nleat: two\n"},
	} {
		var b bytes.Buffer
		printError(&b, test.err)
		if b.String() != test.want {
			t.Errorf("%q shows as %q, expected %q", test.err, b.String(), test.want)
		}
	}
	var b bytes.Buffer
	slog.New(&peopleHandler{w: &b}).Warn("job of another user", "file", "x\x1b]0;t\a", "error",
		errors.New("no\nleat: done"))
	if want := "leat: warning: job of another user, file x\\x1b]0;t\\a: no\n  leat: done\n"; b.String() != want {
		t.Errorf("%q, expected %q", b.String(), want)
	}
}
