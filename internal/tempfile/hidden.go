package tempfile

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"unicode/utf8"
)

// hiddenName returns the name that an unpublished file has. It is fixed: the next process replaces
// the file that a killed one left.
func hiddenName(final string) string { return HiddenName(final, ".leat-new") }

// maxName is the maximum length in bytes of a file name on all usual file systems.
const maxName = 255

// HiddenName returns ".NAME" and suffix in the directory of path, where NAME is the last element of
// path. A checksum replaces the end of a NAME that is too long, so that different names stay
// different.
func HiddenName(path, suffix string) string {
	dir, name := filepath.Split(path)
	if most := maxName - 1 - len(suffix); len(name) > most {
		sum := sha256.Sum256([]byte(name))
		end := "~" + hex.EncodeToString(sum[:8])
		name = cutName(name, most-len(end)) + end
	}
	return dir + "." + name + suffix
}

// cutName returns the first most bytes of name, or fewer, so that no character is split: some file
// systems refuse names that are not UTF-8.
func cutName(name string, most int) string {
	for n := most; n > most-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(name[n]) {
			return name[:n]
		}
	}
	return name[:most]
}
