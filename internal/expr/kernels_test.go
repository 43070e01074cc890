package expr

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"leat/internal/guardtest"
	"leat/ndarray"
)

// awkward returns n values that include zeros of both signs, infinities, subnormals and, with nan,
// NaN.
func awkward[T real](r *rand.Rand, n int, nan bool) []T {
	s := make([]T, n)
	for i := range s {
		switch r.IntN(9) {
		case 0:
			s[i] = []T{0, T(math.Copysign(0, -1)), T(math.Inf(1)), T(math.Inf(-1)), 1e-40, T(math.MaxFloat32), -1e-45,
				1}[r.IntN(8)]
		case 1:
			s[i] = T(float64(r.IntN(5)))
		default:
			s[i] = T(r.NormFloat64() * math.Pow(10, float64(r.IntN(20)-10)))
		}
		if nan && r.IntN(20) == 0 {
			s[i] = T(math.NaN())
		}
	}
	return s
}

// equalFloats compares bits, but treats all NaN as equal.
func equalFloats[T real](a, b []T) bool {
	return slices.EqualFunc(a, b, func(x, y T) bool {
		return x != x && y != y || math.Float64bits(float64(x)) == math.Float64bits(float64(y))
	})
}

var lengths = []int{0, 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 500, 511, 512}

func TestVectorArithmeticEqualsGo(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, n := range lengths {
		vectorRoutines(t, r, n, kernels32)
		vectorRoutines(t, r, n, kernels64)
	}
}

func vectorRoutines[T real](t *testing.T, r *rand.Rand, n int, k *kernels[T]) {
	a, b, c := awkward[T](r, n, true), awkward[T](r, n, true), awkward[T](r, 1, false)[0]
	got, want := make([]T, n), make([]T, n)
	plain := newKernels[T]()
	for _, o := range []op{opAdd, opSub, opMul, opDiv} {
		k.vv[o](got, a, b)
		plain.vv[o](want, a, b)
		if !equalFloats(got, want) {
			t.Errorf("operation %d of %d %T differs", o, n, a)
		}
		d := slices.Clone(a)
		if k.vv[o](d, d, b); !equalFloats(d, want) {
			t.Errorf("operation %d of %d %T in place differs", o, n, a)
		}
		k.vk[o](got, a, c)
		plain.vk[o](want, a, c)
		if !equalFloats(got, want) {
			t.Errorf("operation %d of %d %T with a constant on the right differs", o, n, a)
		}
		k.kv[o](got, a, c)
		plain.kv[o](want, a, c)
		if !equalFloats(got, want) {
			t.Errorf("operation %d of %d %T with a constant on the left differs", o, n, a)
		}
	}
}

func TestVectorConversionsEqualGo(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range lengths {
		bits := make([]byte, 8*n+8)
		for i := range bits {
			bits[i] = byte(r.Uint32())
		}
		bits = aligned(bits)
		converts(t, ndarray.Cast[uint8](bits)[:n])
		converts(t, ndarray.Cast[int8](bits)[:n])
		converts(t, ndarray.Cast[uint16](bits)[:n])
		converts(t, ndarray.Cast[int16](bits)[:n])
		f, g := awkward[float32](r, n, true), awkward[float64](r, n, true)
		f64, g32 := make([]float64, n), make([]float32, n)
		ev := &Evaluator{r32: [][]float32{f, g32}, r64: [][]float64{g, f64}}
		runTo64(ev, &instr{dst: 1, args: []int{0}}, n)
		runTo32(ev, &instr{dst: 1, args: []int{0}}, n)
		for i := range n {
			if f[i] == f[i] && f64[i] != float64(f[i]) || g[i] == g[i] && g32[i] != float32(g[i]) {
				t.Errorf("%d elements: conversion of %v or %v differs", n, f[i], g[i])
			}
		}
		for i := range n {
			s := make([]float32, n)
			for j := range s {
				s[j] = float32(j) + 2
			}
			if special(s, 1) {
				t.Fatal("something special in ordinary numbers")
			}
			for _, v := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1} {
				if s[i] = v; !special(s, 1) || hasNot(s) != (v != v) {
					t.Fatalf("%v at %d of %d is not found", v, i, n)
				}
			}
			u := make([]uint16, n)
			if u[i] = 0xffff; !contains(u, 0xffff) || contains(u, 0x00ff) || contains(u, 1) {
				t.Fatalf("value at %d of %d", i, n)
			}
			if !contains(ndarray.Cast[int16](ndarray.BytesOf(u)), -1) {
				t.Fatalf("value at %d of %d", i, n)
			}
		}
	}
}

func converts[T integer](t *testing.T, s []T) {
	d := make([]float32, len(s))
	convert(d, s)
	for i, v := range s {
		if d[i] != float32(v) {
			t.Errorf("%d %T: %v is converted to %v", len(s), v, v, d[i])
		}
	}
}

func TestVectorComparisonsEqualGo(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	plain := newKernels[float32]()
	for _, n := range lengths {
		a, b := awkward[float32](r, n, true), awkward[float32](r, n, true)
		for i := range n {
			if r.IntN(3) == 0 {
				b[i] = a[i]
			}
		}
		got, want := make([]byte, n), make([]byte, n)
		for _, o := range []op{opLt, opLe, opGt, opGe, opEq, opNe} {
			kernels32.compare[o](got, a, b)
			plain.compare[o](want, a, b)
			if !bytes.Equal(got, want) {
				t.Errorf("comparison %d of %d elements differs", o, n)
			}
			for _, k := range append(awkward[float32](r, 3, true), 1, float32(math.NaN())) {
				kernels32.compareK[o](got, a, k)
				plain.compareK[o](want, a, k)
				if !bytes.Equal(got, want) {
					t.Errorf("comparison %d of %d elements with %v differs", o, n, k)
				}
			}
		}
	}
}

func TestVectorMasksEqualGo(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 10))
	for _, n := range lengths {
		c, a, b, words := make([]byte, n), make([]byte, n), make([]byte, n), make([]uint16, n)
		x, y := make([]uint32, n), make([]uint32, n)
		for i := range n {
			c[i], a[i], b[i], words[i] = byte(r.IntN(2)), byte(r.IntN(2)), byte(r.IntN(2)), uint16(r.IntN(3))
			x[i], y[i] = r.Uint32(), r.Uint32()
		}
		d, gone, some := make([]byte, n), make([]byte, n), make([]byte, n)
		whereBytes(d, c, a, b)
		notBytes(gone, c)
		orBytes(some, a, b)
		differs := make([]byte, n)
		for i := differ(differs, words, 2); i < n; i++ {
			differs[i] = one(words[i] != 2)
		}
		chosen, patched := make([]uint32, n), slices.Clone(x)
		where(chosen, c, x, y)
		patch(patched, c, 7)
		keys, counts := make([]int32, n), make([]int32, n)
		for i := range keys {
			keys[i], counts[i] = int32(x[i]), 5
		}
		maskKeys(keys, counts, c)
		for i := range n {
			byteWanted, wanted, patchWanted, keyWanted := b[i], y[i], uint32(7), int32(invalidKey)
			if c[i] != 0 {
				byteWanted, wanted, patchWanted, keyWanted = a[i], x[i], x[i], int32(x[i])
			}
			if d[i] != byteWanted || gone[i] != 1-c[i] || some[i] != max(a[i], b[i]) ||
				differs[i] != one(words[i] != 2) {
				t.Fatalf("bytes at %d of %d differ", i, n)
			}
			if chosen[i] != wanted || patched[i] != patchWanted || keys[i] != keyWanted || counts[i] != 4+int32(c[i]) {
				t.Fatalf("words at %d of %d differ", i, n)
			}
		}
	}
}

func TestVectorRoundingEqualsGo(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	for _, n := range lengths {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(r.IntN(1200)-600) / 4
		}
		got, bytes, words := make([]int32, n), make([]int8, n), make([]int16, n)
		if round32(got, v, -150, 150) {
			t.Fatalf("%d elements: one is beyond the limits", n)
		}
		narrow(bytes, got)
		narrow(words, got)
		for i, x := range v {
			if want := int32(math.RoundToEven(float64(x))); got[i] != want || bytes[i] != int8(want) ||
				words[i] != int16(want) {
				t.Fatalf("%v at %d of %d is rounded to %d, %d, %d", x, i, n, got[i], bytes[i], words[i])
			}
		}
		for i := range v {
			for _, x := range []float32{-150.6, 150.6, 1e30, float32(math.Inf(-1)), float32(math.NaN())} {
				old := v[i]
				if v[i] = x; !round32(got, v, -150, 150) {
					t.Fatalf("%v at %d of %d is within the limits", x, i, n)
				}
				v[i] = old
			}
		}
	}
}

// TestStoresEqualGeneral compares the ways to store integers with the one for any value.
func TestStoresEqualGeneral(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for _, typ := range []ndarray.DType{ndarray.Uint8, ndarray.Int8, ndarray.Uint16, ndarray.Int16} {
		lo, hi := typ.Limits()
		for round := range 60 {
			const n = 300
			nodata, _ := ndarray.ScalarFromFloat(float64(r.IntN(3)), typ)
			out := output{typ: typ, scale: 1}
			if round%3 != 0 {
				out.nodata = &nodata
			}
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(r.IntN(2*int(hi-lo)))/2 + float32(lo)
				if v[i] > float32(hi) {
					v[i] = float32(r.IntN(4))
				}
			}
			var mask []byte
			if round%2 == 0 {
				mask = make([]byte, n)
				for i := range mask {
					if mask[i] = byte(r.IntN(2)); mask[i] == 0 {
						v[i] = float32(math.NaN())
					}
				}
			}
			switch r.IntN(4) {
			case 0:
				v[r.IntN(n)] = float32(math.NaN())
			case 1:
				v[r.IntN(n)] = float32(hi) + 1
			case 2:
				v[r.IntN(n)] = float32(math.Inf(-1))
			}
			var data [2][]byte
			var counts [2]Counts
			var errs [2]*PixelError
			for i, scaled := range []bool{false, true} { // a scale of 1 makes the way general
				o := out
				o.scaled = scaled
				root := &root{reg: reg32, nan: true, typ: floatType(c32), out: &o}
				data[i] = make([]byte, n*typ.Size())
				counts[i].FirstCollision = -1
				ev := &Evaluator{r32: [][]float32{slices.Clone(v)}, masks: [][]byte{mask}, dst: [][]byte{data[i]},
					counts: []*Counts{&counts[i]}}
				storeKernel(&o, root)(ev, &instr{root: root, args: []int{0, 0}}, n)
				errs[i] = ev.err
			}
			if (errs[0] == nil) != (errs[1] == nil) || errs[0] != nil && *errs[0] != *errs[1] {
				t.Fatalf("%v: errors %v and %v", typ, errs[0], errs[1])
			}
			if errs[0] == nil && (counts[0] != counts[1] || !bytes.Equal(data[0], data[1])) {
				t.Fatalf("%v: counts %+v and %+v, equal pixels: %v", typ, counts[0], counts[1], bytes.Equal(data[0], data[1]))
			}
		}
	}
}

func TestSortingNetworks(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	for n := 1; n <= 70; n++ {
		for _, span := range [][2]int{{0, n - 1}, {(n - 1) / 2, n / 2}, {0, n / 2}} {
			net := network(n, span[0], span[1])
			for range 30 {
				v := make([]int32, n)
				for i := range v {
					v[i] = int32(r.IntN(3)) // few values suffice by the 0-1 principle
				}
				want := slices.Sorted(slices.Values(v))
				for _, c := range net {
					order(v[c.lo:c.lo+1], v[c.hi:c.hi+1])
				}
				if !slices.Equal(v[span[0]:span[1]+1], want[span[0]:span[1]+1]) {
					t.Fatalf("%d rows, %v: %v", n, span, v)
				}
			}
		}
	}
}

func TestNetworkMedianEqualsSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, items := range []int{1, 2, 3, 4, 5, 12, 13, 64, 200, maxNetwork, maxNetwork + 1} {
		const n = 190
		ev := &Evaluator{masks: make([][]byte, items), r32: make([][]float32, items+2)}
		in := &instr{dst: items, items: items}
		for j := range items {
			ev.r32[j] = awkward[float32](r, n, false)
			if r.IntN(2) == 0 {
				ev.masks[j] = make([]byte, n)
				for i := range n {
					if ev.masks[j][i] = byte(r.IntN(2)); ev.masks[j][i] == 0 {
						ev.r32[j][i] = float32(math.NaN()) // invalid items have arbitrary values
					}
				}
			}
			in.args = append(in.args, j)
		}
		for j := range items {
			in.args = append(in.args, j)
		}
		ev.r32[items], ev.r32[items+1] = make([]float32, n), make([]float32, n)
		for _, s := range []*statistic{medianOf(items), quantileOf(items, 0.9), quantileOf(items, r.Float64())} {
			in.dst = items
			rankKernel(reg32, items, s)(ev, in, n)
			in.dst = items + 1
			s.byColumn32(ev, in, n)
			if !bytes.Equal(ndarray.BytesOf(ev.r32[items]), ndarray.BytesOf(ev.r32[items+1])) {
				t.Errorf("statistics of %d items differ: ranks %v", items, s.ranks[items])
			}
		}
		in.dst = items
		modeKernel(reg32, items)(ev, in, n)
		in.dst = items + 1
		modeByColumn[float32](ev, in, n)
		if !bytes.Equal(ndarray.BytesOf(ev.r32[items]), ndarray.BytesOf(ev.r32[items+1])) {
			t.Errorf("modes of %d items differ", items)
		}
	}
}

func TestPixelsSortAsNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	for _, items := range []int{1, 2, 3, 12, 13, 64, maxNetwork} {
		for _, d := range []ndarray.DType{ndarray.Uint16, ndarray.Int16} {
			for _, n := range []int{1, 31, 190, chunk} {
				pixelStatistics(t, r, d, items, n)
			}
		}
	}
}

// TestVectorSortsEqualGo compares the routines that sort items and make them invalid with plain
// loops, for rows that end where memory can't be accessed.
func TestVectorSortsEqualGo(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	const most = 130
	a, b, c := guardtest.New(4*most), guardtest.New(4*most), guardtest.New(most)
	for n := range most {
		valid := c.Last(n)
		for _, largest := range []int{3, 1 << 31} {
			for i := range valid {
				valid[i] = byte(r.IntN(2))
			}
			random := func() uint32 { return uint32(r.IntN(largest))*2 + uint32(r.IntN(2)) }
			compareSorts(t, rowsOf[int32](a, b, n, 4, random), valid, order, maskKeys, splitKeys, math.MinInt32,
				math.MaxInt32)
			compareSorts(t, rowsOf[uint16](a, b, n, 2, random), valid,
				func(a, b []uint16) { orderPixels(a, b, a, b) }, maskPixels, splitPixels, 0, math.MaxUint16)
		}
	}
}

// TestVectorPixelsEqualGo compares the routines that read pixels from sources with plain loops.
func TestVectorPixelsEqualGo(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	const most = 130
	a, b, c, d := guardtest.New(2*most), guardtest.New(2*most), guardtest.New(2*most), guardtest.New(4*most)
	for n := range most {
		rows := rowsOf[uint16](a, b, n, 2, r.Uint32)
		x, y := slices.Clone(rows[0]), slices.Clone(rows[1])
		lo, hi := ndarray.Cast[uint16](c.Last(2 * n))[:n:n], ndarray.Cast[uint16](d.Last(2 * n))[:n:n]
		orderPixels(lo, hi, rows[0], rows[1])
		for i := range lo {
			if lo[i] != min(x[i], y[i]) || hi[i] != max(x[i], y[i]) {
				t.Fatalf("pair %d of %d: %d and %d give %d and %d", i, n, x[i], y[i], lo[i], hi[i])
			}
		}
		for _, largest := range []bool{true, false} {
			third := make([]uint16, n)
			all := [][]uint16{x, rows[0], y, rows[1]} // each number twice
			firstPixels(&[3][]uint16{lo, hi, third}, all, largest)
			for i := range lo {
				want := []uint16{x[i], x[i], y[i], y[i]}
				slices.Sort(want)
				if largest {
					slices.Reverse(want)
				}
				if got := []uint16{lo[i], hi[i], third[i]}; !slices.Equal(got, want[:3]) {
					t.Fatalf("the first of %v are %v, expected %v", want, got, want[:3])
				}
			}
		}
		fraction, zero := r.Float64(), int32(r.IntN(2)<<15)
		blend := ndarray.Cast[float32](d.Last(4 * n))[:n:n]
		blendPixels(blend, rows[0], rows[1], zero, fraction)
		for i, v := range blend {
			first, second := float64(x[i])-float64(zero), float64(y[i])-float64(zero)
			want := float32(first + float64((second-first)*fraction))
			if math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("%v of the way from %v to %v is %v, expected %v", fraction, first, second, v, want)
			}
		}
		if !slices.Equal(rows[0], x) || !slices.Equal(rows[1], y) {
			t.Fatalf("%d pixels: the sources changed", n)
		}
	}
}

// rowsOf returns two rows of random numbers at the ends of memory.
func rowsOf[K int32 | uint16](a, b guardtest.Memory, n, size int, random func() uint32) (rows [2][]K) {
	for i, m := range []guardtest.Memory{a, b} {
		rows[i] = ndarray.Cast[K](m.Last(n * size))[:n:n]
		for k := range rows[i] {
			rows[i][k] = K(random())
		}
	}
	return rows
}

func compareSorts[K int32 | uint16](t *testing.T, rows [2][]K, valid []byte, order func(a, b []K),
	mask, split func(row, counts []K, valid []byte), least, greatest K) {
	t.Helper()
	a, b := rows[0], rows[1]
	x, y := slices.Clone(a), slices.Clone(b)
	order(a, b)
	for i := range a {
		if a[i] != min(x[i], y[i]) || b[i] != max(x[i], y[i]) {
			t.Fatalf("pair %d of %d %T: %d and %d become %d and %d", i, len(a), a, x[i], y[i], a[i], b[i])
		}
	}
	for _, splits := range []bool{false, true} {
		for i := range b {
			b[i] &= 0xff
		}
		copy(a, x)
		counts := slices.Clone(b)
		if splits {
			split(a, b, valid)
		} else {
			mask(a, b, valid)
		}
		for i, v := range valid {
			item, count := x[i], counts[i]
			if v == 0 {
				count--
				if item = greatest; splits && counts[i]%2 == 0 {
					item = least
				}
			}
			if a[i] != item || b[i] != count {
				t.Fatalf("item %d of %d %T, split %v: %d of count %d becomes %d of count %d", i, len(a), a, splits, x[i],
					counts[i], a[i], b[i])
			}
		}
	}
}

// pixelStatistics compares statistics of pixels with those of the same numbers as float32.
func pixelStatistics(t *testing.T, r *rand.Rand, d ndarray.DType, items, n int) {
	ev := &Evaluator{masks: make([][]byte, items), r32: make([][]float32, items+2), src: make([]Operand, items)}
	in := &instr{dst: items, items: items}
	widest := 1 + r.IntN(1<<16)
	for j := range items {
		data := aligned(make([]byte, 2*n+8))[:2*n]
		ev.r32[j] = make([]float32, n)
		ev.src[j].Data = data
		for i, v := range ndarray.Cast[uint16](data) {
			if v = uint16(r.IntN(widest)); r.IntN(9) == 0 {
				v = []uint16{0, 1, 0x7fff, 0x8000, 0xffff}[r.IntN(5)]
			}
			ndarray.Cast[uint16](data)[i] = v
			if ev.r32[j][i] = float32(v); d == ndarray.Int16 {
				ev.r32[j][i] = float32(int16(v))
			}
		}
		if items < 4 || r.IntN(2) == 0 {
			ev.masks[j] = make([]byte, n)
			for i := range n {
				ev.masks[j][i] = byte(r.IntN(2))
			}
		}
		in.args = append(in.args, j)
	}
	for j := range items {
		in.args = append(in.args, j)
	}
	ev.r32[items], ev.r32[items+1] = make([]float32, n), make([]float32, n)
	var sources [][]byte
	for _, s := range ev.src {
		sources = append(sources, bytes.Clone(s.Data))
	}
	for range 2 {
		for _, s := range []*statistic{medianOf(items), quantileOf(items, 0), quantileOf(items, 0.9),
			quantileOf(items, r.Float64())} {
			in.dst = items
			rawRankKernel(d, items, s)(ev, in, n)
			in.dst = items + 1
			rankKernel(reg32, items, s)(ev, in, n)
			if !bytes.Equal(ndarray.BytesOf(ev.r32[items]), ndarray.BytesOf(ev.r32[items+1])) {
				t.Errorf("statistics of %d items of %v, %d pixels, differ: ranks %v", items, d, n, s.ranks[items])
			}
		}
		clear(ev.masks) // then all are valid
	}
	for j, s := range ev.src {
		if !bytes.Equal(s.Data, sources[j]) {
			t.Errorf("item %d of %d of %v changed", j, items, d)
		}
	}
}

// TestPixelsThatAreSortedAreNotConverted counts the instructions that load bands.
func TestPixelsThatAreSortedAreNotConverted(t *testing.T) {
	for _, c := range []struct {
		text  string
		d     ndarray.DType
		loads int
	}{
		{"median(t)", ndarray.Uint16, 0},
		{"percentile(t, 90)", ndarray.Int16, 0},
		{"median(t) - t[2]", ndarray.Uint16, 1},
		{"median(t) - mean(t)", ndarray.Uint16, 12},
		{"mode(t)", ndarray.Uint16, 12},
		{"median(t)", ndarray.Uint8, 12},
		{"median(t + 1)", ndarray.Uint16, 12},
	} {
		e, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Compile(e, map[string]Input{"t": dates(12, c.d, true)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		loads := 0
		for _, in := range p.code {
			if in.op == opLoad {
				loads++
			}
		}
		if loads != c.loads {
			t.Errorf("%s of %v: %d loads, expected %d", c.text, c.d, loads, c.loads)
		}
	}
}

func TestIntegerPowers(t *testing.T) {
	for k := range 40 {
		for _, a := range []float64{2, -3, 1.5, 7} {
			if want := math.Pow(a, float64(k)); math.Abs(want) <= maxExact && powInt(a, k) != want {
				t.Errorf("%v ** %d is %v", a, k, powInt(a, k))
			}
		}
	}
	for _, a := range []float64{math.NaN()} {
		if v := powInt(a, 0); v == v {
			t.Error("NaN ** 0 became valid")
		}
		if v := pow(1, a); v == v {
			t.Error("1 ** NaN became valid")
		}
	}
}
