//go:build linux

package shm

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/internal/pytest"
	"leat/ndarray"
)

func TestNumPyLoadsWholeArraysByTheirPath(t *testing.T) {
	isolate(t)
	type job struct {
		Path, Dtype string
		Shape       []int
		Sum         float64
		Fortran     bool
	}
	var jobs []job
	for _, place := range []Place{Memfd, Named, Temp} {
		s := newSharer(t, &Options{Place: place})
		values := make([]float64, 60_000)
		sum := 0.0
		for i := range values {
			values[i] = float64(i%1000) / 4
			sum += values[i]
		}
		c := must(s.Put(values, 300, 200))(t)
		src := ndarray.FromSlice(values, 300, 200)
		f := must(s.Put(&ndarray.Array{Type: src.Type, Shape: []int{200, 300}, Strides: []int{8, 1600},
			Data: src.Data}))(t)
		z := must(s.New(ndarray.Float64, 1000, 100))(t)
		check(t, must(s.Put(numbers(480_000, 1)))(t).Close()) // is used again
		again := must(s.Put(values, 100, 3, 200))(t)
		for _, a := range []*Array{c, f, z, again} {
			path, _, err := a.File()
			check(t, err)
			j := job{path, a.View().Type.String(), a.Shape(), sum, a == f}
			if a == z {
				j.Sum = 0
			}
			jobs = append(jobs, j)
		}
	}
	pytest.Run(t, []string{"numpy"}, `
import json, sys, numpy as np
for j in json.load(sys.stdin):
    for mode in ("r", "c"):
        a = np.load(j["Path"], mmap_mode=mode)
        assert isinstance(a, np.memmap), type(a)
        assert a.dtype == j["Dtype"] and list(a.shape) == j["Shape"], (a.dtype, a.shape, j)
        assert float(a.sum()) == j["Sum"], (a.sum(), j)
        assert a.offset % 4096 == 0
        assert a.flags.f_contiguous == j["Fortran"] or a.flags.c_contiguous
print("null")
`, jobs, nil)
}

func TestNumPyReadsViews(t *testing.T) {
	isolate(t)
	views := 1000
	if !testing.Short() {
		views = 20_000
	}
	type job struct {
		Path, Descr    string
		Offset         int64
		Shape, Strides []int
		Digest         string
	}
	r := rand.New(rand.NewPCG(7, 8))
	var mems []*Array
	for _, place := range []Place{Memfd, Named} {
		s := newSharer(t, &Options{Place: place})
		for _, n := range []int{3000, arenaMax + 5000} {
			mems = append(mems, must(s.Put(numbers(n, uint64(n))))(t))
		}
	}
	var jobs []job
	for i := range views {
		typ := viewTypes[r.IntN(len(viewTypes))]
		v := randomView(r, typ, 2900)
		m := mems[i%len(mems)]
		at := r.IntN(m.Shape()[0] - 2900)
		v.Data = m.View().Data[at : at+2900]
		h := must(m.pool.HandleOf(v))(t)
		a := must(m.pool.Attach(h, ReadOnly))(t)
		path, offset, err := a.File()
		check(t, err)
		jobs = append(jobs, job{path, strings.Trim(a.Descr(), "'"), offset, a.Shape(), a.View().Strides,
			fmt.Sprintf("%x", digestOf(v))})
		check(t, a.Close())
	}
	var got []string
	pytest.Run(t, []string{"numpy"}, `
import json, sys, numpy as np
files, out = {}, []
for j in json.load(sys.stdin):
    m = files.get(j["Path"])
    if m is None:
        m = files[j["Path"]] = np.memmap(j["Path"], "u1", "r")
    a = np.ndarray(j["Shape"] or (), j["Descr"], m, j["Offset"], j["Strides"] or ())
    h = 14695981039346656037
    for b in a.tobytes("C"):
        h = ((h ^ b) * 1099511628211) & 0xffffffffffffffff
    out.append("%x" % h)
print(json.dumps(out))
`, jobs, &got)
	var want []string
	for _, j := range jobs {
		want = append(want, j.Digest)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNumPyReadsRecordsAndTheirFields(t *testing.T) {
	isolate(t)
	s := newSharer(t, &Options{Place: Named})
	src := make([]spot, 3000)
	for i := range src {
		src[i].ID, src[i].XY, src[i].Sub.V, src[i].OK = uint16(i), [2]float32{float32(i), -1}, float64(i)/4, i%3 == 0
	}
	a := must(s.Put(src))(t)
	path, _, err := a.File()
	check(t, err)
	pytest.Run(t, []string{"numpy"}, `
import json, sys, numpy as np
a = np.load(json.load(sys.stdin), mmap_mode="r")
i = np.arange(3000)
assert (a["ID"] == i).all() and (a["XY"][:, 0] == i).all() and (a["XY"][:, 1] == -1).all()
assert (a["Sub"]["V"] == i / 4).all() and (a["OK"] == (i % 3 == 0)).all()
print("null")
`, path, nil)
}
