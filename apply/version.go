package apply

import (
	"context"
	"fmt"
	neturl "net/url"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"leat/objstore"
	"leat/raster"
)

// Accompanied is a [Remote] with files beside it that change what its pixels mean, such as a mask. Without it nobody sees that one of them is replaced between a run
// and another that goes on from it, or between workers that read.
type Accompanied interface {
	// BesideVersions has what the store says of them, by what stands behind the raster's name.
	BesideVersions() map[string]objstore.Info
}

// exactTime is how times of modification are written where they are compared.
const exactTime = "2006-01-02T15:04:05.000000000Z"

// fileState tells one state of a file from others.
type fileState struct {
	Bytes int64  `json:"bytes"`
	MTime string `json:"mtime,omitempty"`
	Inode uint64 `json:"inode,omitempty"`
	ETag  string `json:"etag,omitempty"` // that a store gave it
}

// known reports whether a state can be told from others.
func (s fileState) known() bool { return s.MTime != "" || s.ETag != "" }

// fileVersion is the state in which a file of an input was opened, and that of the files beside it that change what its pixels mean: by what stands
// behind its name, or by their paths.
type fileVersion struct {
	fileState
	Beside map[string]fileState `json:"beside,omitempty"`
	remote bool                 // told by a store
	given  bool                 // the file is a Source of the caller, who answers for it
}

// known reports whether another version of the file would be seen. What is no file, but a name that GDAL has for a part of some, is known by these.
func (v *fileVersion) known() bool {
	for _, s := range v.Beside {
		if !s.known() {
			return false
		}
	}
	return v.given || v.fileState.known() || len(v.Beside) > 0
}

// besideName is what people call a file beside another.
func besideName(file, key string) string {
	if path.IsAbs(key) {
		return key
	}
	return file + key
}

// openings is how often a file that is being replaced is opened.
const openings = 5

// open opens the file by the name that the job has for it, and notes in what state: were that of a later one noted, blocks of two could be mixed by a run
// that goes on from this one.
func (f *inputFile) open(ctx context.Context, open func(ctx context.Context, path string) (raster.Source, error), name string) error {
	local := localFile(f.from)
	for range openings {
		before := localVersion(local)
		src, err := open(ctx, name)
		if err != nil {
			return err
		}
		if f.version = versionOf(src, f.from); f.version.since(before) {
			f.src, f.owned = src, true
			if objstore.IsURL(f.from) {
				f.remote, _ = src.(Remote)
			}
			return nil
		}
		if err := src.Close(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s, or a file beside it, is being written: wait until it is whole", f.path)
}

// since reports whether nothing has changed since a file was looked at.
func (v *fileVersion) since(before fileVersion) bool {
	if v.remote {
		return true
	}
	for _, suffix := range besides {
		if v.Beside[suffix] != before.Beside[suffix] {
			return false
		}
	}
	return v.fileState == before.fileState
}

// versionOf is the version that an open source reads: what it says itself where it is in a store, else what lies under its name.
func versionOf(src raster.Source, from string) fileVersion {
	if r, ok := src.(Remote); ok {
		v := fileVersion{fileState: stateInStore(r.Version()), remote: true}
		if a, ok := src.(Accompanied); ok {
			for suffix, info := range a.BesideVersions() {
				v.add(suffix, stateInStore(info))
			}
		}
		return v
	}
	local := localFile(from)
	v := localVersion(local)
	// GDAL's rasters may consist of many files.
	if l, ok := src.(interface{ FileNames() ([]string, error) }); ok {
		names, _ := l.FileNames()
		for _, name := range names {
			name = absolute(name)
			key := name
			if local != "" {
				key = strings.TrimPrefix(name, local)
			}
			if _, there := v.Beside[key]; !there && key != "" && !strings.HasSuffix(key, ".ovr") { // overviews of inputs are not read
				s, _ := stateOf(name)
				v.add(key, s)
			}
		}
	}
	return v
}

// besides are the suffixes of the files that change what the pixels of the one beside them mean.
var besides = []string{".msk", ".aux.xml"}

// localVersion is the version of the file at a path; none for "".
func localVersion(path string) (v fileVersion) {
	if path == "" {
		return v
	}
	v.fileState, _ = stateOf(path)
	for _, suffix := range besides {
		if s, ok := stateOf(path + suffix); ok {
			v.add(suffix, s)
		}
	}
	return v
}

func (v *fileVersion) add(key string, s fileState) {
	if v.Beside == nil {
		v.Beside = map[string]fileState{}
	}
	v.Beside[key] = s
}

// localFile is the path of an input that is a file of this machine, "" of one in a store.
func localFile(from string) string {
	if !objstore.IsURL(from) {
		return absolute(from)
	}
	if scheme, _, _ := strings.Cut(from, "://"); !strings.EqualFold(scheme, "file") {
		return ""
	}
	folder, name, err := objstore.Split(from)
	if err != nil {
		return ""
	}
	u, err := neturl.Parse(folder)
	if err != nil {
		return ""
	}
	return path.Join(u.Path, name)
}

// stateOf is the state of a plain file; false where there is none.
func stateOf(path string) (fileState, bool) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return fileState{}, false
	}
	s := fileState{Bytes: st.Size(), MTime: st.ModTime().UTC().Format(exactTime)}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.Inode = sys.Ino
	}
	return s, true
}

func stateInStore(i objstore.Info) fileState {
	s := fileState{Bytes: i.Size, ETag: i.ETag}
	if !i.ModTime.IsZero() {
		s.MTime = i.ModTime.UTC().Format(exactTime)
	}
	return s
}

// differs says how the files that a worker opened differ from those that the run has seen; "" where they do not. Only what pixels and masks are read from counts:
// the run has told what metadata say.
func (v *fileVersion) differs(now *fileVersion, path string) string {
	if text := v.fileState.differs(now.fileState); text != "" {
		return path + " " + text
	}
	keys := map[string]bool{}
	for key := range v.Beside {
		keys[key] = true
	}
	for key := range now.Beside {
		keys[key] = true
	}
	for _, key := range sortedKeys(keys) {
		was, had := v.Beside[key]
		is, has := now.Beside[key]
		name := besideName(path, key)
		switch {
		case strings.HasSuffix(key, ".aux.xml"): // programs that show a raster write statistics there
		case !had:
			return name + " is here, and was not there for the run: it is another file, or was changed"
		case !has:
			return name + " is not here, and was there for the run: it is another file, or was changed"
		default:
			if text := was.differs(is); text != "" {
				return name + " " + text
			}
		}
	}
	return ""
}

func (s fileState) differs(now fileState) string {
	switch {
	case now.Bytes != s.Bytes:
		return fmt.Sprintf("has %d bytes here, and %d for the run: it is another file, or was changed", now.Bytes, s.Bytes)
	case now.ETag != s.ETag:
		return fmt.Sprintf("has the tag %s here, and %s for the run: it is another object, or was changed", now.ETag, s.ETag)
	case now.MTime != "" && s.MTime != "" && !sameSecond(now.MTime, s.MTime): // network file systems cut times differently
		return fmt.Sprintf("was changed at %s here, and at %s for the run: it is another file, or was changed", now.MTime, s.MTime)
	}
	return ""
}

func sameSecond(a, b string) bool {
	x, err1 := time.Parse(exactTime, a)
	y, err2 := time.Parse(exactTime, b)
	return err1 == nil && err2 == nil && x.Sub(y).Abs() <= time.Second
}
