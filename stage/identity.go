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
	var n [17]byte
	binary.LittleEndian.PutUint64(n[1:], uint64(i.Size))
	if !i.ModTime.IsZero() {
		binary.LittleEndian.PutUint64(n[9:], uint64(i.ModTime.UnixNano()))
	}
	var buffer [128]byte
	b := buffer[:0]
	switch {
	case !i.Versioned():
		n[0] = hashWeak
		b = append(append(b, n[:]...), i.ETag...)
	case i.ETag != "":
		b = append(append(b, hashTag), i.ETag...)
	default:
		n[0] = hashTime
		b = append(b, n[:]...)
	}
	sum := sha256.Sum256(b)
	copy(v[:], sum[:])
	return v
}
