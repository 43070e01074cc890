package focal

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMergedSequencesAreSorted merges all sequences of zeros and ones: a network that sorts these
// sorts all numbers. For long sequences it tries only some lengths.
func TestMergedSequencesAreSorted(t *testing.T) {
	for a := range networkPixels {
		for b := range min(a, networkPixels-a) + 1 {
			if a > 0 && (a < 14 || a*b%17 == 1) {
				checkMerge(t, a, b)
				checkMerge(t, b, a)
			}
		}
	}
}

// checkMerge merges sequences of a and b values.
func checkMerge(t *testing.T, a, b int) {
	t.Helper()
	var places [][]int32
	for _, n := range []int{a, b} {
		if n > 0 {
			places = append(places, make([]int32, n))
		}
	}
	n, all, _ := mergeNetwork(places)
	values := make([]uint64, n.wires) // each bit is a case
	for first := 0; first < (a+1)*(b+1); first += 64 {
		ones := func(bit int) (ofA, ofB int) { return (first + bit) / (b + 1) % (a + 1), (first + bit) % (b + 1) }
		clear(values)
		for bit := range 64 {
			i, j := ones(bit)
			for k := a - i; k < a; k++ {
				values[k] |= 1 << bit
			}
			for k := a + b - j; k < a+b; k++ {
				values[k] |= 1 << bit
			}
		}
		for _, c := range n.comparisons {
			x, y := values[c.a], values[c.b]
			values[c.low], values[c.high] = x&y, x|y
		}
		for k, w := range all {
			for bit := range 64 {
				i, j := ones(bit)
				if want := k >= a+b-i-j; values[w]>>bit&1 == 1 != want {
					t.Fatalf("%d of %d and %d of %d ones: value %d is wrong", i, a, j, b, k)
				}
			}
		}
	}
}

// specials are numbers that compare or add in a special way.
var specials = []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 1e-45, -1e-45, 1, math.MaxFloat32}

// TestMediansOfNetworksEqualThoseOfRanks compares bits.
func TestMediansOfNetworksEqualThoseOfRanks(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 42))
	footprints := []Footprint{Square(1), Square(3), Square(5), Square(7), Square(9), Square(11)}
	for _, radius := range []float64{1, 1.5, 2, 2.3, 3, 4, 5, 6} {
		f, err := Disk(radius)
		if err != nil {
			t.Fatal(err)
		}
		footprints = append(footprints, f)
	}
	for _, f := range footprints {
		if f.Size() > networkPixels {
			t.Fatalf("%d pixels need no network", f.Size())
		}
		compareMedians[float32](t, r, f)
		compareMedians[float64](t, r, f)
	}
}

func compareMedians[T Float](t *testing.T, r *rand.Rand, f Footprint) {
	var s Scratch
	margin, sides := f.Margin()
	for _, holes := range []float64{0, 0.1, 0.9} {
		rows, columns := 1+r.IntN(9), 1+r.IntN(80)
		src := &Plane[T]{Rows: rows + 2*margin, Columns: columns + 2*sides}
		for range src.Rows * src.Columns {
			v := T(r.NormFloat64())
			if r.IntN(3) == 0 {
				v = T(specials[r.IntN(len(specials))])
			}
			src.Values = append(src.Values, v)
			src.Valid = append(src.Valid, byte(min(1, int(r.Float64()+1-holes))))
		}
		for i := range src.Columns * min(2*margin+2, src.Rows) {
			src.Valid[i] = byte(r.IntN(50) / 49) // the results of a row are all invalid, or nearly all
		}
		dst := [2]*Plane[T]{}
		for i, f := range []func(dst, src *Plane[T]){
			func(dst, src *Plane[T]) { medianByNetwork(dst, src, f, &s) },
			func(dst, src *Plane[T]) { medianByRanks(dst, src, f, &s) },
		} {
			dst[i] = &Plane[T]{Values: make([]T, rows*columns), Rows: rows, Columns: columns, Row: margin, Col: sides}
			f(dst[i], src)
		}
		if !slices.Equal(dst[0].Valid, dst[1].Valid) {
			t.Fatalf("%d pixels of %T: another validity", f.Size(), T(0))
		}
		for i, v := range dst[0].Values {
			if w := dst[1].Values[i]; (dst[0].Valid == nil || dst[0].Valid[i] != 0) && !sameBits(v, w) {
				t.Fatalf("%d pixels of %T, holes %v: result %d is %v by a network, %v by ranks", f.Size(), v, holes, i, v, w)
			}
		}
	}
	if want := ScratchBytes(16, 96, f); s.bytes() > want {
		t.Errorf("%d pixels of %T: %d bytes, expected at most %d", f.Size(), T(0), s.bytes(), want)
	}
}

// TestNetworksNeedRoutines checks that medians come from ranks where no routine compares.
func TestNetworksNeedRoutines(t *testing.T) {
	fast := performFast(make([]float32, 2*compareStep), []comparison{{0, compareStep, 0, compareStep}}, compareStep)
	if narrow, wide := networkLimit[float32]() > 0, networkLimit[float64]() > 0; narrow != fast || wide != fast {
		t.Errorf("networks for float32 %v, for float64 %v, routines %v", narrow, wide, fast)
	}
	if used := byNetwork[float32](3); used != fast {
		t.Errorf("median by a network: %v, routines %v", used, fast)
	}
}

// TestNetworksOfSmallFootprints checks which medians come from networks where routines compare:
// those of up to 49 pixels of float64 and 121 of float32.
func TestNetworksOfSmallFootprints(t *testing.T) {
	if !hasComparisons() {
		t.Skip("no vector routines")
	}
	for side := 3; side <= 13; side += 2 {
		if got, want := byNetwork[float64](side), side <= 7; got != want {
			t.Errorf("float64, %d x %d: by a network: %v, expected %v", side, side, got, want)
		}
		if got, want := byNetwork[float32](side), side <= 11; got != want {
			t.Errorf("float32, %d x %d: by a network: %v, expected %v", side, side, got, want)
		}
	}
}

// byNetwork reports whether the median of a square comes from a network.
func byNetwork[T Float](side int) bool {
	var s Scratch
	src := &Plane[T]{Values: make([]T, side*side), Rows: side, Columns: side}
	Median(&Plane[T]{Values: make([]T, 1), Rows: 1, Columns: 1, Row: side / 2, Col: side / 2}, src, Square(side), &s)
	return len(s.selectors) > 0
}

// FuzzComparisons compares the routines with the Go loops.
func FuzzComparisons(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Add(uint64(3), uint64(4))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		r := rand.New(rand.NewPCG(a, b))
		compareRoutines[float32](t, r)
		compareRoutines[float64](t, r)
	})
}

func compareRoutines[T Float](t *testing.T, r *rand.Rand) {
	rows, columns := 2+r.IntN(20), compareStep*(1+r.IntN(4))
	stride := columns + r.IntN(50)
	buffer := make([]T, rows*stride)
	for i := range buffer {
		buffer[i] = T(r.NormFloat64())
		if r.IntN(3) == 0 {
			buffer[i] = T(append(specials, math.NaN())[r.IntN(len(specials)+1)])
		}
	}
	row := func() int32 { return int32(r.IntN(rows) * stride) }
	var comparisons []comparison
	for range 1 + r.IntN(60) {
		c := comparison{row(), row(), row(), row()}
		switch r.IntN(4) {
		case 0:
			c.low = -1
		case 1:
			c.high = -1
		default:
			for c.high == c.low {
				c.high = row()
			}
		}
		comparisons = append(comparisons, c)
	}
	want := slices.Clone(buffer)
	performSlow(want, comparisons, columns)
	if !performFast(buffer, comparisons, columns) {
		t.Skip("no vector routines")
	}
	for i, v := range buffer {
		if !sameBits(v, want[i]) {
			t.Fatalf("value %d of %T in rows of %d is %v, expected %v", i, v, stride, v, want[i])
		}
	}
}
