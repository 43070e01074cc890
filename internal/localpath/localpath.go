// Package localpath finds which file a local path leads to.
package localpath

import (
	"os"
	"path/filepath"
)

// Absolute returns path as an absolute one, or path itself if the working directory is unknown.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// Real returns the absolute path to which symbolic links lead, even one whose target does not exist
// yet.
func Real(path string) string {
	path = Absolute(path)
	for range 40 { // as many as the kernel follows
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			path = filepath.Join(dir, filepath.Base(path))
		}
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}

// Same reports whether two paths lead to one existing file.
func Same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
