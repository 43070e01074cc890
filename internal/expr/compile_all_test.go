package expr

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leat/block"
	"leat/internal/proctest"
	"leat/ndarray"
)

// linkTexts parses and links expressions.
func linkTexts(t *testing.T, texts map[string]string, inputs map[string]Input) map[string]*Expr {
	t.Helper()
	parsed := map[string]*Expr{}
	for name, text := range texts {
		e, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		parsed[name] = e
	}
	linked, errs := Link(parsed, func(name string) bool { _, ok := inputs[name]; return ok })
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return linked
}

var sceneNames = regexp.MustCompile(`\b[abci]\b`)

// linkedTexts returns random expressions e0, e1, … that use earlier ones, and the same without
// names of others: each defines what it uses.
func (s *focalScene) linkedTexts() (texts, alone map[string]string) {
	texts, alone = map[string]string{}, map[string]string{}
	used := map[string][]string{} // all that an expression uses, in order
	for k := range 2 + s.IntN(4) {
		name := fmt.Sprintf("e%d", k)
		text := []string{s.text(s.IntN(3)), s.text(1), "a + i * 2", "median([a, b, c])", "b / a", "b > 5 and col < 9",
			"[a, b]", "sqrt(b) + x", "a > 5 ? nodata : b"}[s.IntN(9)]
		text = sceneNames.ReplaceAllStringFunc(text, func(input string) string {
			if k == 0 || s.IntN(5) < 2 {
				return input
			}
			other := fmt.Sprintf("e%d", s.IntN(k))
			for _, n := range append(slices.Clone(used[other]), other) {
				if !slices.Contains(used[name], n) {
					used[name] = append(used[name], n)
				}
			}
			return other
		})
		slices.Sort(used[name])
		texts[name] = text
		for _, n := range used[name] {
			alone[name] += n + " = " + texts[n] + "; "
		}
		alone[name] += text
	}
	return texts, alone
}

func TestLinkedExpressionsEqualDefinitions(t *testing.T) {
	rounds := proctest.Rounds(100, 400, 1500)
	computed, shared := 0, 0
	for seed := range uint64(rounds) {
		s := newScene(seed, 37, 29)
		margin := block.Margin(s.IntN(3))
		w := block.Window{Col: s.IntN(20), Row: s.IntN(15), Width: 1 + s.IntN(17), Height: 1 + s.IntN(14)}
		part := block.Window{Width: 1 + s.IntN(w.Width), Height: 1 + s.IntN(w.Height)}
		part.Col, part.Row = s.IntN(w.Width-part.Width+1), s.IntN(w.Height-part.Height+1)
		texts, alone := s.linkedTexts()
		linked := linkTexts(t, texts, s.inputs)
		var exprs []*Expr
		var opts []*Options
		var separate []*Program
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			o := &Options{Width: w.Width, Height: w.Height, Margin: margin,
				Domain: block.Window{Width: s.width, Height: s.height}.Shift(-w.Col, -w.Row),
				Type: []ndarray.DType{ndarray.NoType, ndarray.NoType, ndarray.Uint8, ndarray.Int16,
					ndarray.Float32}[s.IntN(5)],
				Nodata: []string{"", "", "7", "100"}[s.IntN(4)]}
			if s.IntN(4) == 0 {
				o.Scale, o.Offset = 0.5, 3
			}
			p, err := compileText(alone[name], s.inputs, o)
			if s.IntN(5) == 0 || err != nil { // an intermediate result, or an impossible one
				continue
			}
			exprs, opts, separate = append(exprs, linked[name]), append(opts, o), append(separate, p)
		}
		programs, members, err := CompileAll(exprs, s.inputs, opts)
		if err != nil {
			t.Fatalf("%v: %v", texts, err)
		}
		seen := 0
		for k, p := range programs {
			counts := make([]*Counts, len(members[k]))
			for i := range counts {
				counts[i] = &Counts{}
			}
			got := s.eval(t, p, w, part, s.IntN(3), counts...)
			for i, m := range members[k] {
				one, count := separate[m], &Counts{}
				want := s.eval(t, one, w, part, 0, count)
				o := p.Outputs()[i]
				if o.Type() != one.Type() || !reflect.DeepEqual(o.Nodata(), one.Nodata()) || o.Bands() != one.Bands() ||
					o.canBeInvalid() != one.canBeInvalid() {
					t.Fatalf("seed %d, %v: compiled with others %v, alone %v", seed, texts, p, one)
				}
				if count.FirstCollision >= 0 { // the margins differ
					count.FirstCollision, counts[i].FirstCollision = 0, min(counts[i].FirstCollision, 0)
				}
				if *count != *counts[i] {
					t.Fatalf("seed %d, %v: counts %+v, alone %+v", seed, one, counts[i], count)
				}
				for b := range want {
					if !bytes.Equal(got[b], want[b]) {
						t.Fatalf("seed %d, %v: band %d differs among %v:\n%v\n%v", seed, one, b+1, texts, got[b], want[b])
					}
				}
				got = got[len(want):]
				seen++
			}
			if len(members[k]) > 1 {
				shared++
			}
		}
		if seen != len(exprs) {
			t.Fatalf("%d of %d expressions were computed", seen, len(exprs))
		}
		computed += seen
	}
	if computed < rounds || shared < rounds/3 {
		t.Errorf("%d expressions in %d rounds, %d programs of several", computed, rounds, shared)
	}
}

// operations counts a program's instructions and the results of its focal functions.
func operations(p *Program, o op) (n int) {
	if p.focal != nil {
		for _, s := range p.focal.steps {
			if s.program != nil {
				n += operations(s.program, o)
			} else if o == opFocal {
				n++
			}
		}
	}
	for i := range p.code {
		if p.code[i].op == o && o != opFocal {
			n++
		}
	}
	return n
}

func TestSharedWorkIsDoneOnce(t *testing.T) {
	s := newScene(1, 20, 20)
	for _, c := range []struct {
		exprs    string // the outputs are all but v
		op       op
		times    int
		programs [][]int
	}{
		{"v = median([a, b, c]); e = v * 2; f = v > 3; g = [v, v + 1]; h = isnodata(v); j = v", opRedMedian, 1,
			[][]int{{0, 1, 2, 3, 4}}},
		{"v = focal_mean(b, 5); e = v * 2; f = focal_max(v, 3); g = v > b", opFocal, 2, [][]int{{0, 1, 2}}},
		{"e = sqrt(b); f = sqrt(b) + 1; g = sqrt(c); h = g * 2; j = a", opSqrt, 2, [][]int{{0, 1}, {2, 3}, {4}}},
		{"e = focal_mean(b, 3); f = focal_std(b, 3); g = b", opFocal, 2, [][]int{{0}, {1}, {2}}},
		{"v = exp(b); e = focal_mean(v, 3); f = focal_std(v, 3)", opExp, 1, [][]int{{0, 1}}},
		{"e = sqrt(b); f = e + g; g = exp(c)", opSqrt, 1, [][]int{{0, 1, 2}}},
		{"e = lat; f = a + lat; g = lon", opPlace, 2, [][]int{{0, 1}, {2}}},
		{"e = x; f = a + x", opPlace, 2, [][]int{{0}, {1}}},
	} {
		texts := map[string]string{}
		for _, d := range strings.Split(c.exprs, "; ") {
			name, text, _ := strings.Cut(d, " = ")
			texts[name] = text
		}
		linked := linkTexts(t, texts, s.inputs)
		var exprs []*Expr
		var opts []*Options
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if name != "v" {
				exprs, opts = append(exprs, linked[name]), append(opts, &Options{Width: 20, Height: 20})
			}
		}
		programs, members, err := CompileAll(exprs, s.inputs, opts)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, p := range programs {
			n += operations(p, c.op)
		}
		if n != c.times || !reflect.DeepEqual(members, c.programs) {
			t.Errorf("%s: %d operations in programs of %v, expected %d in %v", c.exprs, n, members, c.times, c.programs)
		}
	}
}

func TestErrorsNameTheOutput(t *testing.T) {
	in := map[string]Input{"a": {Files: []File{{Bands: []Band{{Type: ndarray.Float32}}}}}}
	linked := linkTexts(t, map[string]string{"e": "sqrt(a)", "f": "[e + 1, e * 2]"}, in)
	exprs := []*Expr{linked["e"], linked["f"]}
	programs, _, err := CompileAll(exprs, in, []*Options{{}, {Nodata: "none"}})
	if err != nil || len(programs) != 1 {
		t.Fatal(len(programs), err)
	}
	pixels := ndarray.BytesOf([]float32{4, 9, -1})
	dst := [][]byte{make([]byte, 12), make([]byte, 12), make([]byte, 12)}
	err = programs[0].NewEvaluator().Eval([]Operand{{Data: pixels}}, dst, 3)
	if pe, ok := err.(*PixelError); !ok || pe.Output != 1 || pe.Band != 1 || pe.Index != 2 {
		t.Errorf("%#v", err)
	}
	if err := programs[0].NewEvaluator().Eval([]Operand{{Data: pixels}}, dst, 2); err != nil {
		t.Error(err)
	}
	if _, _, err := CompileAll(exprs, in, []*Options{{}, {NoMask: true}}); err == nil {
		t.Error("options with and without masks are accepted")
	}
}
