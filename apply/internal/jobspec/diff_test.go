package jobspec

import (
	"slices"
	"testing"
)

func TestDiffOfSources(t *testing.T) {
	const one, two, file = CallersSource + "8f21", CallersSource + "b0bd", "indices.py:ndvi sha256:77aa"
	for _, c := range []struct {
		was, now string
		want     []string
	}{
		{one, one, nil},
		{one, two, []string{"the function differs, or a value that it uses"}},
		{one, file, []string{"the source of the function was in the calling program and is " + file}},
		{file, one, []string{"the source of the function was " + file + " and is in the calling program"}},
		{"", file, []string{"the source of the function was none and is " + file}},
	} {
		if got := Diff(&Description{Source: c.was}, &Description{Source: c.now}); !slices.Equal(got, c.want) {
			t.Errorf("%q, %q: %q, expected %q", c.was, c.now, got, c.want)
		}
	}
}
