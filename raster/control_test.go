package raster

import (
	"maps"
	"math"
	"strings"
	"testing"
)

func rpcValues() []float64 {
	v := make([]float64, rpcCount)
	for i := range v {
		v[i] = float64(i) + 0.25
	}
	return v
}

func TestRPCItemsAndValuesAreTheSame(t *testing.T) {
	r, err := RPCOf(rpcValues())
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range r.Values() {
		if v != rpcValues()[i] {
			t.Fatalf("value %d is %v", i, v)
		}
	}
	again, err := ParseRPC(r.Items())
	if err != nil || !again.Equal(r) {
		t.Errorf("the items give %v, %v", again, err)
	}
	items := r.Items()
	if items["LINE_OFF"] != "2.25" || items["SAMP_OFF"] != "3.25" || items["HEIGHT_SCALE"] != "11.25" ||
		!strings.HasPrefix(items["LINE_NUM_COEFF"], "12.25 13.25 ") ||
		!strings.HasPrefix(items["SAMP_DEN_COEFF"], "72.25 ") {
		t.Errorf("items %v", items)
	}
	if s := r.Shift(10, 20); s.SampOff != 3.25-10 || s.LineOff != 2.25-20 || r.SampOff != 3.25 {
		t.Errorf("shifted to %v, %v", s.SampOff, s.LineOff)
	}
	delete(items, "ERR_BIAS")
	if r, err := ParseRPC(items); err != nil || r.ErrBias != -1 {
		t.Errorf("without an error bias: %v, %v", r, err)
	}
}

func TestDamagedRPCsAreErrors(t *testing.T) {
	good, _ := RPCOf(rpcValues())
	for name, change := range map[string]func(map[string]string){
		"no row offset":    func(m map[string]string) { delete(m, "LINE_OFF") },
		"19 coefficients":  func(m map[string]string) { m["LINE_NUM_COEFF"] = strings.Repeat("1 ", 19) },
		"21 coefficients":  func(m map[string]string) { m["SAMP_DEN_COEFF"] = strings.Repeat("1 ", 21) },
		"no number":        func(m map[string]string) { m["LAT_OFF"] = "north" },
		"a number too big": func(m map[string]string) { m["LAT_OFF"] = "1e999" },
		"NaN":              func(m map[string]string) { m["ERR_RAND"] = "nan" },
	} {
		items := maps.Clone(good.Items())
		change(items)
		if r, err := ParseRPC(items); err == nil {
			t.Errorf("%s: %v", name, r)
		}
	}
	if _, err := RPCOf(make([]float64, 91)); err == nil {
		t.Error("91 numbers are no error")
	}
	values := rpcValues()
	values[50] = math.Inf(1)
	if _, err := RPCOf(values); err == nil {
		t.Error("infinity is no error")
	}
}

func TestAWindowOfAGridShiftsPointsAndCoefficients(t *testing.T) {
	rpc, _ := RPCOf(rpcValues())
	g := Grid{Width: 100, Height: 80, Transform: Identity, RPC: rpc,
		GCPs: &GCPs{Points: []GCP{{ID: "1", Pixel: 10, Line: 20, X: 5, Y: 6, Z: 7}}}}
	s := g.Sub(Window{Col: 3, Row: 4, Width: 10, Height: 10})
	if p := s.GCPs.Points[0]; p != (GCP{ID: "1", Pixel: 7, Line: 16, X: 5, Y: 6, Z: 7}) {
		t.Errorf("the point is %v", p)
	}
	if g.GCPs.Points[0].Pixel != 10 || g.RPC.SampOff != 3.25 {
		t.Error("the grid itself was changed")
	}
	if s.RPC.SampOff != 0.25 || s.RPC.LineOff != -1.75 {
		t.Errorf("the offsets are %v, %v", s.RPC.SampOff, s.RPC.LineOff)
	}
}

// FuzzParseRPC reads arbitrary texts as one key of RPCs: whatever is taken reads back as the same.
func FuzzParseRPC(f *testing.F) {
	good, _ := RPCOf(rpcValues())
	for k, v := range good.Items() {
		f.Add(k, v)
	}
	f.Add("LINE_OFF", "+12.5 pixels")
	f.Add("LINE_NUM_COEFF", strings.Repeat("-1e-300 ", 20))
	f.Fuzz(func(t *testing.T, key, text string) {
		items := maps.Clone(good.Items())
		items[key] = text
		r, err := ParseRPC(items)
		if err != nil {
			return
		}
		of, err := RPCOf(r.Values())
		if err != nil || !of.Equal(r) {
			t.Fatalf("%s %q: %v, %v", key, text, r, err)
		}
		again, err := ParseRPC(r.Items())
		if err != nil {
			t.Fatalf("%s %q: its items are not read: %v", key, text, err)
		}
		for i, v := range again.Values() { // of 15 digits
			if w := r.Values()[i]; math.Abs(v-w) > 1e-14*math.Abs(w) {
				t.Fatalf("%s %q: %v became %v", key, text, w, v)
			}
		}
	})
}
