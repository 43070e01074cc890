//go:build linux

package index

import (
	"errors"
	"strings"
	"testing"
)

// inOneChain returns an object whose records are in the same chain as those of other numbers.
func inOneChain(n int) Object {
	o := object(n, 0)
	copy(o.Key[8:12], "abcd")
	return o
}

// manyRecords is more than one chunk holds.
const manyRecords = chunkCount + 100

// TestUnmappedRecords searches, publishes and evicts where memory to map a part of the records is
// missing: that is an error, and never an object that is not there.
func TestUnmappedRecords(t *testing.T) {
	b := open(t)
	first := ok(b.publish(inOneChain(manyRecords+1), limits))(t)
	b.add(t, span(1, manyRecords)...)
	last := ok(b.publish(inOneChain(manyRecords+2), limits))(t) // before the first one in their chain
	if first.rec/chunkCount == last.rec/chunkCount {
		t.Fatal("both are in one chunk")
	}
	other := b.another(t)
	failAt("index.mapping", func() {
		for _, find := range []func(Key) (*Entry, error){other.Find, other.FindLocked, other.Peek} {
			if e, err := find(keyOf(1)); e != nil || !errors.Is(err, errTest) {
				t.Errorf("an object is found, or said not to be there: %v, %v", e, err)
			}
		}
		if err := other.Each(func(Object) bool { return true }); !errors.Is(err, errTest) {
			t.Errorf("all objects: %v", err)
		}
		if _, _, err := other.EvictReplaced(func() bool { return false }); !errors.Is(err, errTest) {
			t.Errorf("replaced objects: %v", err)
		}
	})
	other.find(t, 1).Unpin()
	if e, err := other.Find(keyOf(manyRecords + 10)); e != nil || err != nil {
		t.Errorf("%v, %v", e, err)
	}

	third := b.another(t)
	if third.record(first.rec) == nil || third.chunks[last.rec/chunkCount].Load() != nil {
		t.Fatal("other chunks are mapped")
	}
	first.Discard()
	first.Unpin()
	last.Unpin()
	one := func() bool { _, files := third.Taken(); return files <= manyRecords+1 }
	failAt("index.mapping", func() {
		if gone, err := third.Evict(one); gone != 0 || !errors.Is(err, errTest) {
			t.Errorf("%d were evicted, %v", gone, err)
		}
		if e, err := third.publish(inOneChain(manyRecords+1), limits); e != nil || !errors.Is(err, errTest) {
			t.Errorf("%v is published, %v", e, err)
		}
	})
	if _, err := audit(b.Index); err != nil {
		t.Error(err)
	}
	gone, failed, err := third.EvictReplaced(func() bool { return false })
	if gone != 1 || failed != nil || err != nil {
		t.Errorf("%d were evicted, %v, %v", gone, failed, err)
	}
	ok(third.publish(inOneChain(manyRecords+1), limits))(t).Unpin()
	if _, err := audit(b.Index); err != nil {
		t.Error(err)
	}
	if bytes, files := b.Taken(); bytes != (manyRecords+2)*unit || files != manyRecords+2 {
		t.Errorf("%d objects take %d bytes", files, bytes)
	}
}

// TestUnmappedText reads an object whose name is in another chunk than its record.
func TestUnmappedText(t *testing.T) {
	b := open(t)
	b.add(t, span(1, chunkCount-2)...) // all records of the first chunk but one
	o := object(chunkCount, 0)
	o.Name += strings.Repeat("x", 1000)
	e := ok(b.publish(o, limits))(t)
	if e.rec/chunkCount != 0 || b.record(e.rec).more.Load()/chunkCount != 1 {
		t.Fatalf("record %d, its text is in %d", e.rec, b.record(e.rec).more.Load())
	}
	e.Unpin()
	other := b.another(t)
	failAt("index.mapping", func() {
		if e, err := other.Find(keyOf(1)); e != nil || err == nil {
			t.Errorf("%v, %v", e, err)
		}
	})
	other.find(t, 1).Unpin()
	failAt("index.mapping", func() {
		if e, err := other.Find(o.Key); e != nil || !errors.Is(err, errTest) {
			t.Errorf("%v, %v", e, err)
		}
	})
	if e := other.find(t, chunkCount); e == nil || e.Name != o.Name {
		t.Errorf("the name has %d characters", len(e.Name))
	} else {
		e.Unpin()
	}
}

// TestUnmappedCheck checks all records where memory to map them is missing: none is lost.
func TestUnmappedCheck(t *testing.T) {
	b := open(t)
	b.add(t, span(1, 100)...)
	b.unclean()
	b.close(t)
	failAt("index.mapping", func() {
		if _, err := tryOpen(t, b.path, b.s); !errors.Is(err, errTest) {
			t.Errorf("the error is %v", err)
		}
	})
	again := b.another(t)
	for n := 1; n <= 100; n++ {
		again.find(t, n).Unpin()
	}
}
