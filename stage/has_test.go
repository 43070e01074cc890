//go:build linux

package stage

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"leat/internal/localdir"
	"leat/internal/stagedir"
)

// usedOf is when an object was last used, as the directory has it.
func usedOf(t testing.TB, p *Pool, id string) time.Time {
	t.Helper()
	for o, err := range p.Objects() {
		must(t, err)
		if o.Source == id {
			return o.Used
		}
	}
	t.Fatalf("%s is not there", id)
	return time.Time{}
}

func TestHas(t *testing.T) {
	dir := t.TempDir()
	s := small("has", 2*mib)
	s.put("slow", object{size: 2 * mib, middle: make(chan struct{})})
	p, other := pool(t, dir, Options{}), pool(t, dir, Options{})
	if p.Has(s, "a") {
		t.Error("nothing is staged")
	}
	slow := p.Prefetch(s, "slow")
	defer slow.Release()
	become(t, slow, running)
	got(t, p, s, "a")
	reads, stats, _ := s.all()
	used := usedOf(t, p, s.ID("a"))
	for _, q := range []*Pool{p, other} {
		if !q.Has(s, "a") || q.Has(s, "b") || q.Has(s, "slow") {
			t.Errorf("a %v, b %v, slow %v", q.Has(s, "a"), q.Has(s, "b"), q.Has(s, "slow"))
		}
	}
	if r, n, _ := s.all(); r != reads || n != stats {
		t.Errorf("the source was asked %d times for bytes, %d times for more", r-reads, n-stats)
	}
	if now := usedOf(t, p, s.ID("a")); !now.Equal(used) {
		t.Errorf("used at %v, now at %v", used, now)
	}
	if n := ok(p.Trim(t.Context(), 0))(t); n != 1 || p.Has(s, "a") || other.Has(s, "a") { // it kept nothing
		t.Errorf("%d removed", n)
	}
	must(t, other.Close())
	if other.Has(s, "a") {
		t.Error("a closed pool has something")
	}
}

func TestRemoveUnusedKeepsOrder(t *testing.T) {
	dir := t.TempDir()
	s := small("skipped", 4*kib)
	p, other := pool(t, dir, Options{}), pool(t, dir, Options{})
	held := other.Prefetch(s, "held")
	defer held.Release()
	wantBytes(t, held, s, 0)
	got(t, p, s, "unused")
	used := usedOf(t, p, s.ID("held"))
	if n := ok(p.RemoveUnused(t.Context(), time.Now().Add(time.Hour)))(t); n != 1 {
		t.Errorf("%d removed, not the one that nobody uses", n)
	}
	if now := usedOf(t, p, s.ID("held")); !now.Equal(used) {
		t.Errorf("skipped, and used at %v instead of %v", now, used)
	}
}

func TestExistsCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	t.Setenv(localdir.Variable, dir)
	for _, named := range []string{"", dir} {
		if stagedir.Exists(named) {
			t.Errorf("stagedir.Exists(%q) before there is one", named)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("stagedir.Exists(%q) made the directory", named)
		}
	}
	pool(t, dir, Options{})
	for _, named := range []string{"", dir} {
		if !stagedir.Exists(named) {
			t.Errorf("not stagedir.Exists(%q) of one that is open", named)
		}
	}
}
