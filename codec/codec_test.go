package codec

import (
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

type sample struct {
	Name   string
	Values []float64
	Counts map[string]int
}

func roundTrip[T any](t *testing.T, c Codec[T], v T) {
	t.Helper()
	b, err := c.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	before := string(b)
	got, err := c.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, got, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	if string(b) != before {
		t.Error("Decode changed its argument")
	}
}

func TestRoundTrip(t *testing.T) {
	v := sample{"a", []float64{1, 2.5}, map[string]int{"x": 1, "y": 2}}
	roundTrip(t, Gob[sample](), v)
	roundTrip(t, JSON[sample](), v)
	roundTrip(t, Binary[time.Time](), time.Unix(1e9, 7).UTC())
	v.Values = append(v.Values, math.NaN(), math.Inf(1))
	roundTrip(t, Gob[sample](), v)
	roundTrip[any](t, Any(Gob[sample]()), v)
}

func TestAnyRejectsOtherTypes(t *testing.T) {
	_, err := Any(Gob[int]()).Encode("text")
	if err == nil || !strings.Contains(err.Error(), "string") || !strings.Contains(err.Error(), "int") {
		t.Errorf("error %v", err)
	}
}

func TestDecodeInvalid(t *testing.T) {
	for name, decode := range map[string]func([]byte) error{
		"gob":    func(b []byte) error { _, err := Gob[sample]().Decode(b); return err },
		"json":   func(b []byte) error { _, err := JSON[sample]().Decode(b); return err },
		"binary": func(b []byte) error { _, err := Binary[time.Time]().Decode(b); return err },
		"any":    func(b []byte) error { _, err := Any(Gob[sample]()).Decode(b); return err },
	} {
		if decode([]byte("\x7fnothing")) == nil {
			t.Errorf("%s: invalid data were decoded", name)
		}
	}
}

func FuzzGob(f *testing.F) {
	b, err := Gob[sample]().Encode(sample{"a", []float64{1}, map[string]int{"x": 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	panics, err := hex.DecodeString("0bff8102010102ff8200000006ff820002")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(panics)
	f.Fuzz(func(t *testing.T, b []byte) {
		c := Gob[sample]()
		v, err := c.Decode(b)
		if err != nil {
			return
		}
		if _, err := c.Encode(v); err != nil {
			t.Errorf("a decoded value can't be encoded: %v", err)
		}
	})
}
