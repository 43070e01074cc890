//go:build unix

package store

import "io"

// ReadAt reads bytes that were written, before Commit. Bytes beyond the written ones are undefined.
func (d *Writer) ReadAt(b []byte, at int64) (int, error) {
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
