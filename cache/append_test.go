//go:build unix

package cache

import (
	"errors"
	"testing"
)

func TestAppend(t *testing.T) {
	c, err := Create(3, &Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, s := range []string{"abc", ""} {
		if _, err := c.Put(int64(i), []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 0, 100)
	got, err := c.Append(append(buf, "x-"...), 0)
	if err != nil || string(got) != "x-abc" || &got[0] != &buf[:1][0] {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.Append([]byte("x"), 1); err != nil || string(got) != "x" {
		t.Errorf("an empty entry: %q, %v", got, err)
	}
	if got, err := c.Append([]byte("x"), 2); !errors.Is(err, ErrMiss) || string(got) != "x" {
		t.Errorf("no entry: %q, %v", got, err)
	}
	if got, err := c.Append([]byte("x"), 3); !errors.Is(err, errRange) || string(got) != "x" {
		t.Errorf("no slot: %q, %v", got, err)
	}
	if n := testing.AllocsPerRun(100, func() { buf, _ = c.Append(buf[:0], 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
