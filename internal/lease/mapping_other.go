//go:build unix && !linux

package lease

// Elsewhere a lock goes with its descriptor.
const mappingCarriesLock = false
