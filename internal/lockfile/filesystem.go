//go:build unix

package lockfile

import "leat/internal/localdir"

// fileSystem names the file system of an open file, if it is known to be shared by machines: there
// a lock of this one is not seen by others.
func fileSystem(fd int) (name string, local bool) {
	f := localdir.Of(fd)
	return f.Name, f.Kind != localdir.Remote
}
