package stage

import (
	"crypto/sha256"
	"encoding/binary"

	"leat/objstore"
	"leat/stage/internal/index"
)

// keyOf returns the key of an object: a hash of its id.
func keyOf(id string) (k index.Key) {
	sum := sha256.Sum256([]byte(id))
	copy(k[:], sum[:])
	return k
}

// The first byte that versionOf hashes. Earlier versions of leat used 0 for modification times that
// might not identify a version; objects staged with it are fetched again.
const (
	hashTag  = 1
	hashTime = 2
	hashWeak = 3
)

// versionOf returns a hash that identifies a version of an object: of the store's entity tag, or
// else of size and modification time. An Info that is not Versioned never has the hash of one that
// is.
func versionOf(i objstore.Info) (v index.Version) {
	h := sha256.New()
	var n [17]byte
	binary.LittleEndian.PutUint64(n[1:], uint64(i.Size))
	if !i.ModTime.IsZero() {
		binary.LittleEndian.PutUint64(n[9:], uint64(i.ModTime.UnixNano()))
	}
	switch {
	case !i.Versioned():
		n[0] = hashWeak
		h.Write(n[:])
		h.Write([]byte(i.ETag))
	case i.ETag != "":
		n[0] = hashTag
		h.Write(n[:1])
		h.Write([]byte(i.ETag))
	default:
		n[0] = hashTime
		h.Write(n[:])
	}
	copy(v[:], h.Sum(nil))
	return v
}
