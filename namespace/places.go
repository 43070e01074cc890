package namespace

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// dirID identifies a directory, whatever paths lead to it.
type dirID struct{ Dev, Ino uint64 }

// place is a directory, or a file by its name in a directory, and what it lies in.
type place struct {
	// Path is absolute and without needless parts, and else as the user wrote it. It leads to the
	// place.
	Path string
	// fd is open with O_PATH, so that the inode is not given to another directory; -1 after Close.
	// A file's is its directory's.
	fd int
	// ID is the directory's; a file's is made of its directory's and its name, whether or not it
	// exists.
	ID dirID
	// Ancestors are the directories around the place, each once, without the place itself: first
	// those on the way to "/", nearest first; then those that only lead there by another mount of
	// the same file system, nearest first.
	Ancestors []dirID
}

// fileID returns the ID of a file by its name in a directory. The top bit keeps it apart from the
// inodes of directories, which have numbers below.
func fileID(dir dirID, name string) dirID {
	text := binary.LittleEndian.AppendUint64(nil, dir.Ino)
	sum := sha256.Sum256(append(text, name...)) // no name can be found that collides with another one on purpose
	return dirID{dir.Dev, binary.LittleEndian.Uint64(sum[:]) | 1<<63}
}

// absolute puts the working directory before a relative path. It leaves ".." as it is, which after
// a symbolic link does not mean the directory that the text says.
func absolute(path string) (string, error) {
	if path == "" {
		return "", errors.New("no path given")
	}
	if filepath.IsAbs(path) {
		return path, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("%s: the working directory does not exist any more: change to another or give an absolute path (%w)", path, err)
	}
	return wd + "/" + path, nil
}

// followLinks returns where the last element of an absolute path leads. A link that leads nowhere
// names the file to be made.
func followLinks(path string) (string, error) {
	given := path
	for range 40 { // as many as the kernel follows
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil
		}
		if !filepath.IsAbs(to) {
			dir, _ := filepath.Split(path) // not filepath.Join, which would take "link/.." for nothing
			to = dir + to
		}
		path = to
	}
	return "", fmt.Errorf("%s: too many symbolic links after each other: mend the one that leads to itself", given)
}

// explainPlace says why a directory can't be had and what to do. The cause is last.
func explainPlace(path string, err error) error {
	at, cause := path, err
	var pe *fs.PathError
	if errors.As(err, &pe) {
		at, cause = pe.Path, pe.Err
	}
	if at = strings.TrimRight(at, "/"); at == "" {
		at = "/"
	}
	part := ""
	if filepath.Clean(at) != filepath.Clean(path) {
		part = at + ": "
	}
	switch {
	case errors.Is(cause, syscall.ENOTDIR), errors.Is(cause, syscall.EEXIST), errors.Is(cause, syscall.ENOENT):
		if link, to := firstDangling(path); link != "" {
			return fmt.Errorf("%s: the symbolic link %s leads to %s, which does not exist: create that or remove the link", path, link, to)
		}
		if errors.Is(cause, syscall.ENOENT) {
			return fmt.Errorf("%s: %sthe directory does not exist: create it first (%w)", path, part, cause)
		}
		if _, err := os.Stat(path); err == nil {
			return fmt.Errorf("%s is a file, not a directory: give a directory (%w)", path, cause)
		}
		return fmt.Errorf("%s: %sa part of the path is a file, not a directory: give another path (%w)", path, part,
			cause)
	case errors.Is(cause, syscall.ELOOP):
		return fmt.Errorf("%s: %stoo many symbolic links after each other: mend the one that leads to itself (%w)",
			path, part, cause)
	case errors.Is(cause, syscall.ENAMETOOLONG):
		return fmt.Errorf("%s: the path, or a name in it, is too long: give a shorter one (%w)", path, cause)
	case errors.Is(cause, syscall.EROFS):
		return fmt.Errorf("%s: %sthe file system is read-only: give a directory elsewhere (%w)", path, part, cause)
	case errors.Is(cause, fs.ErrPermission):
		return fmt.Errorf("%s: %sno permission to make or enter the directory: change its or its parents' permissions, or give another (%w)", path, part, cause)
	case errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT):
		return fmt.Errorf("%s: %sno space is left to make the directory: free some or give one elsewhere (%w)", path,
			part, cause)
	}
	return fmt.Errorf("%s: %scan't open the directory: %w", path, part, cause)
}

// firstDangling returns the first element of a path that is a symbolic link to nothing, and what it
// holds.
func firstDangling(path string) (link, to string) {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		to, err := os.Readlink(path[:i])
		if err != nil {
			continue
		}
		if _, err := os.Stat(path[:i]); errors.Is(err, fs.ErrNotExist) {
			return path[:i], to
		}
	}
	return "", ""
}
