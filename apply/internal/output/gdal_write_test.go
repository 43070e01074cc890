package output

import "testing"

func TestLayWindow(t *testing.T) {
	for _, c := range []struct{ width, height, bw, bh, pixel, most, w, h int }{
		{10000, 10000, 64, 64, 4, 128 << 20, 10000, 512},
		{10000, 10000, 10000, 1, 4, 128 << 20, 10000, 512},
		{100000, 10000, 100000, 1, 4, 64 << 20, 100000, 128},
		{100000, 10000, 256, 256, 4, 64 << 20, 25088, 512},
		{100000, 10000, 1000, 1000, 1, 256 << 20, 100000, 1000},
		{100, 100, 128, 128, 4, 1 << 20, 100, 600},
		{5000, 5000, 5000, 5000, 8, 4 << 20, 5000, 64},
	} {
		w, h := layWindow(c.width, c.height, 512, c.bw, c.bh, int64(c.pixel), int64(c.most))
		if w*h*c.pixel > c.most && h > c.bh && c.height > h {
			t.Errorf("%+v: windows of %d x %d are too large", c, w, h)
		}
		if w < c.width && w%c.bw != 0 || h < c.height && c.bh <= 2048 && h%c.bh != 0 {
			t.Errorf("%+v: windows of %d x %d are not unions of blocks", c, w, h)
		}
	}
}

func TestLayoutBudget(t *testing.T) {
	const budget = 192 << 20
	for format, want := range map[string]int64{"COG": budget - copyBytes, "PNG": budget} {
		o := &Output{Spec: Spec{Format: format}}
		if n := o.layoutBudget(budget); n != want {
			t.Errorf("%s: %d bytes are left", format, n)
		}
	}
}
