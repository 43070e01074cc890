package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"leat/internal/terminal"
	"leat/internal/units"
)

// fact is one line of the description of a raster.
type fact struct{ Label, Value string }

// facts returns the description of a raster without that of its bands.
func (d *infoDoc) facts() []fact {
	var f []fact
	add := func(label, format string, args ...any) {
		f = append(f, fact{label, fmt.Sprintf(format, args...)})
	}
	add("size", "%d x %d pixels, %s", d.Width, d.Height, d.bandsText())
	format := d.Format
	if format == "GTiff" {
		format = "GeoTIFF"
	}
	add("file", "%s", fileText(format, d.Bytes))
	if d.Transform != nil {
		add("pixel size", "%.10g x %.10g", d.PixelSize[0], d.PixelSize[1])
	}
	if d.CRS != nil {
		add("crs", "%s", d.CRS.text)
	}
	if g := d.GCPs; g != nil {
		system := "without a coordinate reference system"
		if g.CRS != nil {
			system = "in " + g.CRS.text
		}
		add("gcps", "%d, %s", len(g.Points), system)
	}
	if d.Domains["RPC"] != nil {
		add("rpcs", "yes")
	}
	if b := d.Bounds; b != nil {
		note := ""
		if d.Transform[2] != 0 || d.Transform[4] != 0 {
			note = " (around a rotated grid)"
		} else if d.PixelIsPoint {
			note = " (edges; the file names centres of pixels)"
		}
		at := func(i int) string { return coordinate(float64(b[i]), min(d.PixelSize[0], d.PixelSize[1])) }
		add("bounds", "x %s to %s, y %s to %s%s", at(0), at(2), at(1), at(3), note)
	}
	add("stored", "%s", d.storedText())
	if len(d.Overviews) == 0 {
		add("overviews", "none")
	} else {
		var sizes []string
		for _, o := range d.Overviews {
			sizes = append(sizes, fmt.Sprintf("%dx%d", o.Width, o.Height))
		}
		add("overviews", "%s", strings.Join(sizes, " "))
	}
	add("nodata", "%s", d.nodataText())
	if d.Mask != "none" {
		add("mask", "%s", map[string]string{"alpha": "an alpha band", "mask": "a mask of its own"}[d.Mask])
	}
	if d.Format == "GTiff" {
		if d.COG {
			add("cog", "yes")
		} else {
			add("cog", "no: %s", d.COGFault)
		}
	}
	return f
}

// fileText returns a format and the size of the file, which is unknown in archives.
func fileText(format string, bytes *int64) string {
	if bytes == nil {
		return format
	}
	return format + ", " + units.FormatSize(*bytes)
}

func (d *infoDoc) bandsText() string {
	type0 := d.Bands[0].Type
	for _, b := range d.Bands {
		if b.Type != type0 {
			type0 = "several types"
		}
	}
	if s := d.Bands[0].Stored; s != "" {
		type0 += " (stored as " + s + ")"
	}
	if len(d.Bands) == 1 {
		return "1 band of " + type0
	}
	return fmt.Sprintf("%d bands of %s", len(d.Bands), type0)
}

func (d *infoDoc) storedText() string {
	l := d.Layout
	var s string
	switch {
	case d.Format == "npy":
		s = "one array"
	case d.Format != "GTiff" && l.TileWidth >= d.Width && l.TileHeight == 1:
		s = "rows"
	case l.Tiled:
		s = fmt.Sprintf("tiles of %d x %d", l.TileWidth, l.TileHeight)
	case l.TileHeight >= d.Height:
		s = "one strip"
	case l.TileHeight == 1:
		s = "strips of one row"
	default:
		s = fmt.Sprintf("strips of %d rows", l.TileHeight)
	}
	switch l.Compression {
	case "", "unknown":
	case "none":
		s += ", not compressed"
	default:
		s += ", " + l.Compression
		if l.Predictor > 1 {
			s += fmt.Sprintf(" with predictor %d", l.Predictor)
		}
		s += fmt.Sprintf(", %.2f : 1", l.Ratio)
	}
	if len(d.Bands) > 1 && l.Interleave != "" {
		s += ", by " + l.Interleave
	}
	if l.BigTIFF {
		s += ", BigTIFF"
	}
	if l.ByteOrder == "big" {
		s += ", big-endian"
	}
	return s
}

func (d *infoDoc) nodataText() string {
	var all []string
	for _, b := range d.Bands {
		if b.Nodata == nil {
			all = append(all, "none")
		} else {
			all = append(all, string(*b.Nodata))
		}
	}
	if one := slices.Compact(slices.Clone(all)); len(one) == 1 {
		return one[0]
	}
	return strings.Join(all, ", ")
}

// line says of a band what the lines of the file do not; empty when that is nothing.
func (b *infoBand) line() string {
	var parts []string
	if b.Name != "" {
		parts = append(parts, b.Name)
	}
	if b.Color != "undefined" && b.Color != "gray" && b.Color != b.Name {
		parts = append(parts, b.Color)
	}
	if b.Colors > 0 {
		parts = append(parts, fmt.Sprintf("colour table of %d entries", b.Colors))
	}
	if b.Scale != 1 || b.Offset != 0 {
		parts = append(parts, strings.Replace(fmt.Sprintf("value = pixel x %g + %g", b.Scale, b.Offset), "+ -", "- ", 1))
	}
	if b.Unit != "" {
		parts = append(parts, "unit "+b.Unit)
	}
	if s := b.Statistics; s != nil {
		var n []string
		for _, v := range []struct {
			name string
			v    *jsonFloat
		}{{"min", s.Min}, {"max", s.Max}, {"mean", s.Mean}, {"std dev", s.StdDev}} {
			if v.v != nil {
				n = append(n, fmt.Sprintf("%s %.6g", v.name, *v.v))
			}
		}
		if s.ValidPercent != nil {
			n = append(n, fmt.Sprintf("%.4g %% valid", *s.ValidPercent))
		}
		parts = append(parts, strings.Join(n, ", "))
	}
	return strings.Join(parts, "; ")
}

// text writes the description for people.
func (d *infoDoc) text(w io.Writer) error {
	var b strings.Builder
	line := func(label, value string) { fmt.Fprintf(&b, "  %-11s %s\n", terminal.Text(label), terminal.Text(value)) }
	fmt.Fprintln(&b, terminal.Name(d.Path))
	for _, f := range d.facts() {
		line(f.Label, f.Value)
	}
	for i := range d.Bands {
		if s := d.Bands[i].line(); s != "" {
			line(fmt.Sprintf("band %d", i+1), s)
		}
		for k, s := range d.Bands[i].extras() {
			label := ""
			if k == 0 && d.Bands[i].line() == "" {
				label = fmt.Sprintf("band %d", i+1)
			}
			line(label, s)
		}
	}
	if len(d.Files) > 1 {
		line("files", filesText(d))
	}
	subdatasetLines(line, d.Subdatasets)
	for _, k := range sortedNames(d.Metadata) {
		if k != "AREA_OR_POINT" { // said with the bounds
			line(k, oneLine(d.Metadata[k]))
		}
	}
	for _, s := range d.Warnings {
		line("note", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sortedNames are the keys of a map in order.
func sortedNames[V any](m map[string]V) []string {
	var names []string
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	return names
}

// oneLine returns a long text from a file as one short line without control characters.
func oneLine(s string) string {
	s = terminal.Text(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s))
	if r := []rune(s); len(r) > 120 {
		s = string(r[:117]) + "..."
	}
	return s
}
