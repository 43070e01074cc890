//go:build linux

package stage

import (
	"context"
	"errors"
	"testing"
	"time"

	"leat/internal/fault"
)

func TestUnfreedBytesStayCounted(t *testing.T) {
	dir := t.TempDir()
	s := newSource("undone").put("a", object{size: 100 * kib, md5: wrong})
	p := ok(Open(context.Background(), dir, quick(Options{})))(t)
	fault.Set(func(point string) error {
		if point == "stage.no punch" {
			return errors.New("failed on purpose")
		}
		return nil
	})
	defer fault.Set(nil)
	l := p.Prefetch(s, "a")
	if err := l.WaitStaged(within(t, time.Minute)); err == nil {
		t.Fatal("staged in spite of a wrong checksum")
	}
	l.Release()
	u := ok(p.Usage())(t)
	n, _, err := onDisk(dir)
	must(t, err)
	if n == 0 || u.Bytes < n {
		t.Errorf("%d bytes are on the disk, and %d counted", n, u.Bytes)
	}
	fault.Set(nil)
	must(t, p.Close())
	p = pool(t, dir, Options{})
	if u := wantDisk(t, p); u.Bytes != 0 || u.Objects != 0 {
		t.Errorf("%d bytes of %d objects are counted after the check", u.Bytes, u.Objects)
	}
}
