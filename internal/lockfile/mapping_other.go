//go:build unix && !linux

package lockfile

// Elsewhere a lock goes with its descriptor.
const mappingCarriesLock = false
