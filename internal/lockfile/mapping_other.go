//go:build unix && !linux

package lockfile

// A lock ends with its descriptor.
const mappingCarriesLock = false
