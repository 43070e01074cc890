//go:build unix && !linux

package cache

import "math"

func roomLeft(int) int64 { return math.MaxInt64 }
