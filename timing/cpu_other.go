//go:build !unix

package timing

import "time"

// processCPU is 0: the processor time is not known here.
func processCPU() time.Duration { return 0 }
