package spool

import (
	"fmt"
	"hash/crc32"
	"path/filepath"

	"leat/internal/tempfile"
)

// Target is an output whose records a spool collects.
type Target struct {
	// Path identifies the output: an absolute path without symbolic links, so that two runs use the
	// same path for the same file, or the URL of an object in a store.
	Path string
	// Label is the output's name in messages.
	Label string
	// TempDir is the directory of the spool; "" means the directory of Path.
	TempDir string
	// InStore is set if Path is a URL. The spool of such an output needs a TempDir and is the only
	// file that a run locks.
	InStore bool
}

// SpoolPath returns the path of the target's spool. In a TempDir the name contains a checksum of
// the output's path, since outputs in several directories may have the same name.
func (t *Target) SpoolPath() string {
	if t.TempDir == "" {
		return t.LockPath()
	}
	sum := fmt.Sprintf(".%08x", crc32.Checksum([]byte(t.Path), castagnoli))
	return tempfile.HiddenName(filepath.Join(t.TempDir, filepath.Base(t.Path)), sum+suffix)
}

// LockPath returns the path of the file next to the output that a run locks: the spool itself or,
// if that is in a TempDir, an empty file.
func (t *Target) LockPath() string { return tempfile.HiddenName(t.Path, suffix) }

const suffix = ".leat-part"
