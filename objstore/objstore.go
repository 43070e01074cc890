package objstore

import (
	"context"
	"io"
	"iter"
	"time"
)

// Info is what a store says of one version of an object.
type Info struct {
	Name    string    // in its bucket, without a leading slash; http: with the query, as it is asked for
	Size    int64     // bytes; -1 where the store does not say
	ETag    string    // the store's name of this version, weak ones left out; "" where there is none. It is no checksum.
	ModTime time.Time // zero where the store does not say
	MD5     []byte    // of the whole object, where the store says that it is one; else nil
	CRC32C  []byte    // likewise, 4 bytes, big-endian
	Whole   bool      // the store can't give a part without sending all that lies before it; told by Read
}

// Versioned tells whether the store tells versions of the object apart, other than by their sizes.
func (i Info) Versioned() bool { return i.ETag != "" || !i.ModTime.IsZero() }

// Source is what objects are read from. All methods may be called by many goroutines at once. Each makes a single attempt;
// Retry makes several.
type Source interface {
	// ID names an object for every process and for good, as a URL without userinfo and signatures: it may be printed and stored.
	ID(name string) string
	// Stat asks for the version that the store has now. An object that is not there is fs.ErrNotExist.
	Stat(ctx context.Context, name string) (Info, error)
	// Read opens length bytes from offset, fewer where the object ends before; -1 is all the rest. The Info is the whole object's.
	// An offset at the object's end gives no bytes and no error. With match, another version is ErrChanged.
	// The body ends with io.ErrUnexpectedEOF where the store sends less than it has announced. The caller closes it; ctx ends it.
	Read(ctx context.Context, name string, offset, length int64, match *Info) (Info, io.ReadCloser, error)
}

// Lister is a Source that can tell what it holds.
type Lister interface {
	// List yields all objects whose names begin with prefix, in the order of their names, of as many pages as there are.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// Uploader is a Source that takes objects.
type Uploader interface {
	// Upload writes size bytes of r as an object; under its name it is whole or not there. Large objects go in parts, read by r in parallel.
	Upload(ctx context.Context, name string, r io.ReaderAt, size int64, o UploadOptions) error
}

// UploadOptions say how an object is written.
type UploadOptions struct {
	// IfAbsent: what has the name already stays as it is, and is fs.ErrExist. A store that knows no such condition leaves it out: a Bucket has looked just before.
	IfAbsent bool
}
