package expr

import (
	"encoding/binary"
	"math"
)

// op is a vector operation. The registers of its operands determine the class in which it computes.
type op uint8

const (
	opNone op = iota
	opConst
	opLoad     // pixels of a band; checks 64-bit integers with their mask
	opLoadMask // validity of a band's pixels
	opPlace    // coordinate number ref of the pixels
	opFocal    // result of focal call number ref
	opFocalMask
	opTo32
	opTo64
	opNumber // bool to 0 and 1
	opTruth  // not equal to 0

	opAdd
	opSub
	opMul
	opDiv
	opMod
	opModInt
	opPow
	opPowInt // exponent in k
	opMin
	opMax
	opBitAnd
	opBitOr
	opShiftLeft
	opShiftRight
	opAtan2
	opHypot

	opNeg
	opAbs
	opFloor
	opCeil
	opRound
	opSqrt
	opExp
	opExpm1
	opLog
	opLog10
	opLog2
	opLog1p
	opSin
	opCos
	opTan
	opAsin
	opAcos
	opAtan
	opSinh
	opCosh
	opTanh

	opLt
	opLe
	opGt
	opGe
	opEq
	opNe
	opAnd
	opOr
	opNot

	opWhere   // condition, a, b
	opPick    // mask, a, b: a where the mask is valid, else b
	opInvalid // bool: where a mask is invalid

	opTableRow   // number of the row of table ref, 0 for none
	opTableValue // new value of a row
	opTableMask  // invalid where this is nodata

	// Functions over a list, from opRedMin to opRedCount.
	opRedMin // values, then masks
	opRedMax
	opRedArgMin
	opRedArgMax
	opRedMode
	opRedMean
	opRedMedian
	opRedQuantile // fraction in k
	opRedVar
	opRedStd
	opRedSum
	opRedTrend
	opRedIntercept
	opRedR2
	opRedCount // masks only

	opMaskAnd
	opMaskOr
	opMaskNaN   // valid where the value is not NaN
	opMaskWhere // condition, its mask, mask of a, mask of b
	opMaskNone  // all invalid

	numOps
)

// regKind is the kind of vector that a node computes.
type regKind uint8

const (
	reg32 regKind = iota
	reg64
	regBool
	regMask // 1 valid, 0 invalid; or nil if all are valid
)

func (c class) reg() regKind {
	if c == c32 {
		return reg32
	}
	return reg64
}

// node is one vector operation of the graph. Node 0 is the mask of a value that is always valid.
type node struct {
	op   op
	reg  regKind
	args []int
	k    float64 // value of a constant, exponent of opPowInt, fraction of opRedQuantile
	ref  int     // of loads; number of a coordinate, of a table, of the positions of a line
}

// graph builds nodes. Equal operations share one node.
type graph struct {
	nodes []node
	index map[nodeKey]int
	sets  map[int][]int // the operands of a conjunction of masks

	lookups     []*table // of recode
	lookupIndex map[string]int

	lines     []linePositions // of trend and the like
	lineIndex map[string]int
}

type nodeKey struct {
	op   op
	reg  regKind
	bits uint64
	ref  int
	args string
}

func newGraph() *graph {
	g := &graph{index: map[nodeKey]int{}, sets: map[int][]int{}, lookupIndex: map[string]int{}}
	g.nodes = append(g.nodes, node{op: opNone, reg: regMask})
	return g
}

func (g *graph) add(n node) int {
	key := nodeKey{op: n.op, reg: n.reg, bits: math.Float64bits(n.k), ref: n.ref}
	var text []byte
	for _, a := range n.args {
		text = binary.AppendUvarint(text, uint64(a))
	}
	key.args = string(text)
	if id, ok := g.index[key]; ok {
		return id
	}
	id := len(g.nodes)
	g.nodes = append(g.nodes, n)
	g.index[key] = id
	return id
}

// both returns the mask that is valid where all the given ones are. Conjunctions are flat and
// sorted, so that a mask shared by many operands is combined once.
func (g *graph) both(masks ...int) int {
	var parts []int
	for _, m := range masks {
		if m == 0 {
			continue
		}
		set, ok := g.sets[m]
		if !ok {
			set = []int{m}
		}
		parts = union(parts, set)
	}
	switch len(parts) {
	case 0:
		return 0
	case 1:
		return parts[0]
	}
	id := g.add(node{op: opMaskAnd, reg: regMask, args: parts})
	g.sets[id] = parts
	return id
}

// union merges two sorted sets.
func union(a, b []int) []int {
	if len(a) == 0 {
		return b
	}
	out := make([]int, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case a[0] > b[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// either returns the mask that is valid where any of the given ones is.
func (g *graph) either(masks ...int) int {
	var parts []int
	for _, m := range masks {
		if m == 0 {
			return 0
		}
		parts = union(parts, []int{m})
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return g.add(node{op: opMaskOr, reg: regMask, args: parts})
}
