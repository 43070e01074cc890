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
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/publish"
)

// spool is the file that collects the results of one output, in any order, until the output can be
// laid out: `.NAME.leat-part`. docs/format/spool.md describes it byte by byte. A lock on it, which
// the kernel releases when its holder ends, keeps two runs on one machine from writing the same
// output.
type spool struct {
	f    *os.File
	path string
	// lock is next to the output if the spool itself is elsewhere; nil otherwise.
	lock *spool
	// nonce distinguishes this file's records from pixels that contain a record of another.
	nonce nonce

	mu  sync.Mutex
	end int64
}

// size returns the number of bytes that are written or being written.
func (s *spool) size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

const (
	spoolMagic   = "LEATPART"
	spoolVersion = 3
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
	recordCoding   = 4 // number is the index of the chosen coding among the candidates
)

// nonce is part of the checksum of each record's head.
type nonce [nonceBytes]byte

func (n nonce) sum(head []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, n[:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spoolPath returns the path of an output's spool: next to it, or in tempDir under a name that
// includes a sum of the output's path, since outputs in several directories may have the same name.
func spoolPath(output, tempDir string) string {
	if tempDir == "" {
		return publish.HiddenName(output, spoolSuffix)
	}
	sum := fmt.Sprintf(".%08x", crc32.Checksum([]byte(output), castagnoli))
	return publish.HiddenName(filepath.Join(tempDir, filepath.Base(output)), sum+spoolSuffix)
}

const spoolSuffix = ".leat-part"

// openSpool opens and locks the spool of an output, and creates it if there is none. Its contents
// from an earlier run stay until clear. output is an absolute path without links, so that two runs
// use the same path for the same file. With a tempDir, an empty file next to the output holds the
// lock that excludes other runs.
func openSpool(output, tempDir string) (*spool, error) {
	if tempDir == "" {
		return openSpoolIn(output, "")
	}
	lock, err := openSpoolIn(output, "")
	if err != nil {
		return nil, err
	}
	s, err := openSpoolIn(output, tempDir)
	if err != nil {
		return nil, errors.Join(err, lock.leave())
	}
	s.lock = lock
	return s, nil
}

// openSpoolIn is openSpool without the file next to the output.
func openSpoolIn(output, tempDir string) (*spool, error) {
	s := &spool{path: spoolPath(output, tempDir)}
	var err error
	if s.f, err = openLocked(output, s.path); err != nil {
		return nil, err
	}
	return s, nil
}

// openLocked opens the file at path, creating it if necessary, and locks it exclusively.
func openLocked(output, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, spoolError(output, path, err)
		}
		if locked, err := lockNamed(f, path); locked {
			return f, nil
		} else if err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, inUseError(output, path)
			}
			return nil, spoolError(output, path, err)
		}
		f.Close()
	}
}

// lockNamed locks an open file and reports whether path still leads to it: the run that held the
// lock may have removed the name between our open and our lock.
func lockNamed(f *os.File, path string) (bool, error) {
	var err error
	for try := 0; ; try++ {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || try == 5 {
			break
		}
		time.Sleep(10 * time.Millisecond) // ListSpools holds a lock for an instant
	}
	if err != nil {
		return false, err
	}
	fault.Point("apply.locked")
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, named), err
}

// inUseError returns the error for an output that another run is writing.
func inUseError(output, path string) error {
	return fmt.Errorf("%s is being written by another run of leat (it holds %s): wait for it or end it", output, path)
}

// spoolError words an error of the spool for users.
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

// start writes the header: the description of the run, as JSON. It writes the magic number last: a
// file that begins with zeros belongs to a run that was killed here.
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
	if _, err := s.f.WriteAt(head[len(spoolMagic):], int64(len(spoolMagic))); err != nil {
		return err
	}
	fault.Point("apply.described")
	if _, err := s.f.WriteAt(head[:len(spoolMagic)], 0); err != nil {
		return err
	}
	fault.Point("apply.started")
	s.mu.Lock()
	s.end = int64(len(head))
	s.mu.Unlock()
	return nil
}

// append adds a record whose payload is meta followed by data, and returns the offset of data. It
// is safe for concurrent use.
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
	// Write the head last: a record without one was torn.
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

// clear removes all contents. A resumed run treats an empty spool as one that was just created, so
// all spools are cleared before any is removed: a process killed in between leaves nothing that
// such a run would reject.
func (s *spool) clear() error {
	err := s.f.Truncate(0)
	fault.Point("apply.cleared")
	return err
}

// remove removes and closes the spool: its name first, so that no other run opens it in between.
func (s *spool) remove() error {
	err := os.Remove(s.path)
	fault.Point("apply.removed")
	err = errors.Join(err, s.f.Close())
	if s.lock != nil {
		err = errors.Join(err, s.lock.remove())
	}
	return err
}

// removeSpools removes several spools, see clear.
func removeSpools(list []*spool) error {
	var errs []error
	for _, s := range list {
		errs = append(errs, s.clear())
	}
	for _, s := range list {
		errs = append(errs, s.remove())
	}
	return errors.Join(errs...)
}

// leaveSpools closes several spools and keeps their contents.
func leaveSpools(list []*spool) error {
	var errs []error
	for _, s := range list {
		errs = append(errs, s.leave())
	}
	return errors.Join(errs...)
}

// leave closes the spool and keeps its contents for a resumed run. It removes an empty file.
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
