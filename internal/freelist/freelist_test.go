package freelist

import (
	"context"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBound(t *testing.T) {
	made := 0
	f := New(2, func() (int, error) { made++; return made, nil })
	ctx, cancel := context.WithCancel(t.Context())
	a, _ := f.Get(ctx)
	b, _ := f.Get(ctx)
	if a == b || f.Free() != 0 {
		t.Fatalf("got %d and %d, %d free", a, b, f.Free())
	}
	cancel()
	if _, err := f.Get(ctx); err == nil {
		t.Fatal("a third thing was lent")
	}
	f.Put(a)
	if c, err := f.Get(t.Context()); err != nil || c != a || made != 2 {
		t.Fatalf("got %d, %v after Put; %d made", c, err, made)
	}
}
