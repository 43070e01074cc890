//go:build unix

package childproc

import (
	"io"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSocketPair(t *testing.T) {
	conn, file, err := SocketPair("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the child's end has flags %#x, %v, expected close-on-exec", flags, err)
	}
	if _, err := file.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}
