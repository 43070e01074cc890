package stage

import (
	"crypto/sha256"
	"encoding/binary"

	"leat/objstore"
	"leat/stage/internal/ledger"
)

// keyOf is the hash of what an object is called everywhere.
func keyOf(id string) (k ledger.Key) {
	sum := sha256.Sum256([]byte(id))
	copy(k[:], sum[:])
	return k
}

// versionOf is the hash of what tells one version of an object from another: the store's entity tag, or else size and time of change.
func versionOf(i objstore.Info) (v ledger.Version) {
	h := sha256.New()
	var n [17]byte
	if i.ETag != "" {
		n[0] = 1
		h.Write(n[:1])
		h.Write([]byte(i.ETag))
	} else {
		binary.LittleEndian.PutUint64(n[1:], uint64(i.Size))
		if !i.ModTime.IsZero() {
			binary.LittleEndian.PutUint64(n[9:], uint64(i.ModTime.UnixNano()))
		}
		h.Write(n[:])
	}
	copy(v[:], h.Sum(nil))
	return v
}
