package apply

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
)

// spool is the file in which the results of one output gather, in any order, until the output can be
// laid out: `.NAME.leat-part`. docs/format/spool.md draws it byte by byte. A lock on it, freed by the kernel with
// its holder, keeps two runs on one machine from writing the same output.
type spool struct {
	f    *os.File
	path string
	lock *spool // beside the output, where the spool itself is elsewhere; nil otherwise
	// nonce tells this file's records from pixels that hold a record of another.
	nonce nonce

	mu  sync.Mutex
	end int64
}

// size is how many bytes there are, and are being written.
func (s *spool) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

const (
	spoolMagic   = "LEATPART"
	spoolVersion = 2
	spoolHead    = 24 // before the description
	nonceBytes   = 8
	recordMagic  = "LREC"
	recordHead   = 40
)

// Kinds of records.
const (
	recordBlock    = 1 // number is the block's
	recordOverview = 2 // number is the level (upper 16 bits) and the index of the tile of the first plane
	recordTile     = 3 // number as for recordOverview, level 0 included: one tile, encoded again
	recordCoding   = 4 // number is the place, among the codings that the trial compares, of the one that was chosen
)

// nonce is part of the checksum of each record's head.
type nonce [nonceBytes]byte

func (n nonce) sum(head []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, n[:])
}

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

// openSpool makes the spool of an output, or takes over what another run left: its content where keep says so. output is an absolute path
// without links, so that two runs mean the same file by it. With a tempDir an empty file beside the output bears the
// lock that keeps other runs from it.
func openSpool(output, tempDir string, keep bool) (*spool, error) {
	if tempDir == "" {
		return openSpoolIn(output, "", keep)
	}
	lock, err := openSpoolIn(output, "", keep)
	if err != nil {
		return nil, err
	}
	s, err := openSpoolIn(output, tempDir, keep)
	if err != nil {
		return nil, errors.Join(err, lock.leave())
	}
	s.lock = lock
	return s, nil
}

// openSpoolIn is openSpool without a file beside the output.
func openSpoolIn(output, tempDir string, keep bool) (*spool, error) {
	s := &spool{path: spoolPath(output, tempDir)}
	var err error
	if s.f, err = openLocked(output, s.path); err != nil {
		return nil, err
	}
	if !keep {
		if err := s.f.Truncate(0); err != nil {
			return nil, errors.Join(spoolError(output, s.path, err), s.f.Close())
		}
	}
	return s, nil
}

// openLocked opens the file at path, which is made if need be, locked by us alone.
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
	if _, err := rand.Read(s.nonce[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	head := le.AppendUint32([]byte(spoolMagic), spoolVersion)
	head = le.AppendUint32(head, uint32(len(description)))
	head = append(head, s.nonce[:]...)
	head = append(head, description...)
	head = le.AppendUint32(head, crc32.Checksum(head, castagnoli))
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
	le := binary.LittleEndian
	copy(head[:], recordMagic)
	head[4] = kind
	le.PutUint64(head[8:], number)
	le.PutUint64(head[16:], uint64(len(meta)))
	le.PutUint64(head[24:], uint64(len(data)))
	le.PutUint32(head[32:], crc32.Update(crc32.Checksum(meta, castagnoli), castagnoli, data))
	le.PutUint32(head[36:], s.nonce.sum(head[:36]))

	s.mu.Lock()
	at := s.end
	s.end += int64(recordHead + len(meta) + len(data))
	s.mu.Unlock()
	// The head goes last: a record without one was torn.
	if _, err := s.f.WriteAt(data, at+recordHead+int64(len(meta))); err != nil {
		return 0, err
	}
	fault.Point("apply.data")
	if _, err := s.f.WriteAt(append(head[:], meta...), at); err != nil {
		return 0, err
	}
	fault.Point("apply.record")
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

// leave ends the spool and leaves what is in it to a run that goes on from there. A file with nothing in it is removed.
func (s *spool) leave() error {
	var err error
	if st, serr := s.f.Stat(); serr == nil && st.Size() == 0 {
		err = os.Remove(s.path)
	}
	err = errors.Join(err, s.f.Close())
	if s.lock != nil {
		err = errors.Join(err, s.lock.leave())
	}
	return err
}
