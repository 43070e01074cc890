package stage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"leat/objstore"
)

// noise is what objects are made of: object i of a kind is the bytes from 8 * i on, repeated.
var noise = func() []byte {
	b := make([]byte, 1<<20+maxObjects*8)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}()

const maxObjects = 16 << 10

// object is number i of that size.
type object struct {
	i    int
	size int64
}

// name is "100/17": the size and the number.
func (o object) name() string { return fmt.Sprintf("%d/%d", o.size, o.i) }

func parseObject(name string) (o object, err error) {
	size, i, _ := strings.Cut(name, "/")
	if o.size, err = strconv.ParseInt(size, 10, 64); err == nil {
		o.i, err = strconv.Atoi(i)
	}
	if err == nil && (o.size < 8 || o.i < 0 || o.i >= maxObjects) {
		err = fmt.Errorf("%q: no such object", name)
	}
	return o, err
}

// period is how many bytes of an object are different.
const period = 1 << 20

// bytes are the object's from an offset on, at most to the end of a period.
func (o object) bytes(at int64) []byte {
	b := noise[8*o.i:][at%period : period]
	return b[:min(int64(len(b)), o.size-at)]
}

// check looks at the length, the first and the last eight bytes: no two objects have the same.
func (o object) check(b []byte) error {
	if int64(len(b)) != o.size {
		return fmt.Errorf("object %s has %d bytes", o.name(), len(b))
	}
	if !bytes.Equal(b[:8], o.bytes(0)[:8]) || b[o.size-1] != o.bytes(o.size - 1)[0] {
		return fmt.Errorf("object %s has the bytes of another", o.name())
	}
	return nil
}

// slow is a source within the process, which waits before each object.
type slow struct {
	latency       time.Duration
	reads, checks atomic.Int64
}

func (s *slow) ID(name string) string { return "slow://bench/" + name }

func (s *slow) info(name string) (objstore.Info, object, error) {
	o, err := parseObject(name)
	return objstore.Info{Name: name, Size: o.size, ETag: name}, o, err
}

func (s *slow) Stat(_ context.Context, name string) (objstore.Info, error) {
	s.checks.Add(1)
	time.Sleep(s.latency)
	info, _, err := s.info(name)
	return info, err
}

func (s *slow) Read(_ context.Context, name string, offset, length int64, _ *objstore.Info) (objstore.Info,
	io.ReadCloser, error) {
	s.reads.Add(1)
	time.Sleep(s.latency)
	info, o, err := s.info(name)
	if err != nil {
		return info, nil, err
	}
	if offset != 0 || length >= 0 && length < o.size {
		return info, nil, fmt.Errorf("%s: it is read at once", name)
	}
	if o.size > period {
		return info, nil, fmt.Errorf("%s: it is too large for this source", name)
	}
	return info, io.NopCloser(bytes.NewReader(o.bytes(0))), nil
}
