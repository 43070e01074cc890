package apply

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// spool is the file in which the results of one output gather, in any order, until the output can be
// laid out: `.NAME.leat-part`. docs/format/spool.md draws it byte by byte. A lock on it, freed by the kernel with
// its holder, keeps two runs on one machine from writing the same output.
type spool struct {
	f    *os.File
	path string
	lock *spool // beside the output, where the spool itself is elsewhere; nil otherwise

	mu  sync.Mutex
	end int64
}

const (
	spoolMagic   = "LEATPART"
	spoolVersion = 1
	recordMagic  = 0x4345524c // "LREC"
	recordHead   = 32
)

// Kinds of records.
const (
	recordBlock    = 1 // number is the block's
	recordOverview = 2 // number is the level (upper 16 bits) and the index of the tile of the first plane
	recordTile     = 3 // number as for recordOverview, level 0 included: one tile, encoded again
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spoolPath is where the spool of an output lies: beside it, or in tempDir under a name that also holds a
// sum of the output's path, since outputs of several folders may have one name.
func spoolPath(output, tempDir string) string {
	dir, name := filepath.Split(output)
	if tempDir == "" {
		return filepath.Join(dir, "."+name+".leat-part")
	}
	return filepath.Join(tempDir, fmt.Sprintf(".%s.%08x.leat-part", name, crc32.Checksum([]byte(output), castagnoli)))
}

// createSpool makes the spool of an output, or takes over what a killed run left. output is an absolute path without
// links, so that two runs mean the same file by it. With a tempDir an empty file beside the output bears the
// lock that keeps other runs from it.
func createSpool(output, tempDir string) (*spool, error) {
	if tempDir == "" {
		return createSpoolIn(output, "")
	}
	lock, err := createSpoolIn(output, "")
	if err != nil {
		return nil, err
	}
	s, err := createSpoolIn(output, tempDir)
	if err != nil {
		return nil, errors.Join(err, lock.remove())
	}
	s.lock = lock
	return s, nil
}

// createSpoolIn is createSpool without a file beside the output.
func createSpoolIn(output, tempDir string) (*spool, error) {
	s := &spool{path: spoolPath(output, tempDir)}
	var err error
	if s.f, err = openLocked(output, s.path); err != nil {
		return nil, err
	}
	return s, nil
}

// openLocked opens the file at path, empty and locked by us alone.
func openLocked(output, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, spoolError(output, path, err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("%s is being written by another run of leat (it holds %s): wait for it or end it", output, path)
			}
			return nil, spoolError(output, path, err)
		}
		// The run that held the lock may have removed the name between our open and our lock.
		mine, err1 := f.Stat()
		there, err2 := os.Lstat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, there) {
			if err := f.Truncate(0); err != nil {
				return nil, errors.Join(spoolError(output, path, err), f.Close())
			}
			return f, nil
		}
		f.Close()
	}
}

// spoolError words what went wrong with the unfinished output.
func spoolError(output, path string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%s: the disk of %s is full: free some space, or keep the unfinished output elsewhere (--tmpdir) (%w)", output, dir, err)
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%s: the folder %s does not exist: make it first", output, dir)
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%s: the folder %s can't be written to: %w", output, dir, err)
	}
	return fmt.Errorf("%s: writing %s: %w", output, path, err)
}

// start writes the header: what the run is, as JSON.
func (s *spool) start(description []byte) error {
	head := append([]byte(spoolMagic), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(head[8:], spoolVersion)
	binary.LittleEndian.PutUint32(head[12:], uint32(len(description)))
	head = append(head, description...)
	head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli))
	if _, err := s.f.WriteAt(head, 0); err != nil {
		return err
	}
	s.mu.Lock()
	s.end = int64(len(head))
	s.mu.Unlock()
	return nil
}

// append adds a record whose payload is meta and then data, and returns where in the file data
// begins. Safe for concurrent use.
func (s *spool) append(kind uint8, number uint64, meta, data []byte) (int64, error) {
	var head [recordHead]byte
	binary.LittleEndian.PutUint32(head[0:], recordMagic)
	head[4] = kind
	binary.LittleEndian.PutUint64(head[8:], number)
	binary.LittleEndian.PutUint64(head[16:], uint64(len(meta)+len(data)))
	sum := crc32.Update(crc32.Checksum(meta, castagnoli), castagnoli, data)
	binary.LittleEndian.PutUint32(head[24:], sum)
	binary.LittleEndian.PutUint32(head[28:], crc32.Checksum(head[:28], castagnoli))

	s.mu.Lock()
	at := s.end
	s.end += int64(recordHead + len(meta) + len(data))
	s.mu.Unlock()
	// The header goes last: a record without one was torn.
	if _, err := s.f.WriteAt(data, at+recordHead+int64(len(meta))); err != nil {
		return 0, err
	}
	if _, err := s.f.WriteAt(append(head[:], meta...), at); err != nil {
		return 0, err
	}
	return at + recordHead + int64(len(meta)), nil
}

// remove ends the spool: its name first, so that nobody takes it over while it is being closed.
func (s *spool) remove() error {
	err := errors.Join(os.Remove(s.path), s.f.Close())
	if s.lock != nil {
		err = errors.Join(err, s.lock.remove())
	}
	return err
}
