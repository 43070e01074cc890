// Package colortable reads texts that give pixel values colours and names: the colour files of
// gdaldem and r.colors, and what QGIS exports. [Parse] reads a text into a [Table], whose Palette
// is what a raster of whole numbers stores.
package colortable

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"leat/raster"
)

// Mode says which colour a value has that no entry names.
type Mode uint8

const (
	// Exact gives it the colour of Default, or none.
	Exact Mode = iota
	// Discrete gives it the colour of the next entry above it, as QGIS does.
	Discrete
	// Linear interpolates between the entries below and above it, as QGIS does, which
	// truncates differences.
	Linear
	// Relief interpolates as gdaldem color-relief does, which rounds channels.
	Relief
)

// Entry is the colour of one value.
type Entry struct {
	Value float64 // a percentage if Percent
	// Percent means that Value is a share of the range of the raster's valid pixels.
	Percent bool
	Color   raster.RGBA
	Label   string
	line    int
}

// Table is a parsed text.
type Table struct {
	Mode    Mode
	Entries []Entry
	Default *raster.RGBA // of values without an entry; nil for none
	Nodata  *raster.RGBA // of the nodata value; nil for none
	// NodataLabel names the nodata value.
	NodataLabel string
}

// MaxValue is the largest value that a palette can hold.
const MaxValue = math.MaxUint16

// Palette is the colours of the values 0, 1, 2 and so on.
type Palette struct {
	// Colors has the zero RGBA where the table has no colour.
	Colors []raster.RGBA
	// Names has "" for a value without a name. It is nil if no value has one.
	Names []string
	// Clear means that some value other than nodata has the colour that is the zero RGBA: black
	// without opacity.
	Clear bool

	nodata int
}

// Fixed reports whether Palette needs no facts about the raster: each value has an entry of its
// own or no colour.
func (t *Table) Fixed() bool { return t.Mode == Exact && t.Default == nil && t.Nodata == nil }

// NeedsRange reports whether Palette needs the range of the raster's pixels.
func (t *Table) NeedsRange() bool {
	return slices.ContainsFunc(t.Entries, func(e Entry) bool { return e.Percent })
}

// Listed returns the palette of the values that have entries of their own, whatever the raster is.
func (t *Table) Listed() *Palette {
	p := &Palette{nodata: -1}
	for _, e := range t.Entries {
		if v := e.Value; !e.Percent && v >= 0 && v <= MaxValue && v == math.Trunc(v) {
			p.set(int(v), e.Color, e.Label)
		}
	}
	return p
}

// Palette returns the colours of a raster whose values are below n. nodata is its nodata value, or
// negative; low and high are the range of its valid pixels.
func (t *Table) Palette(n, nodata int, low, high float64) *Palette {
	p := &Palette{nodata: nodata}
	if t.Mode == Exact {
		for v := range n {
			if t.Default != nil {
				p.set(v, *t.Default, "")
			}
		}
		for _, e := range t.Entries {
			p.set(int(e.Value), e.Color, e.Label)
		}
	} else {
		entries := t.absolute(low, high)
		for v := range n {
			if c, name, ok := t.shade(entries, float64(v)); ok {
				p.set(v, c, name)
			}
		}
	}
	if t.Nodata != nil && nodata >= 0 {
		p.set(nodata, *t.Nodata, t.NodataLabel)
	}
	return p
}

// set gives a value a colour, and a name unless that is empty.
func (p *Palette) set(v int, c raster.RGBA, name string) {
	if n := v + 1 - len(p.Colors); n > 0 {
		p.Colors = append(p.Colors, make([]raster.RGBA, n)...)
	}
	p.Colors[v] = c
	p.Clear = p.Clear || v != p.nodata && c == raster.RGBA{}
	if name == "" {
		return
	}
	if n := v + 1 - len(p.Names); n > 0 {
		p.Names = append(p.Names, make([]string, n)...)
	}
	p.Names[v] = name
}

// absolute returns the entries in the order of their values, percentages replaced.
func (t *Table) absolute(low, high float64) []Entry {
	list := slices.Clone(t.Entries)
	for i := range list {
		if list[i].Percent {
			list[i].Value, list[i].Percent = low+(high-low)*list[i].Value/100, false
		}
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Compare(a.Value, b.Value) })
	return list
}

// shade returns the colour and name of a value, false for none.
func (t *Table) shade(list []Entry, v float64) (c raster.RGBA, name string, ok bool) {
	i, _ := slices.BinarySearchFunc(list, v, func(e Entry, v float64) int {
		if e.Value < v {
			return -1
		}
		return 1
	})
	switch { // list[i] is the first entry that is not below v
	case i == len(list) && t.Mode == Discrete:
		return c, "", false
	case i == len(list):
		return list[i-1].Color, "", true
	case t.Mode == Discrete || list[i].Value == v:
		return list[i].Color, list[i].Label, true
	case i == 0:
		return list[i].Color, "", true
	}
	a, b := list[i-1], list[i]
	share := (v - a.Value) / (b.Value - a.Value)
	mix := func(x, y uint8) uint8 {
		if t.Mode == Relief { // 0.45 is gdaldem's
			return uint8(0.45 + float64(x) + float64(share*(float64(y)-float64(x))))
		}
		return uint8(int(x) + int(share*(float64(y)-float64(x)))) // QGIS truncates the difference
	}
	return raster.RGBA{R: mix(a.Color.R, b.Color.R), G: mix(a.Color.G, b.Color.G), B: mix(a.Color.B, b.Color.B),
		A: mix(a.Color.A, b.Color.A)}, "", true
}

// ErrEmpty is returned for a text without an entry.
var ErrEmpty = errors.New("the colour table has no entry")
