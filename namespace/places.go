package namespace

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// dirID identifies a directory, whatever paths lead to it.
type dirID struct{ Dev, Ino uint64 }

// place is a directory, or a file by its name in a directory, and the directories around it.
type place struct {
	// Path is absolute and without redundant elements, but otherwise as the user wrote it. It leads
	// to the place.
	Path string
	// fd is open with O_PATH, so that the inode is not reused; -1 after Close. For a file it is
	// that of its directory.
	fd int
	// ID is that of the directory. That of a file is made of its directory's and its name, whether
	// or not it exists.
	ID dirID
	// Ancestors are the directories around the place, each once, without the place itself: first
	// those on the way to "/", nearest first; then those that only lead there by another mount of
	// the same file system, nearest first.
	Ancestors []dirID
}

// lookPlace finds the place of a directory or file of another job. It makes nothing.
func lookPlace(path string, file bool) (*place, error) {
	if file {
		return openFilePlace(path)
	}
	return openPlace(path, false)
}

// fileID returns the ID of a file by its name in a directory. The top bit keeps it apart from the
// inodes of directories, which have numbers below.
func fileID(dir dirID, name string) dirID {
	text := binary.LittleEndian.AppendUint64(nil, dir.Ino)
	sum := sha256.Sum256(append(text, name...)) // against deliberate collisions
	return dirID{dir.Dev, binary.LittleEndian.Uint64(sum[:]) | 1<<63}
}

// absolute makes a path absolute. It keeps "..", which after a symbolic link is not the parent in
// the text.
func absolute(path string) (string, error) {
	if path == "" {
		return "", errors.New("empty path")
	}
	if filepath.IsAbs(path) {
		return path, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("%s: the working directory was removed: %w", path, err)
	}
	return wd + "/" + path, nil
}

// followLinks returns where the last element of an absolute path leads. A dangling link names the
// file to be created.
func followLinks(path string) (string, error) {
	given := path
	for range 40 { // as many as the kernel follows
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(path) // not filepath.Join, which would drop "link/.."
			to = dir + to
		}
		path = to
	}
	return "", explainPlace(given, syscall.ELOOP)
}

// explainPlace adds the path that the user gave to an error.
func explainPlace(path string, err error) error { return fmt.Errorf("directory %s: %w", path, err) }
