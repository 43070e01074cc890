package lazyregexp

import (
	"strings"
	"testing"
)

func TestMethods(t *testing.T) {
	r := New(`a(b+)`)
	if !r.MatchString("xab") || r.MatchString("x") {
		t.Error("MatchString is wrong")
	}
	if m := r.FindStringSubmatch("xabbc"); len(m) != 2 || m[1] != "bb" {
		t.Errorf("FindStringSubmatch: %q", m)
	}
	if at := r.FindStringIndex("xabbc"); len(at) != 2 || at[0] != 1 || at[1] != 4 {
		t.Errorf("FindStringIndex: %v", at)
	}
	if s := r.ReplaceAllStringFunc("abxabb", strings.ToUpper); s != "ABxABB" {
		t.Errorf("ReplaceAllStringFunc: %q", s)
	}
}

func TestInvalidPanicsWhenUsed(t *testing.T) {
	r := New("(")
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r.MatchString("")
}
