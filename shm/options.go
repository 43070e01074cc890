package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"leat/internal/sysmem"
)

// Place is where arrays are kept.
type Place int

// The places, in the order in which Auto tries them.
const (
	Auto  Place = iota // Temp if Options.TempDir or LEAT_TEMP_FOLDER is set, else the first with enough space
	Memfd              // memory without a name, which the kernel frees with its last user
	Named              // a file in /dev/shm/leat-UID/shm, or below $LEAT_RUNTIME_DIR
	Temp               // a file in the temporary directory, on a disk
)

// Mode is how an array is attached, in NumPy's words. NumPy's "w+" is ReadWrite here, and "" is
// ReadOnly.
type Mode string

// The modes.
const (
	ReadOnly    Mode = "r"
	ReadWrite   Mode = "r+" // of an array made by New or NewOf
	CopyOnWrite Mode = "c"  // writable; only this attachment sees what is written
)

// normalize returns one of the three modes.
func (m Mode) normalize() (Mode, error) {
	switch m {
	case "", "r":
		return ReadOnly, nil
	case "r+", "w+":
		return ReadWrite, nil
	case "c":
		return CopyOnWrite, nil
	}
	return "", fmt.Errorf("mode %q, expected r, r+, w+ or c", string(m))
}

const (
	// defaultInlineBytes is joblib's threshold.
	defaultInlineBytes = 1 << 20
	// tempVariable names the environment variable with the temporary directory.
	tempVariable = "LEAT_TEMP_FOLDER"
)

// Options configure a Pool. The zero value of a field is its default.
type Options struct {
	// MaxInlineBytes is the size up to which Pack puts arrays into the handle; larger ones are
	// shared. 0 is 1 MiB; a negative size is no limit.
	MaxInlineBytes int64
	// Place is where arrays are stored. Auto, the default, is Temp if TempDir or the environment
	// variable LEAT_TEMP_FOLDER is set, else memory, and the temporary directory if memory has no
	// space.
	Place Place
	// TempDir is the absolute path of the directory for files, on a file system of this host. The
	// default is LEAT_TEMP_FOLDER, else os.TempDir. All processes that share arrays must agree on
	// it.
	TempDir string
	// RecycleBytes limits the memory of freed arrays that is kept to be used again, and that of
	// mappings kept for the next attach. The default is an eighth of the free memory; a negative
	// size keeps nothing.
	RecycleBytes int64
	// ReserveBytes are left free in memory, in addition to those that leat always leaves.
	ReserveBytes int64
	// Roots are the absolute paths of directories whose files may be attached. The default is none.
	Roots []string
}

// validate returns the options with their defaults, or an error that names all wrong fields.
func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	var err error
	fail := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if v.MaxInlineBytes == 0 {
		v.MaxInlineBytes = defaultInlineBytes
	}
	if v.Place < Auto || v.Place > Temp {
		fail("Options.Place is %d, expected Auto, Memfd, Named or Temp", int(v.Place))
	}
	if v.ReserveBytes < 0 {
		fail("Options.ReserveBytes is %d, expected at least 0", v.ReserveBytes)
	}
	if v.TempDir != "" && !filepath.IsAbs(v.TempDir) {
		fail("Options.TempDir is %q, expected an absolute path", v.TempDir)
	}
	if env := os.Getenv(tempVariable); v.TempDir == "" && env != "" && !filepath.IsAbs(env) {
		fail("%s is %q, expected an absolute path", tempVariable, env)
	}
	if v.Place == Auto && (v.TempDir != "" || os.Getenv(tempVariable) != "") {
		v.Place = Temp
	}
	for _, r := range v.Roots {
		if !filepath.IsAbs(r) {
			fail("Options.Roots has %q, expected absolute paths", r)
		}
	}
	switch {
	case v.RecycleBytes < 0:
		v.RecycleBytes = 0
	case v.RecycleBytes == 0:
		v.RecycleBytes = 256 << 20
		if r, e := sysmem.Available(0); e == nil {
			v.RecycleBytes = r.Bytes / 8
		}
	}
	return v, err
}
