//go:build linux

package shm

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/internal/npy"
	"leat/ndarray"
)

type spot struct {
	ID  uint16
	XY  [2]float32
	Sub struct{ V float64 }
	_   byte
	OK  bool
}

func TestEveryPlaceAndSize(t *testing.T) {
	isolate(t)
	for _, place := range []Place{Auto, Memfd, Named, Temp} {
		t.Run(place.String(), func(t *testing.T) {
			s := newSharer(t, &Options{Place: place})
			var handles []Handle
			var want []string
			for _, n := range []int{0, 1, 100, arenaMax - 1, arenaMax, arenaMax + 1, 1 << 20, 5<<20 + 3, 9 << 20} {
				src := numbers(n, uint64(n))
				a := must(s.Put(src))(t)
				if !bytes.Equal(src, must(Slice[byte](a))(t)) {
					t.Fatalf("%d bytes are others here", n)
				}
				handles = append(handles, must(a.Handle())(t))
				want = append(want, fmt.Sprintf("%x", digestOf(ndarray.FromSlice(src, n))))
			}
			if diff := cmp.Diff(want, elsewhere(t, ReadOnly, handles...)); diff != "" {
				t.Errorf("read only: %s", diff)
			}
			if diff := cmp.Diff(want, elsewhere(t, CopyOnWrite, handles...)); diff != "" {
				t.Errorf("copy on write: %s", diff)
			}
		})
	}
}

func TestRecordsAndTruthValues(t *testing.T) {
	s, other := newSharer(t, nil), newSharer(t, nil)
	src := make([]spot, 5000)
	for i := range src {
		src[i].ID, src[i].XY, src[i].Sub.V, src[i].OK = uint16(i), [2]float32{float32(i), -1}, float64(i)/3, i%3 == 0
	}
	a := must(s.Put(src, 50, 100))(t)
	b := must(other.Attach(must(a.Handle())(t), ReadOnly))(t)
	if diff := cmp.Diff(src, must(Slice[spot](b))(t), cmp.AllowUnexported(spot{})); diff != "" {
		t.Fatal(diff)
	}
	xy := must(b.Field("XY"))(t)
	if diff := cmp.Diff([]int{50, 100, 2}, xy.Shape()); diff != "" {
		t.Error(diff)
	}
	// The field travels as a view.
	c := must(other.Attach(must(xy.Handle())(t), ReadOnly))(t)
	v := c.View()
	flat := must(other.Put(v))(t)
	if diff := cmp.Diff(xy.View().Strides, flat.View().Strides); diff != "" {
		t.Errorf("a view that is shared was copied: %s", diff)
	}
	packed := newSharer(t, nil)
	copied := must(packed.Put(v))(t)
	if got, err := Slice[[2]float32](copied); err != nil || got[4999] != src[4999].XY || len(got) != 5000 {
		t.Errorf("%v, %v", len(got), err)
	}
	if _, err := Slice[float64](b); err == nil {
		t.Error("records were read as numbers")
	}
	bits := must(s.Put([]bool{true, false, true}))(t)
	d := must(other.Attach(must(bits.Handle())(t), ReadOnly))(t)
	if diff := cmp.Diff([]bool{true, false, true}, must(Slice[bool](d))(t)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatHoldsAPointerIsRefused(t *testing.T) {
	s := newSharer(t, nil)
	type bad struct {
		N    int
		Name string
	}
	for _, v := range []any{[]string{"a"}, []*int{nil}, []bad{{}}, []any{1}, map[int]int{}, 3, nil, []uintptr{1},
		(*ndarray.Array)(nil)} {
		if a, err := s.Put(v); err == nil {
			t.Errorf("%T was shared as %v", v, a.Descr())
		}
	}
	if _, err := s.Put([]bad{{}}); !errors.Is(err, npy.ErrUnsupported) || !strings.Contains(err.Error(), "Name") {
		t.Error(err)
	}
}

func TestShapeOfSlice(t *testing.T) {
	s := newSharer(t, nil)
	for _, shape := range [][]int{{3}, {2, 3}, {-1, -4}, {0}, {1 << 62, 4, 1 << 62}} {
		if _, err := s.Put([]int32{1, 2, 3, 4}, shape...); err == nil {
			t.Errorf("4 values became an array of %v", shape)
		}
	}
	if a, err := s.Put([]int32{1, 2, 3, 4}, 2, 2); err != nil || a.Shape()[1] != 2 {
		t.Error(err)
	}
}

// randomView returns a view within n bytes of data.
func randomView(r *rand.Rand, elem ndarray.DType, n int) *ndarray.Array {
	size := elem.Size()
	for {
		dims := r.IntN(5)
		v := &ndarray.Array{Type: elem, Shape: make([]int, dims), Strides: make([]int, dims)}
		total := 1
		for i := range dims {
			v.Shape[i] = r.IntN(7)
			if r.IntN(4) > 0 {
				v.Shape[i]++
			}
			total *= v.Shape[i]
			switch r.IntN(6) {
			case 0:
				v.Strides[i] = 0
			case 1: // not a multiple of the element
				v.Strides[i] = r.IntN(2*n/7) - n/7
			default:
				v.Strides[i] = (r.IntN(41) - 20) * size
			}
		}
		lo, hi, err := view{npy.ElemOfDType(elem), 0, v.Shape, v.Strides}.bounds()
		if err != nil || hi-lo > int64(n) {
			continue
		}
		v.Offset = int(-lo) + r.IntN(n-int(hi-lo)+1)
		return v
	}
}

var viewTypes = []ndarray.DType{ndarray.Uint8, ndarray.Int16, ndarray.Float32, ndarray.Float64, ndarray.Complex128,
	ndarray.Float16, ndarray.Uint64}

func TestRandomViewsInOtherProcess(t *testing.T) {
	isolate(t)
	views := 1000
	if !testing.Short() {
		views = 100_000
	}
	s := newSharer(t, nil)
	r := rand.New(rand.NewPCG(1, 2))
	var mems []*Array
	for _, place := range []int{3000, arenaMax + 5000, 200_000} {
		mems = append(mems, must(s.Put(numbers(place, uint64(place))))(t))
	}
	var handles []Handle
	var want []string
	for range views {
		v := randomView(r, viewTypes[r.IntN(len(viewTypes))], 2900)
		m := mems[r.IntN(len(mems))]
		at := r.IntN(m.Shape()[0] - 2900)
		v.Data = m.View().Data[at : at+2900]
		h, err := s.HandleOf(v)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, h)
		want = append(want, fmt.Sprintf("%x", digestOf(v)))
	}
	got := elsewhere(t, ReadOnly, handles...)
	wrong := 0
	for i := range want {
		if got[i] != want[i] {
			if wrong++; wrong < 5 {
				t.Errorf("%s: %s instead of %s", handles[i], got[i], want[i])
			}
		}
	}
	if wrong > 0 || len(got) != len(want) {
		t.Errorf("%d of %d views arrived wrong", wrong, len(want))
	}
}

func TestPutGathersViews(t *testing.T) {
	s := newSharer(t, &Options{Place: Memfd})
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		n := 3000
		v := randomView(r, viewTypes[i%len(viewTypes)], n)
		v.Data = numbers(n, uint64(i))
		a := must(s.Put(v))(t)
		if a.digest() != digestOf(v) {
			t.Fatalf("shape %v strides %v arrived wrong", v.Shape, v.Strides)
		}
		check(t, a.Close())
	}
	// Large enough for several goroutines, and pieces that begin within rows.
	big := ndarray.FromSlice(make([]float32, 3<<20), 3, 1024, 1024)
	for i := range ndarray.Slice[float32](big) {
		ndarray.Slice[float32](big)[i] = float32(i)
	}
	v := &ndarray.Array{Type: big.Type, Shape: []int{1023, 3, 700}, Strides: []int{-4096, 4 << 20, 4},
		Offset: 1022*4096 + 4, Data: big.Data}
	a := must(s.Put(v))(t)
	if a.digest() != digestOf(v) {
		t.Fatal("a large view arrived wrong")
	}
	check(t, a.Close())
}

func TestFortranOrderStaysAndCopiesNothing(t *testing.T) {
	s := newSharer(t, nil)
	src := ndarray.FromSlice([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	transposed := &ndarray.Array{Type: src.Type, Shape: []int{3, 2}, Strides: []int{4, 12}, Data: src.Data}
	a := must(s.Put(transposed))(t)
	if diff := cmp.Diff([]int{4, 12}, a.View().Strides); diff != "" {
		t.Error(diff)
	}
	if a.digest() != digestOf(transposed) {
		t.Error("it arrived scrambled")
	}
}
