package ranged

import (
	"hash/crc32"
	"io"
	"slices"
)

// received is the checksum of a run of received bytes.
type received struct {
	at, bytes int64
	sum       uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// note records the checksum of bytes received at an offset if their version is not identified. mu
// is held, or the Reader is not shared yet.
func (r *Reader) note(at int64, data []byte) {
	if !r.info.Versioned() && len(data) > 0 {
		r.came = append(r.came, received{at, int64(len(data)), crc32.Checksum(data, castagnoli)})
	}
}

// Matches reports whether other has the same bytes as all that were received so far. It is for
// objects whose store does not identify versions: other is one version, while the received bytes
// may belong to several. For a versioned object it reports true.
func (r *Reader) Matches(other io.ReaderAt) (bool, error) {
	r.mu.Lock()
	came := slices.Clone(r.came)
	r.mu.Unlock()
	var buf []byte
	for _, c := range came {
		buf = slices.Grow(buf[:0], int(c.bytes))[:c.bytes]
		if n, err := other.ReadAt(buf, c.at); int64(n) < c.bytes {
			if err == io.EOF { // other is shorter
				return false, nil
			}
			return false, err
		}
		if crc32.Checksum(buf, castagnoli) != c.sum {
			return false, nil
		}
	}
	return true, nil
}
