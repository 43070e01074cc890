//go:build unix

package cache

import (
	"strconv"

	"golang.org/x/sys/unix"

	"leat/internal/localdir"
)

// Dir returns the default directory of Create, see Options.Dir, and creates it if it is missing. A
// directory named by LEAT_CACHE_DIR must be local; one derived from the user's home is replaced by
// the machine's temporary directory if it is not.
func Dir() (string, error) {
	dir, fd, err := openDir(&Options{})
	if err != nil {
		return "", err
	}
	return dir, unix.Close(fd)
}

// location defines where caches are by default.
var location = &localdir.Use{
	Many: "caches", Shared: "entries",
	Remote: ErrRemote, Foreign: ErrForeign,
}

// openDir opens the directory for nameless caches.
func openDir(o *Options) (dir string, fd int, err error) { return location.Open(o.Dir, o.AllowRemote) }

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
