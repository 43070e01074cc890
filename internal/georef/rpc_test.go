package georef

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
	r, err := NewRPC(rpcValues())
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range RPCValues(r) {
		if v != rpcValues()[i] {
			t.Fatalf("value %d is %v", i, v)
		}
	}
	again, err := ParseRPC(RPCItems(r))
	if err != nil || !EqualRPC(again, r) {
		t.Errorf("the items give %v, %v", again, err)
	}
	items := RPCItems(r)
	if items["LINE_OFF"] != "2.25" || items["SAMP_OFF"] != "3.25" || items["HEIGHT_SCALE"] != "11.25" ||
		!strings.HasPrefix(items["LINE_NUM_COEFF"], "12.25 13.25 ") ||
		!strings.HasPrefix(items["SAMP_DEN_COEFF"], "72.25 ") {
		t.Errorf("items %v", items)
	}
	delete(items, "ERR_BIAS")
	if r, err := ParseRPC(items); err != nil || r.ErrBias != -1 {
		t.Errorf("without an error bias: %v, %v", r, err)
	}
}

func TestDamagedRPCsAreErrors(t *testing.T) {
	good, _ := NewRPC(rpcValues())
	for name, change := range map[string]func(map[string]string){
		"no row offset":    func(m map[string]string) { delete(m, "LINE_OFF") },
		"19 coefficients":  func(m map[string]string) { m["LINE_NUM_COEFF"] = strings.Repeat("1 ", 19) },
		"21 coefficients":  func(m map[string]string) { m["SAMP_DEN_COEFF"] = strings.Repeat("1 ", 21) },
		"no number":        func(m map[string]string) { m["LAT_OFF"] = "north" },
		"a number too big": func(m map[string]string) { m["LAT_OFF"] = "1e999" },
		"NaN":              func(m map[string]string) { m["ERR_RAND"] = "nan" },
	} {
		items := maps.Clone(RPCItems(good))
		change(items)
		if r, err := ParseRPC(items); err == nil {
			t.Errorf("%s: %v", name, r)
		}
	}
	if _, err := NewRPC(make([]float64, 91)); err == nil {
		t.Error("no error for 91 numbers")
	}
	values := rpcValues()
	values[50] = math.Inf(1)
	if _, err := NewRPC(values); err == nil {
		t.Error("no error for infinity")
	}
}

// FuzzParseRPC reads arbitrary texts as one key of RPCs: whatever is taken reads back as the same.
func FuzzParseRPC(f *testing.F) {
	good, _ := NewRPC(rpcValues())
	for k, v := range RPCItems(good) {
		f.Add(k, v)
	}
	f.Add("LINE_OFF", "+12.5 pixels")
	f.Add("LINE_NUM_COEFF", strings.Repeat("-1e-300 ", 20))
	f.Fuzz(func(t *testing.T, key, text string) {
		items := maps.Clone(RPCItems(good))
		items[key] = text
		r, err := ParseRPC(items)
		if err != nil {
			return
		}
		of, err := NewRPC(RPCValues(r))
		if err != nil || !EqualRPC(of, r) {
			t.Fatalf("%s %q: %v, %v", key, text, r, err)
		}
		again, err := ParseRPC(RPCItems(r))
		if err != nil {
			t.Fatalf("%s %q: its items are not read: %v", key, text, err)
		}
		for i, v := range RPCValues(again) { // of 15 digits
			if w := RPCValues(r)[i]; math.Abs(v-w) > 1e-14*math.Abs(w) {
				t.Fatalf("%s %q: %v became %v", key, text, w, v)
			}
		}
	})
}
