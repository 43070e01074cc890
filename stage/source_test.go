//go:build linux

package stage

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"io/fs"
	"sync"
	"time"

	"leat/objstore"
)

// source is a store in this process, whose objects do what a test wants of them. Their bytes follow
// from name and version, in whichever process.
type source struct {
	id    string
	delay time.Duration // of each request

	mu      sync.Mutex
	objects map[string]*object
	missing func(name string) *object // makes what is not in objects; nil: that is not there
	reads   map[string]int            // requests for bytes
	stats   map[string]int
	given   map[string]int64 // bytes
	most    int              // requests at the same time
	now     int
	onRead  func(name string, offset int64) // called before each request, unlocked
}

type sum int

const (
	none sum = iota
	right
	wrong
)

// object is what a source has under a name.
type object struct {
	size     int64
	version  int
	lie      int64 // added to the size that is announced
	unknown  bool  // no size is announced
	noETag   bool  // versions differ by time and size alone
	nameless bool  // nor by these
	md5, crc sum
	fails    int           // so many requests fail; -1: all
	err      error         // how; nil: temporary
	cut      int64         // the first body breaks off there
	gate     chan struct{} // requests are answered when it is closed
	middle   chan struct{} // bodies stop half-way until it is closed
}

func newSource(id string) *source {
	return &source{id: id, objects: map[string]*object{}, reads: map[string]int{}, stats: map[string]int{},
		given: map[string]int64{}}
}

// put puts an object in.
func (s *source) put(name string, o object) *source {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[name] = &o
	return s
}

// edit changes an object.
func (s *source) edit(name string, f func(o *object)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.find(name))
}

func (s *source) find(name string) *object {
	o := s.objects[name]
	if o == nil && s.missing != nil {
		o = s.missing(name)
		s.objects[name] = o
	}
	return o
}

func (s *source) get(name string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.find(name)
}

// count is how many requests there were for an object's bytes, how many without, and how many bytes
// were given.
func (s *source) count(name string) (reads, stats int, given int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads[name], s.stats[name], s.given[name]
}

// all adds up count.
func (s *source) all() (reads, stats int, given int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.reads {
		reads += n
	}
	for _, n := range s.stats {
		stats += n
	}
	for _, n := range s.given {
		given += n
	}
	return reads, stats, given
}

func (s *source) ID(name string) string { return "test://" + s.id + "/" + name }

func (o *object) info(name string) objstore.Info {
	i := objstore.Info{Name: name, Size: o.size + o.lie}
	if o.unknown {
		i.Size = -1
	}
	if !o.nameless {
		i.ModTime = time.Unix(1e9+int64(o.version), 0)
		if !o.noETag {
			i.ETag = fmt.Sprintf(`"v%d"`, o.version)
		}
	}
	if o.md5 != none || o.crc != none {
		m, c := sumsOf(name, o.version, o.size)
		if o.md5 == wrong {
			m[3] ^= 1
		}
		if o.crc == wrong {
			c[3] ^= 1
		}
		if o.md5 != none {
			i.MD5 = m[:]
		}
		if o.crc != none {
			i.CRC32C = c
		}
	}
	return i
}

// begin waits as long as the source and the object want, and returns the object as it is then.
func (s *source) begin(ctx context.Context, name string) (object, error) {
	s.mu.Lock()
	o := s.find(name)
	var gate chan struct{}
	if o != nil {
		gate = o.gate
	}
	s.mu.Unlock()
	if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-ctx.Done():
			return object{}, ctx.Err()
		}
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return object{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o = s.find(name); o == nil {
		return object{}, &objstore.Error{Op: "reading", URL: s.ID(name), Err: fs.ErrNotExist}
	}
	if o.fails != 0 {
		o.fails--
		if o.err != nil {
			return object{}, o.err
		}
		return object{}, temporary{-o.fails}
	}
	return *o, ctx.Err()
}

func (s *source) Stat(ctx context.Context, name string) (objstore.Info, error) {
	s.mu.Lock()
	s.stats[name]++
	s.mu.Unlock()
	o, err := s.begin(ctx, name)
	if err != nil {
		return objstore.Info{}, err
	}
	return o.info(name), nil
}

func (s *source) Read(ctx context.Context, name string, offset, length int64, match *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	if s.onRead != nil {
		s.onRead(name, offset)
	}
	s.mu.Lock()
	s.reads[name]++
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	done := func() { s.mu.Lock(); s.now--; s.mu.Unlock() }
	o, err := s.begin(ctx, name)
	if err != nil {
		done()
		return objstore.Info{}, nil, err
	}
	i := o.info(name)
	if match != nil && (match.ETag != i.ETag || !match.ModTime.Equal(i.ModTime)) {
		done()
		return i, nil, &objstore.Error{Op: "reading", URL: s.ID(name), Status: 412, Err: objstore.ErrChanged}
	}
	end := o.size
	if length >= 0 {
		end = min(end, offset+length)
	}
	b := &sourceBody{s: s, ctx: ctx, name: name, seed: seedOf(name, o.version), at: min(offset, end), end: end,
		middle: o.middle, half: (offset + end) / 2, done: done}
	if o.cut > 0 {
		s.edit(name, func(o *object) { o.cut = 0 })
		b.cut = o.cut
	}
	return i, b, nil
}

// sourceBody makes an object's bytes as they are read.
type sourceBody struct {
	s             *source
	ctx           context.Context
	name          string
	seed          uint64
	at, end, half int64
	cut           int64
	middle        chan struct{}
	done          func()
}

func (b *sourceBody) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.at >= b.end {
		b.Close()
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), b.end-b.at)]
	if b.cut > 0 {
		if b.at >= b.cut {
			return 0, io.ErrUnexpectedEOF
		}
		p = p[:min(int64(len(p)), b.cut-b.at)]
	}
	if b.middle != nil {
		if b.at >= b.half {
			select {
			case <-b.middle:
			case <-b.ctx.Done():
				return 0, b.ctx.Err()
			}
		} else {
			p = p[:min(int64(len(p)), b.half-b.at)]
		}
	}
	fill(p, b.seed, b.at)
	b.at += int64(len(p))
	b.s.mu.Lock()
	b.s.given[b.name] += int64(len(p))
	b.s.mu.Unlock()
	return len(p), nil
}

func (b *sourceBody) Close() error {
	if b.done != nil {
		b.done()
		b.done = nil
	}
	return nil
}

func seedOf(name string, version int) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", name, version)
	return h.Sum64()
}

// sums remembers what sumsOf returned.
var sums sync.Map

// sumsOf is the MD5 and the CRC-32C of a content, to be changed at will.
func sumsOf(name string, version int, size int64) (m [md5.Size]byte, c []byte) {
	type pair struct {
		md5 [md5.Size]byte
		crc uint32
	}
	key := fmt.Sprint(name, " ", version, " ", size)
	v, known := sums.Load(key)
	if !known {
		b := content(name, version, size)
		v = pair{md5.Sum(b), crc32.Checksum(b, castagnoli)}
		sums.Store(key, v)
	}
	return v.(pair).md5, binary.BigEndian.AppendUint32(nil, v.(pair).crc)
}

// fill writes the bytes of a content from one on. The race detector would take most of a test's
// time for it.
//
//go:norace
func fill(b []byte, seed uint64, at int64) {
	var word [8]byte
	for n := 0; n < len(b); {
		x := seed + uint64((at+int64(n))/8)*0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
		if k := (at + int64(n)) % 8; k == 0 && len(b)-n >= 8 {
			binary.LittleEndian.PutUint64(b[n:], x)
			n += 8
		} else {
			binary.LittleEndian.PutUint64(word[:], x)
			n += copy(b[n:], word[k:])
		}
	}
}

// content is the bytes of a version of an object.
func content(name string, version int, size int64) []byte {
	b := make([]byte, size)
	fill(b, seedOf(name, version), 0)
	return b
}
