//go:build unix && !linux

package cache

import "math"

func freeSpace(int) int64 { return math.MaxInt64 }
