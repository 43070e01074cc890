//go:build !linux

package apply

// systemMemory returns 0: the memory is unknown on this system.
func systemMemory() int64 { return 0 }
