package expr

import (
	"fmt"
	"strings"

	"leat/ndarray"
)

// Program is a compiled expression, or several that [CompileAll] has compiled together. It is
// immutable and safe for concurrent use.
type Program struct {
	*Output  // the first
	outputs  []*Output
	sizes    []int // of the pixels of all outputs' bands, in bytes
	refs     []Ref
	refNames []string
	bandOf   []Band
	placed   bool       // uses coordinates
	geodetic bool       // uses those of Place.Geodetic
	focal    *focalPlan // nil without focal functions

	code []instr
	regs [4]int // number of registers of each kind
	// constants are filled once per evaluator.
	constants []constant
	bindings  []binding
}

// Output describes the output bands of an expression.
type Output struct {
	text     string
	out      output
	bands    int
	invalid  bool
	copied   []*Ref          // by band
	selected []selectedBands // by band
	roots    []root          // by band
	// The expression uses coordinates, and those of Place.Geodetic.
	usesPlace, usesGeodetic bool
}

// selectedBands are the bands of which a band of the output selects pixels.
type selectedBands struct {
	refs  []Ref
	exact bool // the output's type holds all their pixels
}

type constant struct {
	kind regKind
	reg  int
	k    float64
}

// binding makes a register the memory of a band among those of all outputs.
type binding struct {
	kind regKind
	reg  int
	at   int
}

// Outputs returns the program's outputs, one for each expression.
func (p *Program) Outputs() []*Output { return append([]*Output(nil), p.outputs...) }

// Refs returns the bands that the program reads, each once, in the order of Eval's operands. It may
// be empty.
func (p *Program) Refs() []Ref { return append([]Ref(nil), p.refs...) }

// Bands returns the number of bands.
func (o *Output) Bands() int { return o.bands }

// Type returns the type of all bands.
func (o *Output) Type() ndarray.DType { return o.out.typ }

// Nodata returns the value of invalid pixels, of type Type, or nil if there is none.
func (o *Output) Nodata() *ndarray.Scalar {
	if o.out.nodata == nil {
		return nil
	}
	s := *o.out.nodata
	return &s
}

// CopiedBand returns the input band whose pixels a band of the output, counted from 1, holds
// unchanged and in the same type, and false if there is none.
func (o *Output) CopiedBand(band int) (Ref, bool) {
	if o.copied[band-1] == nil {
		return Ref{}, false
	}
	return *o.copied[band-1], true
}

// SelectedBands returns the input bands of which a band of the output, counted from 1, selects
// pixels. There are none if it is computed or consists of numbers alone. exact reports whether the
// output's type holds all these pixels.
func (o *Output) SelectedBands(band int) (refs []Ref, exact bool) {
	s := &o.selected[band-1]
	return append([]Ref(nil), s.refs...), s.exact
}

// Geodetic reports whether the program uses lon, lat or pixel_area.
func (p *Program) Geodetic() bool { return p.geodetic }

// canBeInvalid reports whether pixels can be invalid.
func (o *Output) canBeInvalid() bool { return o.invalid }

// String returns a readable description of what the program reads and computes.
func (p *Program) String() string {
	var b strings.Builder
	for i, o := range p.outputs {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s -> %d x %v, nodata ", o.text, o.bands, o.out.typ)
		if o.out.nodata == nil {
			b.WriteString("none")
		} else {
			b.WriteString(o.out.nodata.String())
		}
		if o.out.scaled {
			fmt.Fprintf(&b, ", stored as (value - %v) / %v", o.out.offset, o.out.scale)
		}
	}
	for i, n := range p.refNames {
		sep := ", "
		if i == 0 {
			sep = "; reads "
		}
		fmt.Fprintf(&b, "%s%s %v", sep, n, p.bandOf[i].Type)
		if s := p.bandOf[i].Nodata; s != nil {
			fmt.Fprintf(&b, " (nodata %v)", s)
		}
	}
	return b.String()
}
