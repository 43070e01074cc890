package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"leat/apply"
	"leat/internal/colortable"
	"leat/internal/units"
	"leat/ndarray"
	"leat/raster"
)

// maxColorTable bounds the size of a colour table's text.
const maxColorTable = 32 << 20

// readColors reads a colour table.
func readColors(path string) (*colortable.Table, error) {
	text, err := readText(path, maxColorTable)
	if err != nil {
		return nil, fileError{fmt.Errorf("--color-table %s: %w", path, cause(err))}
	}
	t, err := colortable.Parse(bytes.NewReader(text))
	if at := new(colortable.LineError); errors.As(err, &at) {
		return nil, fmt.Errorf("--color-table %s, line %d: %w", path, at.Line, at.Err)
	} else if err != nil {
		return nil, fmt.Errorf("--color-table %s: %w", path, err)
	}
	return t, nil
}

// readText reads a file of at most limit bytes.
func readText(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it is larger than %s", units.FormatSize(limit))
	}
	return b, err
}

// setColors gives the outputs their colour tables.
func (f *outputFlags) setColors(ctx context.Context, job *apply.Job) error {
	values, errs := []namedValue[*colortable.Table]{}, []error{}
	for _, v := range f.tables {
		t, err := interruptible(ctx, func() (*colortable.Table, error) { return readColors(v.value) })
		if err == nil && f.noStats && t.NeedsRange() {
			err = fmt.Errorf("--color-table %s: its percentages need statistics: leave out --no-stats", v.value)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		values = append(values, namedValue[*colortable.Table]{name: v.name, named: v.named, text: v.text, value: t})
	}
	return errors.Join(append(errs, setOutputs(job, "--color-table", values, setColorTable))...)
}

// setColorTable sets the colours of an output, as far as they are known before it is computed; the
// rest when it is.
func setColorTable(o *apply.Output, t *colortable.Table) {
	p := t.Listed()
	if t.Fixed() && !p.Clear {
		o.Colors, o.Categories = p.Colors, p.Names
		return
	}
	if !t.Fixed() && t.Mode != colortable.Exact {
		p = t.Palette(1<<8, -1, 0, 1<<8-1)
	}
	o.Colors, o.Categories = p.Colors, p.Names
	o.BeforeClose = func(info *raster.Info) error {
		b := &info.Bands[0]
		n, nodata := 1<<8, -1
		if b.Type == ndarray.Uint16 {
			n = 1 << 16
		}
		if b.Nodata != nil {
			nodata = int(b.Nodata.Float64())
		}
		low, high := 0.0, 0.0 // without a valid pixel, no colour is seen
		if s := storedStats(b.Metadata); s != nil && finite(s.Min) != nil && finite(s.Max) != nil {
			low, high = *finite(s.Min), *finite(s.Max)
		}
		p := t.Palette(n, nodata, low, high)
		b.Colors = p.Colors
		if p.Names != nil {
			b.Categories = p.Names
		}
		if p.Clear && b.Categories == nil { // a table in the sidecar keeps it
			b.Categories = make([]string, len(p.Colors))
		}
		return nil
	}
}

// parseColorInterp reads COLOR,... for the bands in their order, or BAND:COLOR for one of them.
func parseColorInterp(s string) ([]raster.Color, error) {
	var list []raster.Color
	for i, item := range strings.Split(s, ",") {
		word := strings.TrimSpace(item)
		if number, rest, ok := strings.Cut(word, ":"); ok {
			n, err := strconv.Atoi(number)
			if err != nil || n < 1 || n > maxInterpBands {
				return nil, fmt.Errorf("%q is not a band: write BAND:COLOR, such as 4:alpha", number)
			}
			i, word = n-1, strings.TrimSpace(rest)
		}
		if strings.EqualFold(word, "grey") {
			word = string(raster.ColorGray)
		}
		c, ok := colortable.ParseMeaning(word)
		if !ok {
			return nil, unknownWord(word, colorNames())
		}
		for len(list) <= i {
			list = append(list, "")
		}
		if list[i] != "" {
			return nil, fmt.Errorf("band %d is given twice", i+1)
		}
		list[i] = c
	}
	return list, nil
}

// maxInterpBands bounds the numbers of bands: TIFF has no more.
const maxInterpBands = 1<<16 - 1

// colorNames are the words that --color-interp takes.
func colorNames() []string {
	var names []string
	for _, c := range colortable.Meanings() {
		names = append(names, string(c))
	}
	return names
}

// setColorInterps sets the colour interpretations of the outputs. What is said of one output
// replaces what is said of all, band by band.
func (f *outputFlags) setColorInterps(job *apply.Job) error {
	const option = "--color-interp"
	type band struct {
		output string
		named  bool
		number int
	}
	given := map[band]string{} // the text of the option
	var errs []error
	for _, v := range f.interps {
		one := []namedValue[[]raster.Color]{v}
		errs = append(errs, forOutputs(job, option, one, func(name string, list []raster.Color) error {
			o := job.Outputs[name]
			all := slices.Clone(o.ColorInterp)
			for i, c := range list {
				if i == len(all) {
					all = append(all, "")
				}
				if c == "" {
					continue
				}
				at := band{name, v.named, i + 1}
				if before, again := given[at]; again {
					return givenAlready(option, v.text, fmt.Sprintf("band %d of %s", i+1, name), before)
				}
				given[at], all[i] = v.text, c
			}
			o.ColorInterp = all
			job.Outputs[name] = o
			return nil
		}))
	}
	return errors.Join(errs...)
}
