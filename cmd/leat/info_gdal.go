package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"leat/internal/gdal"
	"leat/internal/report"
	"leat/internal/terminal"
	"leat/raster"
	"leat/stores"
)

// infoHistogram is a histogram that the file holds; bins are equally wide.
type infoHistogram struct {
	Min    jsonFloat   `json:"min"`    // lower edge of the first bin
	Max    jsonFloat   `json:"max"`    // upper edge of the last bin
	Counts []jsonFloat `json:"counts"` // pixels of each bin
}

// infoTable is a raster attribute table: what is said about values of a band.
type infoTable struct {
	Rows    int          `json:"rows"`
	Columns []infoColumn `json:"columns"`
}

// infoColumn is a column of an attribute table.
type infoColumn struct {
	Name  string `json:"name"`
	Usage string `json:"usage"` // value, name, count, red and so on, or generic
	Cells any    `json:"cells"` // numbers or texts, one for each row
}

// infoSubdataset is one of several rasters in a file.
type infoSubdataset struct {
	Name        string `json:"name"` // that leat and GDAL open it by
	Description string `json:"description,omitempty"`
}

// tables adds what only GDAL's formats have, and what GDAL keeps in sidecars of GeoTIFFs.
func (d *infoDoc) tables(src raster.Source) {
	note := func(err error) {
		if err != nil {
			d.Warnings = append(d.Warnings, errorText(err))
		}
	}
	var err error
	f, ok := src.(*gdal.File)
	if ok {
		d.Files, err = f.FileNames()
		note(err)
		for _, s := range f.Subdatasets() {
			d.Subdatasets = append(d.Subdatasets, infoSubdataset{s.Name, s.Description})
		}
	} else {
		for i := range d.Bands {
			if h := report.StoredHistogram(d.Bands[i].Metadata); h != nil {
				d.Bands[i].Histogram = &infoHistogram{jsonFloat(h.Lo), jsonFloat(h.Hi), jsonFloats(h.Counts)}
			}
		}
		if _, err := os.Stat(d.Path + ".aux.xml"); err != nil || gdal.Available() != nil {
			return
		}
		if f, err = gdal.Open(d.Path, nil); err != nil {
			return
		}
		defer f.Close()
		if len(f.Info().Bands) != len(d.Bands) {
			return
		}
	}
	for i := range d.Bands {
		b := &d.Bands[i]
		h, err := f.Histogram(b.Band)
		note(err)
		if h != nil {
			b.Histogram = &infoHistogram{Min: jsonFloat(h.Lowest), Max: jsonFloat(h.Highest)}
			for _, n := range h.Counts {
				b.Histogram.Counts = append(b.Histogram.Counts, jsonFloat(n))
			}
		}
		t, err := f.AttributeTable(b.Band)
		note(err)
		if t != nil && len(t.Columns) > 0 {
			b.Table = newInfoTable(t)
		}
		b.Categories, err = f.Categories(b.Band)
		note(err)
	}
}

// jsonFloats converts numbers for --json.
func jsonFloats(values []float64) []jsonFloat {
	list := []jsonFloat{}
	for _, v := range values {
		list = append(list, jsonFloat(v))
	}
	return list
}

func newInfoTable(t *gdal.AttributeTable) *infoTable {
	d := &infoTable{}
	for _, c := range t.Columns {
		col := infoColumn{Name: c.Name, Usage: c.Usage}
		switch {
		case c.Ints != nil:
			col.Cells, d.Rows = c.Ints, len(c.Ints)
		case c.Floats != nil:
			col.Cells, d.Rows = jsonFloats(c.Floats), len(c.Floats)
		default:
			col.Cells, d.Rows = orEmpty(c.Texts), max(d.Rows, len(c.Texts))
		}
		d.Columns = append(d.Columns, col)
	}
	return d
}

// shownRows is how many rows of a table people are shown.
const shownRows = 5

// lines are the table for people.
func (t *infoTable) lines() []string {
	var head []string
	for _, c := range t.Columns {
		name := c.Name
		if c.Usage != "generic" && !strings.EqualFold(c.Usage, name) {
			name += " (" + c.Usage + ")"
		}
		head = append(head, name)
	}
	list := []string{fmt.Sprintf("attribute table of %d x %d: %s", t.Rows, len(t.Columns), strings.Join(head, ", "))}
	for r := range min(t.Rows, shownRows) {
		var row []string
		for _, c := range t.Columns {
			row = append(row, c.cell(r))
		}
		list = append(list, "  "+strings.Join(row, ", "))
	}
	if t.Rows > shownRows {
		list = append(list, fmt.Sprintf("  and %d more rows (--json has all)", t.Rows-shownRows))
	}
	return list
}

func (c *infoColumn) cell(r int) string {
	switch v := c.Cells.(type) {
	case []int32:
		return strconv.Itoa(int(v[r]))
	case []jsonFloat:
		return strconv.FormatFloat(float64(v[r]), 'g', -1, 64)
	case []string:
		return oneLine(v[r])
	}
	return ""
}

// extras are the lines about a band that only some formats have.
func (b *infoBand) extras() []string {
	var list []string
	if h := b.Histogram; h != nil {
		list = append(list, fmt.Sprintf("histogram of %d bins from %.6g to %.6g", len(h.Counts), h.Min, h.Max))
	}
	if n := len(b.Categories); n > 0 {
		text := fmt.Sprintf("names of the values 0 to %d: %s", n-1,
			strings.Join(b.Categories[:min(n, 2*shownRows)], ", "))
		if n > 2*shownRows {
			text += " ..."
		}
		list = append(list, oneLine(text))
	}
	if b.Table != nil {
		list = append(list, b.Table.lines()...)
	}
	return list
}

// infoContainer is what leat info --json says of a file that holds several rasters and none of its
// own.
type infoContainer struct {
	Path        string            `json:"path"`
	Format      string            `json:"format"` // as --format takes it
	Bytes       *int64            `json:"bytes"`  // of the file; null: not known
	Subdatasets []infoSubdataset  `json:"subdatasets"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

func newInfoContainer(e *gdal.SubdatasetsError) *infoContainer {
	d := &infoContainer{Path: e.Path, Format: e.Driver, Metadata: e.Metadata}
	if st, err := os.Stat(e.Path); err == nil && st.Mode().IsRegular() {
		size := st.Size()
		d.Bytes = &size
	}
	for _, s := range e.Subdatasets {
		d.Subdatasets = append(d.Subdatasets, infoSubdataset{s.Name, s.Description})
	}
	return d
}

func (d *infoContainer) text(w io.Writer) error {
	var b strings.Builder
	line := func(label, value string) { fmt.Fprintf(&b, "  %-11s %s\n", terminal.Text(label), terminal.Text(value)) }
	fmt.Fprintln(&b, terminal.Name(d.Path))
	line("file", fileText(d.Format, d.Bytes))
	subdatasetLines(line, d.Subdatasets)
	for _, k := range sortedNames(d.Metadata) {
		line(k, oneLine(d.Metadata[k]))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// openOutput opens an output to show it: of formats that make a raster of its own of each band that
// of the first.
func openOutput(ctx context.Context, in *stores.Stores, path string) (raster.Source, error) {
	src, err := in.Open(ctx, path)
	several := new(gdal.SubdatasetsError)
	if !errors.As(err, &several) || len(several.Subdatasets) == 0 {
		return src, err
	}
	name := several.Subdatasets[0].Name
	for _, s := range several.Subdatasets { // Zarr has the coordinates before it
		if strings.HasSuffix(s.Name, "Band1") {
			name = s.Name
		}
	}
	return in.Open(ctx, name)
}

// subdatasetLines tell how to open each.
func subdatasetLines(line func(label, value string), list []infoSubdataset) {
	const shown = 50
	for i, s := range list {
		switch {
		case i == 0:
			line("holds", fmt.Sprintf("%d rasters, each to be opened by its name:", len(list)))
		case i == shown:
			line("", fmt.Sprintf("and %d more (--json has all)", len(list)-shown))
			return
		}
		line("", "leat info "+quoted(s.Name))
		if s.Description != "" {
			line("", "  "+oneLine(s.Description))
		}
	}
}

// filesText names the files of a raster that has several; without its directory, if it is a file
// itself.
func filesText(d *infoDoc) string {
	var names []string
	itself := slices.Contains(d.Files, d.Path)
	for _, f := range d.Files {
		if name, err := filepath.Rel(filepath.Dir(d.Path), f); itself && err == nil {
			f = name
		}
		names = append(names, f)
	}
	return oneLine(strings.Join(names, " "))
}
