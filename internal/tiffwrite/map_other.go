//go:build !linux

package tiffwrite

import "os"

// mapped maps no file on other systems.
func mapped(*os.File, int64, int64, func([]byte) error) (bool, error) { return false, nil }
