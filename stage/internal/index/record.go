//go:build unix

package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lockfile"
	"leat/stage/internal/store"
)

// Key is a hash of an object's source and name.
type Key [16]byte

// Version is a hash that identifies a version of an object.
type Version [16]byte

func (k Key) bucket() uint32 { return *(*uint32)(unsafe.Pointer(&k[8])) % buckets }

// bucket returns the bucket of the record's key. The load is atomic so that it stays in order with
// those of seq and next: another process may be reusing the record.
func (r *record) bucket() uint32 {
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.key[8]))) % buckets
}

// lock returns the lock number of the key.
func (k Key) lock() int64 { return lockKeys | int64(*(*uint64)(unsafe.Pointer(&k[0]))>>3) }

// Object describes a staged object.
type Object struct {
	Key      Key
	Version  Version
	Size     int64 // size in bytes
	Charge   int64 // bytes on the disk
	Place    Place
	CRC      uint32 // CRC-32C of its bytes
	Name     string // source and name, without secrets
	ETag     string
	Modified time.Time // at the source; zero: unknown
	Checked  time.Time // when the source was last seen to have this version
	Used     time.Time
	Sound    bool // written or verified since the machine was booted
}

func (l *Index) bucket(i uint32) *bucket { return at[bucket](l.head, bucketsAt+4*int(i)) }

// record is mapped for a record that is mapped already, or that can be left out where it can't be.
func (l *Index) record(i uint32) *record {
	r, _ := l.mapped(i)
	return r
}

// mapped returns record i and maps its chunk on first use. The error is the system's, if it can't
// be mapped. Without an error, nil means that the index has no such record: a damaged one led to
// it.
func (l *Index) mapped(i uint32) (*record, error) {
	n := i / chunkCount
	if n >= maxChunks {
		return nil, nil
	}
	c := l.chunks[n].Load()
	if c == nil {
		var err error
		if c, err = l.mapChunk(n); c == nil {
			return nil, err
		}
	}
	return &c[i%chunkCount], nil
}

func (l *Index) mapChunk(n uint32) (*[chunkCount]record, error) {
	l.mapMu.Lock()
	defer l.mapMu.Unlock()
	if c := l.chunks[n].Load(); c != nil {
		return c, nil
	}
	if (n+1)*chunkCount > l.h.capacity.Load() {
		return nil, nil
	}
	var b []byte
	err := fault.Error("index.mapping")
	if err == nil {
		b, err = unix.Mmap(l.fd, recordsAt+int64(n)*chunkSize, chunkSize, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
	}
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", l.dir.FilePath("index"), err)
	}
	c := at[[chunkCount]record](b, 0)
	l.chunks[n].Store(c)
	return c, nil
}

// mapAll maps the records up to number n.
func (l *Index) mapAll(n uint32) error {
	for i := uint32(0); i < n; i += chunkCount {
		if _, err := l.mapped(i); err != nil {
			return err
		}
	}
	return nil
}

// alloc returns an unused record.
func (l *Index) alloc() (uint32, *record, error) {
	for {
		top := l.h.free.Load()
		i := uint32(top)
		if i == 0 {
			break
		}
		r, err := l.mapped(i)
		if r == nil {
			return 0, nil, cmp.Or(err, ErrFull)
		}
		if l.h.free.CompareAndSwap(top, (top>>32+1)<<32|uint64(r.next.Load())) {
			return i, r, nil
		}
	}
	for {
		i := l.h.next.Load()
		if i >= l.h.capacity.Load() {
			if err := l.grow(); err != nil {
				return 0, nil, err
			}
			continue
		}
		r, err := l.mapped(i)
		if r == nil {
			return 0, nil, cmp.Or(err, ErrFull)
		}
		if l.h.next.CompareAndSwap(i, i+1) {
			return i, r, nil
		}
	}
}

// grow adds a chunk to the index unless another process has done so meanwhile.
func (l *Index) grow() error {
	l.mapMu.Lock()
	defer l.mapMu.Unlock()
	if err := l.wait(context.Background(), lockfile.Write, lockGrow); err != nil {
		return err
	}
	defer func() { _, _ = l.locks.Try(lockfile.Free, lockGrow, 1) }()
	n := l.h.capacity.Load()
	if n > l.h.next.Load() {
		return nil
	}
	if n/chunkCount >= maxChunks {
		return ErrFull
	}
	if err := allocate(l.fd, recordsAt+int64(n)*recordSize, chunkSize); err != nil {
		return fmt.Errorf("%w: %s can't grow: %w", ErrFull, l.dir.FilePath("index"), err)
	}
	fault.Point("index.grown")
	l.h.capacity.Store(n + chunkCount)
	return nil
}

// put frees record i and those that hold more of its text. It must be in no chain.
func (l *Index) put(i uint32) {
	for i != 0 {
		r := l.record(i)
		if r == nil {
			return
		}
		more := r.more.Load()
		r.more.Store(0)
		r.seq.Store(nextUse(r.seq.Load(), stateFree))
		for {
			top := l.h.free.Load()
			r.next.Store(uint32(top))
			if l.h.free.CompareAndSwap(top, (top>>32+1)<<32|uint64(i)) {
				break
			}
		}
		i = more
	}
}

// write writes an object into an unlinked record and allocates more records for its text as needed.
func (l *Index) write(r *record, o Object) error {
	text := o.Name + o.ETag
	if len(text) > maxTextLen {
		return fmt.Errorf("%w: name and entity tag have %d bytes", ErrFull, len(text))
	}
	r.key, r.version, r.size, r.charge, r.place, r.crc = o.Key, o.Version, o.Size, o.Charge, o.Place, o.CRC
	r.epoch.Store(l.h.epoch.Load())
	r.used.Store(time.Now().UnixNano())
	r.checked.Store(nanos(o.Checked))
	r.changed = nanos(o.Modified)
	r.tag, r.length = uint32(len(o.ETag)), uint32(len(text))
	r.more.Store(0)
	text = text[copy(r.text[:], text):]
	for last := r; text != ""; {
		i, m, err := l.alloc()
		if err != nil {
			return err
		}
		m.more.Store(0)
		m.seq.Store(nextUse(m.seq.Load(), stateMore))
		text = text[copy(m.moreText(), text):]
		last.more.Store(i)
		last = m
	}
	return nil
}

func (r *record) moreText() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), recordSize-textMore)), textMore)
}

// sum returns the checksum of the fields that stay constant during a use. It is never 0.
func (r *record) sum() uint32 {
	b := unsafe.Slice((*byte)(unsafe.Pointer(r)), recordSize)
	sum := crc32.Update(0, castagnoli, b[unsafe.Offsetof(r.more):unsafe.Offsetof(r.epoch)])
	sum = crc32.Update(sum, castagnoli, b[unsafe.Offsetof(r.changed):])
	return max(sum, 1)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// intact reports whether a record with that seq is as it was written. For one without a checksum it
// checks the numbers alone.
func (r *record) intact(seq uint64) bool {
	if sum := uint32(seq >> sumShift); sum != 0 {
		return sum == r.sum()
	}
	return r.size >= 0 && r.charge >= 0 && r.place.Check() == nil &&
		(!r.place.Packed() || r.charge <= store.SegmentSize-r.place.Offset)
}

// errDamaged is returned for a record that is not as it was written. Its fields must not be used.
var errDamaged = errors.New("damaged record")

// damaged marks the index as unclean because of a damaged record and returns errDamaged. The next
// process that opens the directory alone removes the record; until then its object is not found,
// and its space stays counted.
func (l *Index) damaged() error {
	l.h.unclean.Store(1)
	return errDamaged
}

// count returns the number of records that may be in use, including record 0.
func (l *Index) count() uint32 { return min(l.h.next.Load(), l.h.capacity.Load()) }

// read returns the object of a record that can't change. The error is that of mapped.
func (l *Index) read(r *record) (Object, error) {
	o := Object{Key: r.key, Version: r.version, Size: r.size, Charge: r.charge, Place: r.place, CRC: r.crc,
		Modified: timeOf(r.changed), Checked: timeOf(r.checked.Load()), Used: timeOf(r.used.Load()),
		Sound: r.epoch.Load() == l.h.epoch.Load()}
	n := int(min(r.length, maxTextLen))
	b := append(make([]byte, 0, n), r.text[:min(n, textHere)]...)
	for i := r.more.Load(); i != 0 && len(b) < n; {
		m, err := l.mapped(i)
		if err != nil {
			return Object{}, err
		}
		if m == nil {
			break
		}
		b = append(b, m.moreText()[:min(n-len(b), textMore)]...)
		i = m.more.Load()
	}
	tag := min(int(r.tag), len(b))
	o.Name, o.ETag = string(b[:len(b)-tag]), string(b[len(b)-tag:])
	return o, nil
}

// nanos returns a time as stored in the index: 0 for none, and for times more than 292 years from
// 1970.
func nanos(t time.Time) int64 {
	const most = math.MaxInt64/int64(time.Second) - 1
	if s := t.Unix(); s > most || s < -most {
		return 0
	}
	return t.UnixNano()
}

func timeOf(nanos int64) (t time.Time) {
	if nanos != 0 {
		t = time.Unix(0, nanos)
	}
	return t
}
