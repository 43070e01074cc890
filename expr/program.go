package expr

import (
	"fmt"
	"strings"

	"leat/ndarray"
)

// Program is a compiled expression. It is immutable and may be used by many goroutines.
type Program struct {
	text     string
	refs     []Ref
	refNames []string
	bandOf   []Band
	out      output
	bands    int
	invalid  bool

	code []instr
	regs [4]int // registers of each kind
	// constants are filled once, in every evaluator.
	constants []constant
	outputs   []binding
}

type constant struct {
	kind regKind
	reg  int
	k    float64
}

// binding says that a register is the memory of an output band.
type binding struct {
	kind regKind
	reg  int
	band int
}

// Refs returns the bands that the program reads, each once; the operands of Eval come in this order. It may be
// empty.
func (p *Program) Refs() []Ref { return append([]Ref(nil), p.refs...) }

// Bands returns the number of output bands.
func (p *Program) Bands() int { return p.bands }

// Type returns the type of all output bands.
func (p *Program) Type() ndarray.DType { return p.out.typ }

// Nodata returns the value written to invalid pixels, of Type, or nil.
func (p *Program) Nodata() *ndarray.Scalar {
	if p.out.nodata == nil {
		return nil
	}
	s := *p.out.nodata
	return &s
}

// CanBeInvalid reports whether any output pixel can be invalid.
func (p *Program) CanBeInvalid() bool { return p.invalid }

// String describes the program for people: what is read and what comes out.
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
