//go:build !linux

package apply

// systemMemory is not known on this system.
func systemMemory() int64 { return 0 }
