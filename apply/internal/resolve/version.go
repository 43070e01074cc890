package resolve

import (
	"context"
	"fmt"
	neturl "net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/storeurl"
	"leat/objstore"
	"leat/raster"
)

// openings is how often opening is tried while a file is being replaced.
const openings = 5

// open opens the file by the job's name for it, and records its version. The version is checked
// before and after: if that of a later file were recorded, a resumed run could mix blocks of two.
func (f *File) open(ctx context.Context, open Opener,
	name string) error {
	local := LocalFile(f.From)
	for range openings {
		before := LocalVersion(local)
		src, err := open(ctx, name)
		if err != nil {
			return err
		}
		if f.Version = versionOf(src, f.From); sameVersion(&f.Version, &before) {
			f.Source, f.Owned = src, true
			if storeurl.Is(f.From) {
				f.Remote, _ = src.(Remote)
			}
			return nil
		}
		if err := src.Close(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s, or one of its sidecars, is %w", f.Path, outcome.ErrBeingWritten)
}

// sameVersion reports whether the version of an opened file is the same as before opening.
func sameVersion(v, before *jobspec.FileVersion) bool {
	if v.Remote {
		return true
	}
	for _, suffix := range checkedSidecars {
		if v.Sidecars[suffix] != before.Sidecars[suffix] {
			return false
		}
	}
	return v.FileState == before.FileState
}

// versionOf returns the version that an open source reads: the store's, or that of the local files.
func versionOf(src raster.Source, from string) jobspec.FileVersion {
	if r, ok := src.(Remote); ok {
		v := jobspec.FileVersion{FileState: stateInStore(r.Version()), Remote: true}
		if a, ok := src.(SidecarVersioner); ok {
			for suffix, info := range a.SidecarVersions() {
				v.Add(suffix, stateInStore(info))
			}
		}
		return v
	}
	local := LocalFile(from)
	v := LocalVersion(local)
	// GDAL's rasters may consist of many files.
	if l, ok := src.(interface{ FileNames() ([]string, error) }); ok {
		names, _ := l.FileNames()
		for _, name := range names {
			name = Absolute(name)
			key := name
			if local != "" {
				key = strings.TrimPrefix(name, local)
			}
			// overviews of inputs are not read
			if _, there := v.Sidecars[key]; !there && key != "" && !strings.HasSuffix(key, ".ovr") {
				s, _ := stateOf(name)
				v.Add(key, s)
			}
		}
	}
	return v
}

// checkedSidecars are the suffixes of the sidecars that change the meaning of a raster's pixels.
var checkedSidecars = []string{".msk", ".aux.xml"}

// LocalVersion returns the version of the file at a path; the zero value for "".
func LocalVersion(path string) (v jobspec.FileVersion) {
	if path == "" {
		return v
	}
	v.FileState, _ = stateOf(path)
	for _, suffix := range checkedSidecars {
		if s, ok := stateOf(path + suffix); ok {
			v.Add(suffix, s)
		}
	}
	return v
}

// LocalFile returns the path of an input if it is a local file, and "" if it is in a store.
func LocalFile(from string) string {
	if !storeurl.Is(from) {
		return Absolute(from)
	}
	if scheme, _, _ := strings.Cut(from, "://"); !strings.EqualFold(scheme, "file") {
		return ""
	}
	dir, name, err := objstore.Split(from)
	if err != nil {
		return ""
	}
	u, err := neturl.Parse(dir)
	if err != nil {
		return ""
	}
	return path.Join(u.Path, name)
}

// stateOf returns the state of a regular file, and false if there is none.
func stateOf(path string) (jobspec.FileState, bool) {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return jobspec.FileState{}, false
	}
	s := jobspec.FileState{Bytes: st.Size(), MTime: st.ModTime().UTC().Format(jobspec.TimeFormat)}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.Inode = sys.Ino
	}
	return s, true
}

func stateInStore(i objstore.Info) jobspec.FileState {
	s := jobspec.FileState{Bytes: i.Size, ETag: i.ETag, Weak: i.AmbiguousVersion}
	if !i.ModTime.IsZero() {
		s.MTime = i.ModTime.UTC().Format(jobspec.TimeFormat)
	}
	return s
}

// Absolute returns the absolute form of a path, or the path itself where there is none.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
