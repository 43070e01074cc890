package suggest

import "testing"

func TestClosest(t *testing.T) {
	t.Parallel()
	names := []string{"region", "retry-for", "stage-dir", "stage-bytes", "memory", "on"}
	for name, want := range map[string]string{"regoin": "region", "stage_dir": "stage-dir", "STAGE-DIR": "stage-dir",
		"memroy": "memory", "stagedir": "stage-dir", "mem": "", "o": "on", "color": "", "": "", "retry": "",
		"stage-byte": "stage-bytes", "régions": "region"} {
		if got := Closest(name, names); got != want {
			t.Errorf("%q: %q, expected %q", name, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"kitten", "sitting", 3},
		{"ca", "abc", 3}, {"memory", "memroy", 1}} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, expected %d", c.a, c.b, got, c.want)
		}
	}
}
