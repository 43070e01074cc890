//go:build unix

package sysmem

import (
	"syscall"
	"time"
)

// ProcessorTime returns the user and system time of this process, or 0 if it is unknown.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
