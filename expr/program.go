package expr

import (
	"fmt"
	"strings"

	"leat/ndarray"
)

// Program is a compiled expression. It is immutable and safe for concurrent use.
type Program struct {
	text     string
	refs     []Ref
	refNames []string
	bandOf   []Band
	out      output
	bands    int
	invalid  bool
	copied   []*Ref     // by output band
	placed   bool       // uses coordinates
	geodetic bool       // uses those of Place.Geodetic
	focal    *focalPlan // nil without focal functions

	code []instr
	regs [4]int // number of registers of each kind
	// constants are filled once per evaluator.
	constants []constant
	outputs   []binding
}

type constant struct {
	kind regKind
	reg  int
	k    float64
}

// binding makes a register the memory of an output band.
type binding struct {
	kind regKind
	reg  int
	band int
}

// Refs returns the bands that the program reads, each once, in the order of Eval's operands. It may
// be empty.
func (p *Program) Refs() []Ref { return append([]Ref(nil), p.refs...) }

// Bands returns the number of output bands.
func (p *Program) Bands() int { return p.bands }

// Type returns the type of all output bands.
func (p *Program) Type() ndarray.DType { return p.out.typ }

// Nodata returns the value of invalid pixels, of type Type, or nil if there is none.
func (p *Program) Nodata() *ndarray.Scalar {
	if p.out.nodata == nil {
		return nil
	}
	s := *p.out.nodata
	return &s
}

// CopiedBand returns the input band whose pixels an output band, counted from 1, holds unchanged
// and in the same type, and false if there is none.
func (p *Program) CopiedBand(band int) (Ref, bool) {
	if p.copied[band-1] == nil {
		return Ref{}, false
	}
	return *p.copied[band-1], true
}

// Geodetic reports whether the program uses lon, lat or pixel_area.
func (p *Program) Geodetic() bool { return p.geodetic }

// CanBeInvalid reports whether output pixels can be invalid.
func (p *Program) CanBeInvalid() bool { return p.invalid }

// String returns a description of the program for people: what it reads and what it computes.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s -> %d x %v, nodata ", p.text, p.bands, p.out.typ)
	if p.out.nodata == nil {
		b.WriteString("none")
	} else {
		b.WriteString(p.out.nodata.String())
	}
	if p.out.scaled {
		fmt.Fprintf(&b, ", stored as (value - %v) / %v", p.out.offset, p.out.scale)
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
