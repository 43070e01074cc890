package protocol

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// BuildID returns an identifier of this executable's build: programs with equal identifiers compute
// equal bytes on the same architecture. It is Go's build ID if the executable has one, otherwise
// the SHA-256 of the whole file. Errors are those of opening and reading the executable.
func BuildID() (string, error) {
	f, err := openSelf()
	if err != nil {
		return "", fmt.Errorf("reading own executable: %w", err)
	}
	defer f.Close()
	id, err := buildID(f)
	if err != nil {
		return "", fmt.Errorf("reading own executable: %w", err)
	}
	return id, nil
}

// openSelf opens the running executable, even if its path now names another file.
func openSelf() (*os.File, error) {
	if f, err := os.Open("/proc/self/exe"); err == nil {
		return f, nil
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

func buildID(f *os.File) (string, error) {
	if id := elfBuildID(f); id != "" {
		return "go:" + id, nil
	}
	if id := textBuildID(f); id != "" {
		return "go:" + id, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// elfBuildID returns the build ID from the note that Go's linker writes, or "" without one.
func elfBuildID(f io.ReaderAt) string {
	e, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	const noteGoBuildID = 4
	for _, p := range e.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<20 {
			continue
		}
		b, err := io.ReadAll(p.Open())
		if err != nil {
			return ""
		}
		for len(b) >= 12 {
			name, desc, kind := e.ByteOrder.Uint32(b), e.ByteOrder.Uint32(b[4:]), e.ByteOrder.Uint32(b[8:])
			b = b[12:]
			pad := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
			if pad(name)+pad(desc) > uint64(len(b)) {
				break
			}
			if kind == noteGoBuildID && string(b[:name]) == "Go\x00\x00" {
				return plainID(b[pad(name) : pad(name)+uint64(desc)])
			}
			b = b[pad(name)+pad(desc):]
		}
	}
	return ""
}

// textBuildID returns the build ID at the start of the text segment, where Go's linker puts it in
// formats without notes.
func textBuildID(f io.ReaderAt) string {
	b := make([]byte, 32<<10)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return ""
	}
	_, b, ok := bytes.Cut(b[:n], []byte("\xff Go build ID: \""))
	if !ok {
		return ""
	}
	id, _, ok := bytes.Cut(b, []byte("\"\n \xff"))
	if !ok {
		return ""
	}
	return plainID(id)
}

// plainID returns id as a string, or "" if it is too long or not printable.
func plainID(id []byte) string {
	if len(id) > maxBuild-len("go:") || !IsPrintable(string(id)) {
		return ""
	}
	return string(id)
}
