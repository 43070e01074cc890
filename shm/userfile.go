//go:build unix

package shm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// A user's own .npy file is shared by its path, inode, size and modification time: a file that was
// changed or replaced since is refused. Its memory is the page cache.

// maxHeader exceeds the longest .npy header that npy parses.
const maxHeader = 72 << 10

// OpenFile maps a .npy file of the user's own for reading. If the file does not exist the error
// wraps fs.ErrNotExist. Other processes attach its handle if their Options.Roots contain its
// directory. The file must not become shorter while it is mapped: reading beyond its end is a
// SIGBUS.
func (c *Scope) OpenFile(path string) (*Array, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.running.RUnlock()
	o, v, err := c.pool.openUser(path)
	var missing *fs.PathError
	if errors.As(err, &missing) {
		return nil, err // it holds the path
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c.add(o, v, ReadOnly), nil
}

func (s *Pool) openUser(path string) (*object, view, error) {
	fd, path, err := openFile(path, nil)
	if err != nil {
		return nil, view{}, err
	}
	defer unix.Close(fd)
	h, err := userHandle(fd, path, s.boot)
	if err != nil {
		return nil, view{}, err
	}
	b := make([]byte, min(h.size, maxHeader))
	if err := readFull(fd, b, 0); err != nil {
		return nil, view{}, err
	}
	header, err := parseHeader(b)
	if err != nil {
		return nil, view{}, err
	}
	v := contiguousView(header.Elem, int64(header.DataOffset), header.Shape, header.Fortran)
	if err := v.within(h.size); err != nil {
		return nil, view{}, fmt.Errorf("file is shorter than its array: %w", err)
	}
	if err := s.reg.lock(); err != nil {
		return nil, view{}, err
	}
	o := s.reg.objects[objectKey{h.id, false}]
	if o != nil {
		s.reg.retain(o)
	}
	s.reg.mu.Unlock()
	if o != nil {
		return o, v, nil
	}
	seg, err := mapFD(fd, h.size, ReadOnly)
	if err != nil {
		return nil, view{}, err
	}
	o, err = s.enter(&object{addr: h, seg: seg, length: h.size})
	return o, v, err
}

// mapUser maps the file of a handle.
func (s *Pool) mapUser(h *handle, mode Mode) (*segment, error) {
	if mode == ReadWrite {
		return nil, fmt.Errorf("%w: a user's file", errSealed)
	}
	if len(s.opts.Roots) == 0 {
		return nil, fmt.Errorf("%w: %q", errOutsideRoots, h.path)
	}
	fd, path, err := openFile(h.path, s.opts.Roots)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%w: %w", ErrStale, err)
	}
	if errors.As(err, new(*fs.PathError)) {
		return nil, fmt.Errorf("attaching: %w", err)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	now, err := userHandle(fd, path, s.boot)
	if err != nil {
		return nil, err
	}
	if now.path != h.path || now.dev != h.dev || now.ino != h.ino || now.size != h.size || now.mtime != h.mtime {
		return nil, fmt.Errorf("%w: file %q was changed or replaced", ErrStale, h.path)
	}
	if now.id != h.id {
		return nil, fmt.Errorf("%w: id is not that of file %q", errHandle, h.path)
	}
	return mapFD(fd, h.size, mode)
}

// userHandle describes an open file.
func userHandle(fd int, path string, boot [16]byte) (handle, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return handle{}, fmt.Errorf("stat: %w", err)
	}
	if st.Size == 0 || st.Size > maxMapping {
		return handle{}, errors.New("not a .npy file")
	}
	h := handle{kind: kindUser, boot: boot, size: st.Size, path: path, dev: uint64(st.Dev), ino: st.Ino,
		mtime: st.Mtim.Nano()}
	b := append([]byte("leat user file\x00"), path...)
	for _, n := range []uint64{h.dev, h.ino, uint64(h.size), uint64(h.mtime)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	sum := sha256.Sum256(b)
	h.id = ident(sum[:16])
	return h, nil
}
