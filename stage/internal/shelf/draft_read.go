//go:build unix

package shelf

import "io"

// ReadAt reads bytes that were written, before Commit. The bytes behind what was written are not the object's.
func (d *Draft) ReadAt(b []byte, at int64) (int, error) {
	fd, from, err := d.at(int64(len(b)), at)
	if err != nil {
		return 0, err
	}
	n, err := read(fd, b, from)
	if err != nil {
		return n, explain("reading", d.s.Path(d.place), err)
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
