//go:build unix

package timing

import (
	"syscall"
	"time"
)

// processCPU is the processor time, user and system, that this process has used; 0 where unknown.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
