//go:build !linux

package objstore

import (
	"io/fs"
	"time"
)

// fileTag returns no tag, and the modification time, which identifies the version here.
func fileTag(fi fs.FileInfo) (string, time.Time) { return "", fi.ModTime() }
