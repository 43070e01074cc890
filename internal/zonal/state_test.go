package zonal

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/block"
	"leat/internal/proctest"
	"leat/ndarray"
)

const allStatistics = "count,nodata,sum,mean,min,max,range,std,var,variety,mode,minority,median,p0,p2.5,p90,p100,histogram(-10,0,0.5,100)"

// randomValues returns a square of values of a type, some of them invalid.
func randomValues(rng *rand.Rand, t ndarray.DType, size int) (values, valid *ndarray.Array) {
	values, valid = ndarray.New(t, size, size), ndarray.New(ndarray.Uint8, size, size)
	for i := range valid.Data {
		if rng.IntN(8) > 0 {
			valid.Data[i] = 1
		}
	}
	spread := []float64{3, 100, 1e6}[rng.IntN(3)]
	f := func() float64 {
		switch rng.IntN(40) {
		case 0:
			return math.Copysign(0, -1)
		case 1:
			return rng.NormFloat64() * 1e-30
		}
		return rng.NormFloat64() * spread
	}
	for i := range size * size {
		switch t {
		case ndarray.Uint8:
			ndarray.Slice[uint8](values)[i] = uint8(rng.IntN(256) / (1 + int(100/spread)))
		case ndarray.Int8:
			ndarray.Slice[int8](values)[i] = int8(rng.IntN(256) - 128)
		case ndarray.Uint16:
			ndarray.Slice[uint16](values)[i] = uint16(rng.IntN(1 << 16))
		case ndarray.Int16:
			ndarray.Slice[int16](values)[i] = int16(f())
		case ndarray.Uint32:
			ndarray.Slice[uint32](values)[i] = rng.Uint32()
		case ndarray.Int32:
			ndarray.Slice[int32](values)[i] = int32(rng.Uint32())
		case ndarray.Uint64:
			ndarray.Slice[uint64](values)[i] = rng.Uint64()
		case ndarray.Int64:
			ndarray.Slice[int64](values)[i] = int64(rng.Uint64())
		case ndarray.Float32:
			v := float32(f())
			if rng.IntN(30) == 0 {
				v = float32(math.NaN())
			}
			ndarray.Slice[float32](values)[i] = v
		case ndarray.Float64:
			v := f()
			switch rng.IntN(30) {
			case 0:
				v = math.NaN()
			case 1:
				v = math.Ldexp(rng.Float64(), -1073+rng.IntN(2000))
			}
			ndarray.Slice[float64](values)[i] = v
		}
	}
	return values, valid
}

// ratAt returns a value as a fraction, and nil for NaN.
func ratAt(a *ndarray.Array, i int) *big.Rat {
	switch a.Type {
	case ndarray.Uint8:
		return new(big.Rat).SetInt64(int64(ndarray.Slice[uint8](a)[i]))
	case ndarray.Int8:
		return new(big.Rat).SetInt64(int64(ndarray.Slice[int8](a)[i]))
	case ndarray.Uint16:
		return new(big.Rat).SetInt64(int64(ndarray.Slice[uint16](a)[i]))
	case ndarray.Int16:
		return new(big.Rat).SetInt64(int64(ndarray.Slice[int16](a)[i]))
	case ndarray.Uint32:
		return new(big.Rat).SetInt64(int64(ndarray.Slice[uint32](a)[i]))
	case ndarray.Int32:
		return new(big.Rat).SetInt64(int64(ndarray.Slice[int32](a)[i]))
	case ndarray.Uint64:
		return new(big.Rat).SetUint64(ndarray.Slice[uint64](a)[i])
	case ndarray.Int64:
		return new(big.Rat).SetInt64(ndarray.Slice[int64](a)[i])
	case ndarray.Float32:
		return new(big.Rat).SetFloat64(float64(ndarray.Slice[float32](a)[i]))
	}
	return new(big.Rat).SetFloat64(ndarray.Slice[float64](a)[i])
}

// weighted is a pixel of the reference.
type weighted struct{ v, w *big.Rat }

// reference computes the statistics from their definitions, in fractions.
func reference(stats []Statistic, pixels []weighted, nodata *big.Rat) []float64 {
	float := func(r *big.Rat) float64 { f, _ := r.Float64(); return f }
	sort := slices.Clone(pixels)
	slices.SortFunc(sort, func(a, b weighted) int {
		if c := a.v.Cmp(b.v); c != 0 {
			return c
		}
		return a.w.Cmp(b.w)
	})
	w, sum := new(big.Rat), new(big.Rat)
	for _, p := range pixels {
		w.Add(w, p.w)
		sum.Add(sum, new(big.Rat).Mul(p.v, p.w))
	}
	var out []float64
	for _, s := range stats {
		if len(pixels) == 0 && s.Name != "count" && s.Name != "nodata" && s.Name != "variety" {
			out = append(out, math.NaN())
			continue
		}
		groups := func(better func(c int) bool) float64 {
			var best, of *big.Rat
			for i := 0; i < len(sort); {
				g := new(big.Rat)
				j := i
				for ; j < len(sort) && sort[j].v.Cmp(sort[i].v) == 0; j++ {
					g.Add(g, sort[j].w)
				}
				if best == nil || better(g.Cmp(best)) {
					best, of = g, sort[i].v
				}
				i = j
			}
			return float(of)
		}
		switch s.kind {
		case statCount:
			out = append(out, float(w))
		case statNodata:
			out = append(out, float(nodata))
		case statSum:
			out = append(out, float(sum))
		case statMean:
			out = append(out, float(new(big.Rat).Quo(sum, w)))
		case statVar, statStd:
			mean, v := new(big.Rat).Quo(sum, w), new(big.Rat)
			for _, p := range pixels {
				d := new(big.Rat).Sub(p.v, mean)
				v.Add(v, d.Mul(d, d).Mul(d, p.w))
			}
			f := float(v.Quo(v, w))
			if s.kind == statStd {
				f = math.Sqrt(f)
			}
			out = append(out, f)
		case statMin:
			out = append(out, float(sort[0].v))
		case statMax:
			out = append(out, float(sort[len(sort)-1].v))
		case statRange:
			out = append(out, float(new(big.Rat).Sub(sort[len(sort)-1].v, sort[0].v)))
		case statVariety:
			n := 0
			for i := range sort {
				if i == 0 || sort[i].v.Cmp(sort[i-1].v) != 0 {
					n++
				}
			}
			out = append(out, float64(n))
		case statMode:
			out = append(out, groups(func(c int) bool { return c > 0 }))
		case statMinority:
			out = append(out, groups(func(c int) bool { return c < 0 }))
		case statHistogram:
			in := new(big.Rat)
			for _, p := range pixels { // the bin [0, 0.5)
				if p.v.Sign() >= 0 && p.v.Cmp(big.NewRat(1, 2)) < 0 {
					in.Add(in, p.w)
				}
			}
			out = append(out, float(in))
		case statPercentile:
			n := len(sort) - 1
			s0 := make([]*big.Rat, n+1)
			before := new(big.Rat)
			for i, p := range sort {
				s0[i] = new(big.Rat).Mul(big.NewRat(int64(i), 1), p.w)
				s0[i].Add(s0[i], new(big.Rat).Mul(big.NewRat(int64(n), 1), before))
				before.Add(before, p.w)
			}
			at := new(big.Rat).Mul(before, big.NewRat(int64(n)*s.num, s.den))
			right := 0
			for right <= n && s0[right].Cmp(at) <= 0 {
				right++
			}
			v := new(big.Rat).Set(sort[right-1].v)
			if right <= n && v.Cmp(sort[right].v) != 0 {
				f := new(big.Rat).Sub(at, s0[right-1])
				f.Quo(f, new(big.Rat).Sub(s0[right], s0[right-1]))
				v.Add(v, f.Mul(f, new(big.Rat).Sub(sort[right].v, v)))
			}
			out = append(out, float(v))
		}
	}
	return out
}

var types = []ndarray.DType{ndarray.Uint8, ndarray.Int8, ndarray.Uint16, ndarray.Int16, ndarray.Uint32, ndarray.Int32,
	ndarray.Uint64, ndarray.Int64, ndarray.Float32, ndarray.Float64}

// window returns a view of a window of an array.
func window(a *ndarray.Array, w block.Window) *ndarray.Array {
	v := *a
	v.Shape = []int{1, w.Height, w.Width}
	v.Strides = []int{0, a.Strides[0], a.Strides[1]}
	v.Offset += w.Row*a.Strides[0] + w.Col*a.Strides[1]
	return &v
}

// TestStatisticsAreExact compares with fractions, and states of any division in any order.
func TestStatisticsAreExact(t *testing.T) {
	stats, err := Parse(allStatistics)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 1))
	const size = 40
	var r Rasterizer
	var m Mask
	count := proctest.Rounds(40, 120, 400)
	for n := range count {
		typ, rule := types[n%len(types)], Rule(rng.IntN(3))
		spec, err := NewSpec(typ, rule, stats)
		if err != nil {
			t.Fatal(err)
		}
		values, valid := randomValues(rng, typ, size)
		p := randomPolygon(rng)
		r.Cover(p, block.Window{Width: size, Height: size}, rule, &m)
		var pixels []weighted
		nodata := new(big.Rat)
		for i, w := range shares(&m, size, size) {
			v, weight := ratAt(values, i), big.NewRat(int64(w), int64(One))
			switch {
			case w == 0:
			case v == nil || valid.Data[i] == 0:
				nodata.Add(nodata, weight)
			default:
				pixels = append(pixels, weighted{v, weight})
			}
		}
		want := reference(stats, pixels, nodata)

		var encoded []byte
		for round := range 3 {
			plan := block.Plan{Width: size, Height: size}
			plan.WindowWidth, plan.WindowHeight = 1+rng.IntN(size), 1+rng.IntN(size)
			c := NewCollector(spec)
			var total State
			for _, i := range rng.Perm(plan.Count()) {
				b := plan.At(i).Window
				r.Cover(p, b, rule, &m)
				var st, back State
				if err := c.Add(&st, &m, window(values, b), window(valid, b)); err != nil {
					t.Fatal(err)
				}
				rest, err := spec.Decode(spec.Append(nil, &st), &back)
				if err != nil || len(rest) > 0 {
					t.Fatalf("decoding: %v, %d bytes left", err, len(rest))
				}
				if err := spec.Merge(&total, &back); err != nil {
					t.Fatal(err)
				}
			}
			b := spec.Append(nil, &total)
			if round > 0 && !bytes.Equal(b, encoded) {
				t.Fatalf("%s, polygon %d: the state differs in another order or division", typ, n)
			}
			encoded = b
			for i, got := range spec.Results(nil, &total) {
				f := got.AsFloat()
				if got.Null {
					f = math.NaN()
				} else if got.Type == Histogram {
					f = got.Bins[1].Count
				}
				if f != want[i] && !(math.IsNaN(f) && math.IsNaN(want[i])) {
					t.Fatalf("%s, polygon %d, rule %d: %s is %v, expected %v (of %d pixels)", typ, n, rule,
						stats[i].Name, f, want[i], len(pixels))
				}
			}
		}
	}
}
