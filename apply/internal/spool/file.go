package spool

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"sync"

	"leat/internal/fault"
)

// File is the spool of one output, `.NAME.leat-part`: it collects the results of blocks, in any
// order, until the output can be laid out. docs/format/spool.md describes it byte by byte. A lock
// on it, which the kernel releases when its holder ends, keeps two runs on one machine from writing
// the same output.
type File struct {
	f     *os.File
	path  string
	label string // of the output
	// lock is next to the output if the spool itself is elsewhere; nil otherwise.
	lock *File
	// nonce distinguishes this file's records from pixels that contain a record of another.
	nonce nonce

	mu  sync.Mutex
	end int64
}

// Path returns the path of the spool.
func (s *File) Path() string { return s.path }

// Bytes returns the number of bytes that are written or being written.
func (s *File) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Stat returns the state of the file on disk.
func (s *File) Stat() (os.FileInfo, error) { return s.f.Stat() }

// OSFile returns the open file, for copying tiles.
func (s *File) OSFile() *os.File { return s.f }

// ReadAt reads from the spool, like [io.ReaderAt].
func (s *File) ReadAt(p []byte, offset int64) (int, error) { return s.f.ReadAt(p, offset) }

const (
	magic       = "LEATPART"
	version     = 4
	recordMagic = "LREC"
	nonceBytes  = 8

	// HeaderBytes is the size of the header's fixed part, before the description.
	HeaderBytes = 24
	// HeadBytes is the size of a record's head.
	HeadBytes = 40
)

// Kinds of records.
const (
	KindBlock    = 1 // number is the block's
	KindOverview = 2 // number is the level (upper 16 bits) and the index of the tile of the first plane
	KindTile     = 3 // number as for KindOverview, level 0 included: one tile, encoded again
	KindCoding   = 4 // number is the index of the chosen coding among the candidates
)

// nonce is part of the checksum of each record's head.
type nonce [nonceBytes]byte

func (n *nonce) sum(head []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, n[:])
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Open opens and locks the spool of an output, and creates it if there is none. Its contents from
// an earlier run stay until Clear. If the target has a TempDir, an empty file next to the output
// holds the lock that excludes other runs.
func Open(t Target) (*File, error) {
	if t.TempDir == "" || t.InStore {
		return open(t.SpoolPath(), t.Label)
	}
	lock, err := open(t.LockPath(), t.Label)
	if err != nil {
		return nil, err
	}
	s, err := open(t.SpoolPath(), t.Label)
	if err != nil {
		return nil, errors.Join(err, lock.leave())
	}
	s.lock = lock
	return s, nil
}

func open(path, label string) (*File, error) {
	f, err := openLocked(label, path)
	if err != nil {
		return nil, err
	}
	return &File{f: f, path: path, label: label}, nil
}

// Start writes the header with the description of the run, which is JSON.
func (s *File) Start(description []byte) error {
	if err := s.start(description); err != nil {
		return WriteError(s.label, s.path, err)
	}
	return nil
}

// start writes the magic number last: a file that begins with zeros belongs to a run that was
// killed here.
func (s *File) start(description []byte) error {
	if _, err := rand.Read(s.nonce[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	head := le.AppendUint32([]byte(magic), version)
	head = le.AppendUint32(head, uint32(len(description)))
	head = append(head, s.nonce[:]...)
	head = append(head, description...)
	head = le.AppendUint32(head, crc32.Checksum(head, castagnoli))
	if _, err := s.f.WriteAt(head[len(magic):], int64(len(magic))); err != nil {
		return err
	}
	fault.Point("apply.described")
	if _, err := s.f.WriteAt(head[:len(magic)], 0); err != nil {
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
func (s *File) append(kind uint8, number uint64, meta, data []byte) (int64, error) {
	var head [HeadBytes]byte
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
	s.end += int64(HeadBytes + len(meta) + len(data))
	s.mu.Unlock()
	// Write the head last: a record without one was torn.
	if _, err := s.f.WriteAt(data, at+HeadBytes+int64(len(meta))); err != nil {
		return 0, WriteError(s.label, s.path, err)
	}
	fault.Point("apply.data")
	if _, err := s.f.WriteAt(append(head[:], meta...), at); err != nil {
		return 0, WriteError(s.label, s.path, err)
	}
	fault.Point("apply.record")
	return at + HeadBytes + int64(len(meta)), nil
}

// appendChoice records the chosen coding, before any tile is encoded with it.
func (s *File) appendChoice(candidate int) error {
	if _, err := s.append(KindCoding, uint64(candidate), nil, nil); err != nil {
		return err
	}
	fault.Point("apply.choice")
	return nil
}

// truncate removes what follows the last record, which ends at an offset.
func (s *File) truncate(end int64) error {
	if err := s.f.Truncate(end); err != nil {
		return WriteError(s.label, s.path, err)
	}
	s.mu.Lock()
	s.end = end
	s.mu.Unlock()
	return nil
}

// Clear removes all contents.
func (s *File) Clear() error {
	if err := s.clear(); err != nil {
		return WriteError(s.label, s.path, err)
	}
	return nil
}

// clear removes all contents. A resumed run treats an empty spool as one that was just created, so
// all spools are cleared before any is removed: a process killed in between leaves nothing that
// such a run would reject.
func (s *File) clear() error {
	err := s.f.Truncate(0)
	fault.Point("apply.cleared")
	return err
}

// remove removes and closes the spool: its name first, so that no other run opens it in between.
func (s *File) remove() error {
	err := os.Remove(s.path)
	fault.Point("apply.removed")
	err = errors.Join(err, s.f.Close())
	if s.lock != nil {
		err = errors.Join(err, s.lock.remove())
	}
	return err
}

// Remove removes several spools, see clear.
func Remove(list []*File) error {
	var errs []error
	for _, s := range list {
		errs = append(errs, s.clear())
	}
	for _, s := range list {
		errs = append(errs, s.remove())
	}
	return errors.Join(errs...)
}

// Leave closes several spools and keeps their contents for a resumed run. It removes empty files.
func Leave(list []*File) error {
	var errs []error
	for _, s := range list {
		errs = append(errs, s.leave())
	}
	return errors.Join(errs...)
}

func (s *File) leave() error {
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
