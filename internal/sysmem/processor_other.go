//go:build !unix

package sysmem

import "time"

// ProcessorTime returns 0: the processor time is unknown here.
func ProcessorTime() time.Duration { return 0 }
