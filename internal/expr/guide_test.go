package expr

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"leat/ndarray"
)

// The examples of the guide are blocks of lines, whose pixels have / between rows:
//
//	file has line [/ line]
//	name: [list of] type [nodata v] [at times] = pixels [| pixels of the next band or file]
//	expression  gives type [nodata v]: pixels [| pixels of the next band], - for an invalid one
//	expression  is refused: part of the message
func TestGuideExamples(t *testing.T) {
	data, err := os.ReadFile("../../docs/guide/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, block := range strings.Split(string(data), "```expr\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		inputs, pixels, tables := map[string]Input{}, map[Ref]*ndarray.Array{}, map[string]string{}
		columns := 0
		for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
			if text, want, ok := strings.Cut(line, " gives "); ok {
				examples++
				if err := example(strings.TrimSpace(text), want, inputs, pixels, tables, columns); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			} else if text, want, ok := strings.Cut(line, " is refused: "); ok {
				examples++
				if _, err := compileText(strings.TrimSpace(text), inputs,
					&Options{Tables: tables}); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", line, err)
				}
			} else if name, lines, ok := strings.Cut(line, " has "); ok {
				tables[name] = strings.ReplaceAll(lines, " / ", "\n")
			} else if columns, err = input(line, inputs, pixels); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
	}
	if examples < 35 {
		t.Errorf("only %d examples found", examples)
	}
}

func compileText(text string, inputs map[string]Input, opts *Options) (*Program, error) {
	e, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return Compile(e, inputs, opts)
}

// input adds an input and returns the number of columns.
func input(line string, inputs map[string]Input, pixels map[Ref]*ndarray.Array) (columns int, _ error) {
	name, rest, ok := strings.Cut(line, ": ")
	kind, values, ok2 := strings.Cut(rest, " = ")
	if !ok || !ok2 {
		return 0, fmt.Errorf("no input, and no example")
	}
	in := Input{List: strings.HasPrefix(kind, "list of ")}
	kind, at, _ := strings.Cut(strings.TrimPrefix(kind, "list of "), " at ")
	times := strings.Fields(at)
	kind, nodata, _ := strings.Cut(kind, " nodata ")
	d, err := ndarray.ParseDType(kind)
	if err != nil {
		return 0, err
	}
	for i, row := range strings.Split(values, "|") {
		band := Band{Type: d}
		if nodata != "" {
			s, err := ndarray.ParseScalar(nodata, d)
			if err != nil {
				return 0, err
			}
			band.Nodata = &s
		}
		ref := Ref{Name: name, Band: i + 1}
		if in.List {
			ref = Ref{Name: name, File: i, Band: 1}
			file := File{Bands: []Band{band}}
			if len(times) > 0 {
				if file.Time, err = time.Parse(time.DateOnly, times[i]); err != nil {
					return 0, err
				}
			}
			in.Files = append(in.Files, file)
		} else if i == 0 {
			in.Files = []File{{Bands: []Band{band}}}
		} else {
			in.Files[0].Bands = append(in.Files[0].Bands, band)
		}
		first, _, _ := strings.Cut(row, "/")
		columns = len(strings.Fields(first))
		if pixels[ref], err = array(d, strings.Fields(strings.ReplaceAll(row, "/", ""))); err != nil {
			return 0, err
		}
	}
	inputs[name] = in
	return columns, nil
}

func array(d ndarray.DType, texts []string) (*ndarray.Array, error) {
	a := ndarray.New(d, len(texts))
	for i, text := range texts {
		s, err := ndarray.ParseScalar(text, d)
		if err != nil {
			return nil, err
		}
		put(d, a.Data[i*d.Size():], s)
	}
	return a, nil
}

func put(d ndarray.DType, b []byte, s ndarray.Scalar) {
	for k := range d.Size() {
		b[k] = byte(s.Bits >> (8 * k))
	}
}

func example(text, want string, inputs map[string]Input, pixels map[Ref]*ndarray.Array,
	tables map[string]string, columns int) error {
	n := 0
	for _, a := range pixels {
		n = a.Len()
	}
	p, err := compileText(text, inputs, &Options{Width: columns, Height: n / columns, Tables: tables})
	if err != nil {
		return err
	}
	kind, values, _ := strings.Cut(want, ": ")
	kind, nodata, declared := strings.Cut(kind, " nodata ")
	if p.Type().String() != kind {
		return fmt.Errorf("the type is %v", p.Type())
	}
	if has := p.Nodata(); declared && (has == nil) != (nodata == "none") || declared && has != nil &&
		has.String() != nodata {
		return fmt.Errorf("nodata is %v", has)
	}
	var src []Operand
	for _, r := range p.Refs() {
		src = append(src, Operand{Data: pixels[r].Data})
	}
	dst := make([][]byte, p.Bands())
	for i := range dst {
		dst[i] = ndarray.New(p.Type(), n).Data
	}
	place := Place{Columns: columns, Transform: [6]float64{100, 10, 0, 200, 0, -10}}
	eval := func() error { return p.NewEvaluator().EvalAt(place, src, dst, n, nil) }
	if p.Focal() {
		eval = func() error { return evalAlone(p, place, n/columns, src, dst) }
	}
	if err := eval(); err != nil {
		return err
	}
	var got []string
	for i, d := range dst {
		if i > 0 {
			got = append(got, "|")
		}
		for k := range n {
			if k > 0 && k%columns == 0 {
				got = append(got, "/")
			}
			s := ndarray.Scalar{Type: p.Type(), Bits: bitsOf(p.Type(), d[k*p.Type().Size():(k+1)*p.Type().Size()])}
			if nd := p.Nodata(); s.IsNaN() || nd != nil && *nd == s {
				got = append(got, "-")
			} else {
				got = append(got, s.String())
			}
		}
	}
	texts := strings.Fields(values)
	if len(texts) != len(got) {
		return fmt.Errorf("gives %v", got)
	}
	for i, w := range texts {
		if w == "-" || w == "|" || w == "/" {
			if got[i] != w {
				return fmt.Errorf("gives %v", got)
			}
			continue
		}
		s, err := ndarray.ParseScalar(w, p.Type())
		if err != nil {
			return err
		}
		if s.String() != got[i] && !(math.IsInf(s.Float64(), 0) && got[i] == s.String()) {
			return fmt.Errorf("gives %v", got)
		}
	}
	return nil
}

// evalAlone computes a whole raster, which has no pixels around it.
func evalAlone(p *Program, place Place, rows int, src []Operand, dst [][]byte) error {
	m := p.Margin()
	w := place.Columns + 2*m
	n := w * (rows + 2*m)
	around := make([]Operand, len(src))
	for i := range src {
		size := p.bandOf[i].Type.Size()
		o := Operand{Data: ndarray.New(p.bandOf[i].Type, n).Data}
		if src[i].Mask != nil {
			o.Mask = make([]byte, n)
		}
		for y := range rows {
			at := (y+m)*w + m
			copy(o.Data[at*size:], src[i].Data[y*place.Columns*size:(y+1)*place.Columns*size])
			if o.Mask != nil {
				copy(o.Mask[at:], src[i].Mask[y*place.Columns:(y+1)*place.Columns])
			}
		}
		around[i] = o
	}
	return p.NewEvaluator().EvalWindow(Frame{Place: place, Rows: rows, Margin: m}, around, dst, nil)
}

func TestGuideFunctions(t *testing.T) {
	data, err := os.ReadFile("../../docs/guide/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "## Functions")
	for _, f := range functions {
		if row := fmt.Sprintf("| `%s` | ", f.usage); !strings.Contains(table, row) {
			t.Errorf("the guide lacks the row %s", row)
		}
	}
	listed := Functions()
	for _, f := range listed {
		if f.Meaning == "" {
			t.Errorf("describe.go has no meaning of %s", f.Name)
		}
	}
	if len(listed) != len(functions) {
		t.Errorf("%d functions are in groups, there are %d", len(listed), len(functions))
	}
	if rows := strings.Count(table, "\n| `"); rows != len(functions) {
		t.Errorf("the guide has %d functions, there are %d", rows, len(functions))
	}
}
