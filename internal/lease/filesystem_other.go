//go:build unix && !linux

package lease

// Elsewhere a lock goes with its descriptor, and file systems are not told apart.
const mappingCarriesLock = false

func fileSystem(int) (string, bool) { return "", true }
