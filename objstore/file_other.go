//go:build !linux

package objstore

import (
	"io/fs"
	"time"
)

// fileTag returns no tag, and the modification time, by which the version is identified here.
func fileTag(fi fs.FileInfo) (string, time.Time) { return "", fi.ModTime() }
