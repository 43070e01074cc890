package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"leat/apply/outcome"
	"leat/internal/gdal"
)

// formatDoc is what leat info --formats --json says of a format of GDAL's.
type formatDoc struct {
	Name        string            `json:"name"` // as --format takes it
	Description string            `json:"description"`
	Read        bool              `json:"read"`
	Write       bool              `json:"write"`
	Extensions  []string          `json:"extensions"`
	Types       []string          `json:"types"`   // of pixels that can be written; empty: it does not say
	Options     []formatOptionDoc `json:"options"` // that --co takes
}

// formatOptionDoc is a creation option, --co NAME=VALUE.
type formatOptionDoc struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"` // as GDAL names it, such as int or string-select
	Values      []string `json:"values,omitempty"`
	Lowest      string   `json:"lowest,omitempty"`  // of numbers
	Highest     string   `json:"highest,omitempty"` // of numbers
	Default     string   `json:"default,omitempty"`
	Description string   `json:"description,omitempty"`
}

// showFormats lists GDAL's formats of rasters, or describes those that are named.
func showFormats(w io.Writer, names []string, asJSON bool) error {
	all, err := gdal.Drivers()
	if err != nil {
		return err
	}
	list := slices.DeleteFunc(slices.Clone(all), func(d gdal.Driver) bool { return !d.Raster })
	if len(names) > 0 {
		var named []gdal.Driver
		for _, name := range names {
			i := slices.IndexFunc(list, func(d gdal.Driver) bool { return strings.EqualFold(d.Name, name) })
			if i < 0 && slices.ContainsFunc(all, func(d gdal.Driver) bool { return strings.EqualFold(d.Name, name) }) {
				return fmt.Errorf("the format %s is one of vectors alone, which leat apply -v burns onto a grid", name)
			}
			if i < 0 {
				return usageError{&outcome.FieldError{Field: "Output.Format", Err: gdal.UnknownDriver(all, name)}}
			}
			named = append(named, list[i])
		}
		list = named
	}
	if asJSON {
		for _, d := range list {
			if err := writeJSON(w, newFormatDoc(&d)); err != nil {
				return stdoutError(err)
			}
		}
		return nil
	}
	if len(names) > 0 {
		for i, d := range list {
			if i > 0 {
				fmt.Fprintln(w)
			}
			if err := formatText(w, &d); err != nil {
				return stdoutError(err)
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, d := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", d.Name, formatUse(&d), strings.Join(d.Extensions, " "), d.LongName)
	}
	return stdoutError(t.Flush())
}

// formatUse returns what can be done with rasters of a format.
func formatUse(d *gdal.Driver) string {
	switch {
	case d.Read && d.Write:
		return "read, write"
	case d.Write:
		return "write"
	case d.Read:
		return "read"
	}
	return "-"
}

func newFormatDoc(d *gdal.Driver) *formatDoc {
	doc := &formatDoc{Name: d.Name, Description: d.LongName, Read: d.Read, Write: d.Write,
		Extensions: orEmpty(d.Extensions), Types: []string{}, Options: []formatOptionDoc{}}
	for _, t := range d.Types {
		doc.Types = append(doc.Types, t.String())
	}
	for _, o := range d.RasterOptions() {
		doc.Options = append(doc.Options,
			formatOptionDoc{o.Name, o.Type, o.Values, o.Min, o.Max, o.Default, o.Description})
	}
	return doc
}

// formatText describes a format for people.
func formatText(w io.Writer, d *gdal.Driver) error {
	doc := newFormatDoc(d)
	var b strings.Builder
	line := func(label, value string) { fmt.Fprintf(&b, "  %-11s %s\n", label, value) }
	fmt.Fprintf(&b, "%s\n", d.Name)
	line("is", d.LongName)
	line("can be", map[string]string{"read, write": "read and written", "read": "read", "write": "written",
		"-": "neither read nor written"}[formatUse(d)])
	if len(doc.Extensions) > 0 {
		line("names end", "."+strings.Join(doc.Extensions, " ."))
	}
	if d.Write && len(doc.Types) > 0 {
		line("types", strings.Join(doc.Types, " "))
	}
	if d.Write {
		for _, o := range doc.Options {
			text := o.Type
			if len(o.Values) > 0 {
				text = strings.Join(o.Values, ", ")
			}
			switch {
			case o.Lowest != "" && o.Highest != "":
				text += " from " + o.Lowest + " to " + o.Highest
			case o.Lowest != "":
				text += " of at least " + o.Lowest
			case o.Highest != "":
				text += " of at most " + o.Highest
			}
			if o.Default != "" {
				text += " (default " + o.Default + ")"
			}
			fmt.Fprintf(&b, "  --co %s=...\n", o.Name)
			line("", text)
			if o.Description != "" {
				line("", o.Description)
			}
		}
		if len(doc.Options) == 0 {
			line("options", "none")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
