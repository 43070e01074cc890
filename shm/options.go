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
	Auto  Place = iota // Temp where a temp folder is named, else what has room
	Memfd              // memory without a name, which the kernel frees with its last user
	Named              // a file in /dev/shm/leat-UID/shm, or below $LEAT_RUNTIME_DIR
	Temp               // a file in the temp folder, on a disk
)

var placeNames = [...]string{"auto", "memfd", "named", "temp"}

// String returns the place's name.
func (p Place) String() string {
	if p < 0 || int(p) >= len(placeNames) {
		return fmt.Sprintf("Place(%d)", int(p))
	}
	return placeNames[p]
}

// ParsePlace returns the place of that name.
func ParsePlace(s string) (Place, error) {
	for i, n := range placeNames {
		if n == s {
			return Place(i), nil
		}
	}
	return 0, fmt.Errorf("there is no place %q: use auto, memfd, named or temp", s)
}

// Mode is how an array is attached, in NumPy's words.
type Mode string

// The modes. "w+" is ReadWrite: nothing is zeroed.
const (
	ReadOnly    Mode = "r"
	ReadWrite   Mode = "r+"
	CopyOnWrite Mode = "c" // writable, what is written is this attachment's own
)

// ParseMode returns the mode that NumPy and joblib write as r, r+, w+ or c. The empty text is
// ReadOnly.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "", "r":
		return ReadOnly, nil
	case "r+", "w+":
		return ReadWrite, nil
	case "c":
		return CopyOnWrite, nil
	}
	return "", fmt.Errorf("there is no mode %q: use r, r+, w+ or c", s)
}

// DefaultMaxBytes is the threshold of [Scope.Pack], as joblib's.
const DefaultMaxBytes = 1 << 20

// tempVariable is the one of the environment that names the temp folder.
const tempVariable = "LEAT_TEMP_FOLDER"

// Options say how a Pool shares. The zero value of a field is its default.
type Options struct {
	// MaxBytes is the size up to which Pack puts arrays into the handle; larger ones are shared. 0
	// is DefaultMaxBytes; with a negative one nothing is shared but what is already. See
	// [ParseSize].
	MaxBytes int64
	// Dedupe has Put compare what it is given with what is shared already, by a hash and then byte
	// by byte, and share equal arrays once. It costs a pass over the data.
	Dedupe bool
	// Place is where arrays are kept. With Auto, the default, it is Temp where a temp folder is
	// named, by TempFolder or $LEAT_TEMP_FOLDER; else it is chosen for each array by what has room.
	Place Place
	// TempFolder is the folder for Temp, by default $LEAT_TEMP_FOLDER, else the system's. Processes
	// that share arrays there must agree on it. It must lie on a file system of this machine.
	TempFolder string
	// RecycleBytes bounds the memory of freed arrays that is kept to be used again, and that of
	// mappings kept for the next attach. The default is an eighth of the memory that is free; a
	// negative one keeps nothing.
	RecycleBytes int64
	// Reserve are bytes of memory to leave free, beyond those that leat always leaves.
	Reserve int64
	// Roots are the folders below which a user's own files may be attached. By default none are.
	Roots []string
}

// validate returns the options with their defaults, or all that is wrong with them.
func (o *Options) validate() (Options, error) {
	var v Options
	if o != nil {
		v = *o
	}
	var err error
	fail := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	if v.MaxBytes == 0 {
		v.MaxBytes = DefaultMaxBytes
	}
	if v.Place < Auto || v.Place > Temp {
		fail("Options.Place is %d: use Auto, Memfd, Named or Temp", int(v.Place))
	}
	if v.Reserve < 0 {
		fail("Options.Reserve is %d: give bytes to leave free, 0 for none", v.Reserve)
	}
	if v.TempFolder != "" && !filepath.IsAbs(v.TempFolder) {
		fail("Options.TempFolder is %q: give an absolute path, for all processes must find it", v.TempFolder)
	}
	if env := os.Getenv(tempVariable); v.TempFolder == "" && env != "" && !filepath.IsAbs(env) {
		fail("%s is %q: give an absolute path, for all processes must find it", tempVariable, env)
	}
	if v.Place == Auto && (v.TempFolder != "" || os.Getenv(tempVariable) != "") {
		v.Place = Temp
	}
	for _, r := range v.Roots {
		if !filepath.IsAbs(r) {
			fail("Options.Roots has %q: give absolute paths", r)
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
