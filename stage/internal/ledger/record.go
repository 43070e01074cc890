//go:build unix

package ledger

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"leat/internal/fault"
	"leat/internal/lease"
)

// Key is a hash of what an object is called everywhere: its source and name.
type Key [16]byte

// Version is a hash of what tells one version of an object from another.
type Version [16]byte

func (k Key) bucket() uint32 { return *(*uint32)(unsafe.Pointer(&k[8])) % buckets }

// lock is the number that stands for the key.
func (k Key) lock() int64 { return lockKeys | int64(*(*uint64)(unsafe.Pointer(&k[0]))>>3) }

// Object is what the books say of an object.
type Object struct {
	Key      Key
	Version  Version
	Size     int64 // bytes of the object
	Charge   int64 // bytes that it takes on the disk
	Place    Place
	CRC      uint32 // CRC-32C of its bytes
	Name     string // source and name, without secrets
	ETag     string
	Modified time.Time // at the source; zero: not known
	Checked  time.Time // when the source was last seen to have this version
	Used     time.Time
	Sound    bool // written since the machine was started: a check of its bytes is not needed
}

func (l *Ledger) bucket(i uint32) *bucket { return at[bucket](l.head, bucketsAt+4*int(i)) }

// record returns record i, mapping its chunk when it is the first of it that this process sees. nil: it can't be had.
func (l *Ledger) record(i uint32) *record {
	n := i / chunkCount
	if n >= maxChunks {
		return nil
	}
	c := l.chunks[n].Load()
	if c == nil {
		if c = l.mapChunk(n); c == nil {
			return nil
		}
	}
	return &c[i%chunkCount]
}

func (l *Ledger) mapChunk(n uint32) *[chunkCount]record {
	l.mapMu.Lock()
	defer l.mapMu.Unlock()
	if c := l.chunks[n].Load(); c != nil {
		return c
	}
	if (n+1)*chunkCount > l.h.capacity.Load() {
		return nil
	}
	b, err := unix.Mmap(l.fd, recordsAt+int64(n)*chunkSize, chunkSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	c := at[[chunkCount]record](b, 0)
	l.chunks[n].Store(c)
	return c
}

// take returns a record that nobody has.
func (l *Ledger) take() (uint32, *record, error) {
	for {
		top := l.h.free.Load()
		i := uint32(top)
		if i == 0 {
			break
		}
		r := l.record(i)
		if r == nil {
			return 0, nil, ErrFull
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
		if l.h.next.CompareAndSwap(i, i+1) {
			if r := l.record(i); r != nil {
				return i, r, nil
			}
			return 0, nil, ErrFull
		}
	}
}

// grow adds a chunk to the index, if nobody else has meanwhile.
func (l *Ledger) grow() error {
	l.mapMu.Lock()
	defer l.mapMu.Unlock()
	if err := l.wait(lease.Write, lockGrow); err != nil {
		return err
	}
	defer func() { _, _ = l.locks.Try(lease.Free, lockGrow, 1) }()
	n := l.h.capacity.Load()
	if n > l.h.next.Load() {
		return nil
	}
	if n/chunkCount >= maxChunks {
		return ErrFull
	}
	if err := allocate(l.fd, recordsAt+int64(n)*recordSize, chunkSize); err != nil {
		return fmt.Errorf("%w: %s can't grow: %w", ErrFull, l.dir.File("index"), err)
	}
	fault.Point("ledger.grown")
	l.h.capacity.Store(n + chunkCount)
	return nil
}

// put gives record i back, with those that hold more of its text. It must be in no chain.
func (l *Ledger) put(i uint32) {
	for i != 0 {
		r := l.record(i)
		if r == nil {
			return
		}
		more := r.more.Load()
		r.more.Store(0)
		r.seq.Store(again(r.seq.Load(), stateFree))
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

// write writes an object into a record that nobody sees yet, and as many more as its text needs.
func (l *Ledger) write(r *record, o Object) error {
	text := o.Name + o.ETag
	if len(text) > maxTextLen {
		return fmt.Errorf("%w: a name of %d bytes", ErrFull, len(text))
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
		i, m, err := l.take()
		if err != nil {
			return err
		}
		m.more.Store(0)
		m.seq.Store(again(m.seq.Load(), stateMore))
		text = text[copy(m.moreText(), text):]
		last.more.Store(i)
		last = m
	}
	return nil
}

func (r *record) moreText() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(r), recordSize-textMore)), textMore)
}

// read returns what a record that can't change says.
func (l *Ledger) read(r *record) Object {
	o := Object{Key: r.key, Version: r.version, Size: r.size, Charge: r.charge, Place: r.place, CRC: r.crc,
		Modified: moment(r.changed), Checked: moment(r.checked.Load()), Used: moment(r.used.Load()), Sound: r.epoch.Load() == l.h.epoch.Load()}
	n := int(min(r.length, maxTextLen))
	b := append(make([]byte, 0, n), r.text[:min(n, textHere)]...)
	for i := r.more.Load(); i != 0 && len(b) < n; {
		m := l.record(i)
		if m == nil {
			break
		}
		b = append(b, m.moreText()[:min(n-len(b), textMore)]...)
		i = m.more.Load()
	}
	tag := min(int(r.tag), len(b))
	o.Name, o.ETag = string(b[:len(b)-tag]), string(b[len(b)-tag:])
	return o
}

// nanos is a time in the index: 0 for none. What is more than 292 years from 1970 is none either.
func nanos(t time.Time) int64 {
	const most = math.MaxInt64/int64(time.Second) - 1
	if s := t.Unix(); s > most || s < -most {
		return 0
	}
	return t.UnixNano()
}

func moment(nanos int64) (t time.Time) {
	if nanos != 0 {
		t = time.Unix(0, nanos)
	}
	return t
}
