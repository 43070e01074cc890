//go:build unix

package cache

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"leat/internal/localdir"
)

// Dir returns the directory in which Create makes files by default, see Options.Dir, making it where it is missing. A
// directory that the user named in LEAT_CACHE_DIR must be local; one that follows from the user's home is replaced by the
// machine's temporary one where it is not.
func Dir() (string, error) {
	dir, fd, err := openDir(&Options{})
	if err != nil {
		return "", err
	}
	return dir, unix.Close(fd)
}

// home is the directory that caches are made in where no other is named.
var home = &localdir.Use{
	Package: "cache", Many: "caches", Shared: "entries", Escape: ", or set AllowRemote",
	Remote: ErrRemote, Foreign: ErrForeign,
}

// openDir opens the directory for nameless caches.
func openDir(o *Options) (dir string, fd int, err error) { return home.Open(o.Dir, o.AllowRemote) }

// explainDir says what is wrong with a directory and what to do about it.
func explainDir(dir string, err error) error { return home.Explain(dir, err) }

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0o600)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
