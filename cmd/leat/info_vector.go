package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"leat/internal/gdal"
	"leat/internal/storeurl"
	"leat/internal/terminal"
	"leat/ndarray"
)

// vectorDoc is what leat info --json says of a file of vectors.
type vectorDoc struct {
	Path   string           `json:"path"`
	Layers []vectorLayerDoc `json:"layers"`
}

// vectorLayerDoc is a layer of vectors.
type vectorLayerDoc struct {
	Name       string               `json:"name"`
	Geometry   string               `json:"geometry"` // as OGR names it; None: a table of attributes alone
	CRS        *crsDoc              `json:"crs"`      // null: none
	Features   *int64               `json:"features"` // null: not known without reading all
	Bounds     *[4]jsonFloat        `json:"bounds"`   // smallest x and y, largest x and y
	Attributes []vectorAttributeDoc `json:"attributes"`
	Command    string               `json:"command"` // that burns the layer; empty: it has no geometries
}

// vectorAttributeDoc is an attribute of the features of a layer.
type vectorAttributeDoc struct {
	Name     string `json:"name"`
	Type     string `json:"type"`     // as OGR names it
	Burnable bool   `json:"burnable"` // --burn takes it: it holds numbers
}

// vectorsOf describes a file that is not a raster; nil if it has no vectors either.
func vectorsOf(path string) *vectorDoc {
	if storeurl.Is(path) {
		return nil
	}
	layers, err := gdal.VectorLayers(path, nil)
	if err != nil {
		return nil
	}
	d := &vectorDoc{Path: path}
	for _, l := range layers {
		doc := vectorLayerDoc{Name: l.Name, Geometry: l.Geometry, CRS: newCRSDoc(l.CRS),
			Attributes: []vectorAttributeDoc{}}
		if e := l.Extent; e != nil {
			doc.Bounds = &[4]jsonFloat{jsonFloat(e[0]), jsonFloat(e[1]), jsonFloat(e[2]), jsonFloat(e[3])}
		}
		if l.Features >= 0 {
			doc.Features = &l.Features
		}
		command := []string{"leat apply -i a=RASTER.tif -v v=" + quoted(path)}
		if len(layers) > 1 {
			command = append(command, "--layer v="+quoted(l.Name))
		}
		burn := ""
		for _, a := range l.Attributes {
			number := a.Pixels != ndarray.NoType
			doc.Attributes = append(doc.Attributes, vectorAttributeDoc{a.Name, a.Type, number})
			if number && burn == "" {
				burn = "--burn v=" + quoted(a.Name)
			}
		}
		if burn != "" {
			command = append(command, burn)
		}
		if l.Geometry != "None" { // a table of attributes alone
			doc.Command = strings.Join(append(command, "-o out.tif -e v"), " ")
		}
		d.Layers = append(d.Layers, doc)
	}
	return d
}

// quoted returns a word as a shell reads it, on one line.
func quoted(s string) string {
	if q := terminal.Name(s); q != s && !strings.HasPrefix(s, `"`) {
		return "$'" + strings.ReplaceAll(q[1:len(q)-1], "'", `\'`) + "'"
	}
	if s != "" && !strings.ContainsFunc(s,
		func(r rune) bool { return strings.ContainsRune(" \t\n'\"\\$&|;<>()*?[]#~!`{}", r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (d *vectorDoc) text(w io.Writer) error {
	fmt.Fprintf(w, "%s: vectors\n", terminal.Name(d.Path))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range d.Layers {
		features := "features"
		if l.Features != nil {
			features = fmt.Sprintf("%d features", *l.Features)
		}
		fmt.Fprintf(t, "layer\t%s\t%s (%s) in %s\n", terminal.Name(l.Name), features, l.Geometry, oneLine(l.CRS.String()))
		if e := l.Bounds; e != nil {
			side := max(float64(e[2]-e[0]), float64(e[3]-e[1])) / 1e6
			at := func(i int) string { return coordinate(float64(e[i]), side) }
			fmt.Fprintf(t, "\textent\tx %s to %s, y %s to %s\n", at(0), at(2), at(1), at(3))
		}
		for _, a := range l.Attributes {
			fmt.Fprintf(t, "\t%s\t%s\n", terminal.Name(a.Name), a.Type)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	burnable := slices.DeleteFunc(slices.Clone(d.Layers), func(l vectorLayerDoc) bool { return l.Command == "" })
	if len(burnable) > 0 {
		fmt.Fprintln(w, "to burn a layer onto the grid of a raster:")
	}
	for _, l := range burnable {
		if _, err := fmt.Fprintf(w, "  %s\n", l.Command); err != nil {
			return err
		}
	}
	return nil
}
