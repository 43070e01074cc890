//go:build unix && !linux

package index

// StoppedHolder returns 0: the holder of a lock is unknown here.
func (l *Index) StoppedHolder(Key) int { return 0 }

func (l *Index) lockHolder(int64) (pid int, stopped bool) { return 0, false }
