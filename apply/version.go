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

// Accompanied is a [Remote] with sidecars that change the meaning of its pixels, such as a mask.
// Without it, a run can't detect that one of them was replaced, before it resumes or between the
// workers that read it.
type Accompanied interface {
	// BesideVersions returns the store's description of the sidecars, by the suffix after the
	// raster's name.
	BesideVersions() map[string]objstore.Info
}

// exactTime is the format of modification times that are compared.
const exactTime = "2006-01-02T15:04:05.000000000Z"

// fileState identifies one state of a file.
type fileState struct {
	Bytes int64  `json:"bytes"`
	MTime string `json:"mtime,omitempty"`
	Inode uint64 `json:"inode,omitempty"`
	ETag  string `json:"etag,omitempty"` // from a store
	Weak  bool   `json:"weak,omitempty"` // another version may have the same time and tag, see objstore.Info
}

// known reports whether the state identifies a version.
func (s fileState) known() bool { return !s.Weak && (s.MTime != "" || s.ETag != "") }

// fileVersion is the state of an input's file when it was opened, and that of the sidecars that
// change the meaning of its pixels: by suffix, or by path.
type fileVersion struct {
	fileState
	Sidecars map[string]fileState `json:"beside,omitempty"`
	remote   bool                 // the state is that of an object in a store
	given    bool                 // the file is a Source of the caller, who is responsible for it
}

// known reports whether another version of the file would be detected. A name of GDAL's that is not
// a file is identified by its files.
func (v *fileVersion) known() bool {
	for _, s := range v.Sidecars {
		if !s.known() {
			return false
		}
	}
	return v.given || v.fileState.known() || len(v.Sidecars) > 0
}

// sidecarName returns the name of a sidecar for messages.
func sidecarName(file, key string) string {
	if path.IsAbs(key) {
		return key
	}
	return file + key
}

// openings is how often opening is tried while a file is being replaced.
const openings = 5

// open opens the file by the job's name for it, and records its version. The version is checked
// before and after: if that of a later file were recorded, a resumed run could mix blocks of two.
func (f *inputFile) open(ctx context.Context, open func(ctx context.Context, path string) (raster.Source, error),
	name string) error {
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
	return fmt.Errorf("%s, or one of its sidecars, is being written: wait until it is complete", f.path)
}

// since reports whether the version is the same as before opening.
func (v *fileVersion) since(before fileVersion) bool {
	if v.remote {
		return true
	}
	for _, suffix := range checkedSidecars {
		if v.Sidecars[suffix] != before.Sidecars[suffix] {
			return false
		}
	}
	return v.fileState == before.fileState
}

// versionOf returns the version that an open source reads: the store's, or that of the local files.
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
			// overviews of inputs are not read
			if _, there := v.Sidecars[key]; !there && key != "" && !strings.HasSuffix(key, ".ovr") {
				s, _ := stateOf(name)
				v.add(key, s)
			}
		}
	}
	return v
}

// checkedSidecars are the suffixes of the sidecars that change the meaning of a raster's pixels.
var checkedSidecars = []string{".msk", ".aux.xml"}

// localVersion returns the version of the file at a path; the zero value for "".
func localVersion(path string) (v fileVersion) {
	if path == "" {
		return v
	}
	v.fileState, _ = stateOf(path)
	for _, suffix := range checkedSidecars {
		if s, ok := stateOf(path + suffix); ok {
			v.add(suffix, s)
		}
	}
	return v
}

func (v *fileVersion) add(key string, s fileState) {
	if v.Sidecars == nil {
		v.Sidecars = map[string]fileState{}
	}
	v.Sidecars[key] = s
}

// localFile returns the path of an input if it is a local file, and "" if it is in a store.
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

// stateOf returns the state of a regular file, and false if there is none.
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
	s := fileState{Bytes: i.Size, ETag: i.ETag, Weak: i.Weak}
	if !i.ModTime.IsZero() {
		s.MTime = i.ModTime.UTC().Format(exactTime)
	}
	return s
}

// differs describes how the files that a worker opened differ from those of the run; "" if they do
// not. Only files with pixels and masks count: the metadata are part of the run's description.
func (v *fileVersion) differs(now *fileVersion, path string) string {
	if text := v.fileState.differs(now.fileState); text != "" {
		return path + " " + text
	}
	keys := map[string]bool{}
	for key := range v.Sidecars {
		keys[key] = true
	}
	for key := range now.Sidecars {
		keys[key] = true
	}
	for _, key := range sortedKeys(keys) {
		was, had := v.Sidecars[key]
		is, has := now.Sidecars[key]
		name := sidecarName(path, key)
		switch {
		case strings.HasSuffix(key, ".aux.xml"): // viewers write statistics there
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
		return fmt.Sprintf("has %d bytes here, and %d for the run: it is another file, or was changed", now.Bytes,
			s.Bytes)
	case now.ETag != s.ETag:
		return fmt.Sprintf("has the tag %s here, and %s for the run: it is another object, or was changed", now.ETag,
			s.ETag)
	case now.MTime != "" && s.MTime != "" && !sameSecond(now.MTime,
		s.MTime): // network file systems round times differently
		return fmt.Sprintf("was changed at %s here, and at %s for the run: it is another file, or was changed",
			now.MTime, s.MTime)
	}
	return ""
}

func sameSecond(a, b string) bool {
	x, err1 := time.Parse(exactTime, a)
	y, err2 := time.Parse(exactTime, b)
	return err1 == nil && err2 == nil && x.Sub(y).Abs() <= time.Second
}
