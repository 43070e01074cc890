package objstore

import (
	"context"
	"io"
	"iter"
	"time"
)

// Info describes one version of an object.
type Info struct {
	Name string // within its bucket, without a leading slash; for http with the query, as requested
	Size int64  // bytes; -1 where the store does not report it
	// ETag is the store's name of this version without quotes; "" where there is none or it is
	// weak. It is not a checksum.
	ETag    string
	ModTime time.Time // zero where the store does not report it
	// AmbiguousVersion is true if two versions may share ETag and ModTime: both depend on a clock,
	// and the object had just changed.
	AmbiguousVersion bool
	MD5              []byte // of the whole object, where the store reports it; else nil
	CRC32C           []byte // likewise, 4 bytes, big-endian
	NoRanges         bool   // the store can't send a part without all bytes before it; set by Read
}

// Versioned reports whether ETag or ModTime identifies this version among all others. If it does
// not, two requests may return different versions undetected.
func (i Info) Versioned() bool { return !i.AmbiguousVersion && (i.ETag != "" || !i.ModTime.IsZero()) }

// strongAfter is the age from which a modification time identifies a version. Servers and some file
// systems (FAT) store times in steps of one or two seconds, and two versions written within one
// step have the same time (RFC 9110, section 8.8.2.2).
const strongAfter = 2 * time.Second

// recent reports whether an object changed so recently that its next version may have the same
// time. now comes from the clock that stamps the objects.
func recent(changed, now time.Time) bool { return now.Sub(changed) < strongAfter }

// Source reads objects. All methods may be called concurrently. Each makes a single attempt; Retry
// makes several.
type Source interface {
	// ID returns a permanent name of an object, the same in every process: a URL without userinfo
	// and signatures, which may be printed and stored.
	ID(name string) string
	// Stat returns the current version. The error is fs.ErrNotExist if the object is missing.
	Stat(ctx context.Context, name string) (Info, error)
	// Read opens length bytes from offset, or fewer if the object ends earlier; length -1 means up
	// to the object's end. Info describes the whole object. An offset at or past the object's end
	// gives no bytes and no error. If match is not nil and the object is another version, the error
	// is ErrChanged. The body ends with io.ErrUnexpectedEOF if the store sends less than it
	// announced. The caller closes the body; cancelling ctx ends it.
	Read(ctx context.Context, name string, offset, length int64, match *Info) (Info, io.ReadCloser, error)
}

// Lister is implemented by a Source that can list its objects.
type Lister interface {
	// List yields all objects whose names begin with prefix, ordered by name. It requests all
	// pages.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// Uploader is implemented by a Source that can write objects.
type Uploader interface {
	// Upload writes size bytes of r as an object, which appears under its name complete or not at
	// all. Large objects are sent in parts, which are read from r in parallel.
	Upload(ctx context.Context, name string, r io.ReaderAt, size int64, o UploadOptions) error
}

// UploadOptions configure Upload.
type UploadOptions struct {
	// IfAbsent keeps an existing object and returns fs.ErrExist. A store without such a condition
	// ignores it; Bucket.Upload also checks before it uploads.
	IfAbsent bool
}
