package jobspec

import (
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// TimeFormat is the format of FileState.MTime, in UTC.
const TimeFormat = "2006-01-02T15:04:05.000000000Z"

// FileState identifies one state of a file.
type FileState struct {
	Bytes int64  `json:"bytes"`
	MTime string `json:"mtime,omitempty"`
	Inode uint64 `json:"inode,omitempty"`
	ETag  string `json:"etag,omitempty"` // from a store
	Weak  bool   `json:"weak,omitempty"` // another version may have the same time and tag, see objstore.Info
}

// known reports whether the state identifies a version.
func (s FileState) known() bool { return !s.Weak && (s.MTime != "" || s.ETag != "") }

// Changes describes how a file differs from its earlier state s; it returns "" if it does not.
func (s FileState) Changes(now FileState) string {
	switch {
	case s == now:
		return ""
	case s.MTime != now.MTime && now.MTime != "":
		return "was changed at " + timeText(now.MTime)
	case s.Bytes != now.Bytes:
		return fmt.Sprintf("had %d bytes and has %d", s.Bytes, now.Bytes)
	case s.ETag != now.ETag:
		return fmt.Sprintf("is another version (its tag was %s and is %s)", s.ETag, now.ETag)
	case s.Weak:
		return "had just been changed when it was opened, and may have been replaced within the same second"
	}
	return "is another file than before, of the same size and time"
}

func timeText(exact string) string {
	t, err := time.Parse(TimeFormat, exact)
	if err != nil {
		return exact
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// mismatch describes how a file on another machine differs from the run's; it returns "" if it does
// not.
func (s FileState) mismatch(other FileState) string {
	switch {
	case other.Bytes != s.Bytes:
		return fmt.Sprintf("has %d bytes here, and %d for the run: it is another file, or was changed", other.Bytes,
			s.Bytes)
	case other.ETag != s.ETag:
		return fmt.Sprintf("has the tag %s here, and %s for the run: it is another object, or was changed", other.ETag,
			s.ETag)
	case other.MTime != "" && s.MTime != "" && !sameSecond(other.MTime, s.MTime): // network file systems round times
		return fmt.Sprintf("was changed at %s here, and at %s for the run: it is another file, or was changed",
			other.MTime, s.MTime)
	}
	return ""
}

func sameSecond(a, b string) bool {
	x, err1 := time.Parse(TimeFormat, a)
	y, err2 := time.Parse(TimeFormat, b)
	return err1 == nil && err2 == nil && x.Sub(y).Abs() <= time.Second
}

// FileVersion is the state of an input's file when it was opened, and that of the sidecars that
// change the meaning of its pixels: by suffix, or by path.
type FileVersion struct {
	FileState
	Sidecars map[string]FileState `json:"beside,omitempty"`
	Remote   bool                 `json:"-"` // the state is that of an object in a store
	Given    bool                 `json:"-"` // the caller passed an open source and is responsible for it
}

// Add adds the state of a sidecar.
func (v *FileVersion) Add(key string, s FileState) {
	if v.Sidecars == nil {
		v.Sidecars = map[string]FileState{}
	}
	v.Sidecars[key] = s
}

// known reports whether another version of the file would be detected. A name of GDAL's that is not
// a file is identified by its files.
func (v *FileVersion) known() bool {
	for _, s := range v.Sidecars {
		if !s.known() {
			return false
		}
	}
	return v.Given || v.FileState.known() || len(v.Sidecars) > 0
}

// Mismatch describes how the files that a worker opened differ from those of the run, v; it returns
// "" if they do not. Only files with pixels and masks count: the metadata are part of the run's
// description.
func (v *FileVersion) Mismatch(other *FileVersion, path string) string {
	if text := v.FileState.mismatch(other.FileState); text != "" {
		return path + " " + text
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(v.Sidecars)), maps.Keys(other.Sidecars))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		ours, had := v.Sidecars[key]
		theirs, has := other.Sidecars[key]
		name := SidecarName(path, key)
		switch {
		case strings.HasSuffix(key, ".aux.xml"): // viewers write statistics there
		case !had:
			return name + " is here, and was not there for the run: it is another file, or was changed"
		case !has:
			return name + " is not here, and was there for the run: it is another file, or was changed"
		default:
			if text := ours.mismatch(theirs); text != "" {
				return name + " " + text
			}
		}
	}
	return ""
}

// ContentSidecars yields the sidecars that hold pixels. It leaves out metadata, which was read when
// the raster was opened and which viewers may rewrite with statistics.
func (v *FileVersion) ContentSidecars() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, key := range slices.Sorted(maps.Keys(v.Sidecars)) {
			if !strings.HasSuffix(key, ".aux.xml") && !yield(key) {
				return
			}
		}
	}
}

// SidecarName returns the name of a sidecar for messages.
func SidecarName(file, key string) string {
	if path.IsAbs(key) {
		return key
	}
	return file + key
}
