// Package regular opens files that must be regular. Others are refused by their kind before they
// are opened: opening a pipe whose other end no process opens waits forever, in spite of signals.
package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var (
	// ErrDirectory is returned for a directory.
	ErrDirectory = errors.New("is a directory, not a file")
	// ErrSpecial is returned for a pipe, a socket or a device.
	ErrSpecial = errors.New("is a pipe, a socket or a device; expected a regular file")
)

// Open opens the regular file at path for reading, links followed. Errors are *fs.PathError.
func Open(path string) (*os.File, fs.FileInfo, error) {
	if err := Check(path); err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil { // it may have been replaced
		err = checkInfo(path, info)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// Check returns an error if the file at path is not a regular file. It does not open the file.
func Check(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return checkInfo(path, info)
}

// FindSpecial returns the first pipe, socket or device, links followed, that a library may open for
// path: path itself, a file next to it that has its name up to the last dot (box.dbf and
// box.shp.xml for box.shp), or, in a directory, any of its files. "" if there is none, or no file.
func FindSpecial(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil // no local file
	}
	dir, stem := path, ""
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return path, nil
		}
		name := filepath.Base(path)
		dir, stem = filepath.Dir(path), strings.TrimSuffix(name, filepath.Ext(name))+"."
	}
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return "", nil // a library may still open the file
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		name := e.Name()
		if e.Type().IsRegular() || e.IsDir() || len(name) < len(stem) || !strings.EqualFold(name[:len(stem)], stem) {
			continue
		}
		name = filepath.Join(dir, name)
		if errors.Is(Check(name), ErrSpecial) {
			return name, nil
		}
	}
	return "", nil
}

func checkInfo(path string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return &fs.PathError{Op: "open", Path: path, Err: ErrDirectory}
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: path, Err: ErrSpecial}
	}
	return nil
}
