package expr

import (
	"fmt"
	"testing"
)

// Each of 60 expressions uses the next twice over, and the last one itself: trying each way would
// take 2^60 steps.
func TestLinkFailsOnce(t *testing.T) {
	const n = 60
	exprs := map[string]*Expr{}
	for i := range n {
		a, b := i+1, i+2
		if a >= n {
			a = i
		}
		e, err := Parse(fmt.Sprintf("e%02d + e%02d", a, min(b, n-1)))
		if err != nil {
			t.Fatal(err)
		}
		exprs[fmt.Sprintf("e%02d", i)] = e
	}
	linked, errs := Link(exprs, func(string) bool { return false })
	if len(linked) != 0 || len(errs) != 1 || errs["e59"] == nil {
		t.Errorf("%d expressions are linked, errors are %v", len(linked), errs)
	}
}
