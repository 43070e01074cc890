//go:build unix && !linux

package childproc

// StartBatch does nothing: only Linux has batch processes.
func StartBatch() (restore func()) { return func() {} }

// MakeBatch does nothing: only Linux has batch processes.
func MakeBatch() {}
