package resolve

import (
	"fmt"
	"path"
	"strings"
	"time"

	"leat/apply/internal/jobspec"
	"leat/apply/outcome"
	"leat/internal/lazyregexp"
	"leat/internal/stac"
	"leat/raster"
)

// resolveTime sets the time of an open file.
func (f *File) resolveTime(spec jobspec.Input) (err error) {
	switch {
	case spec.FindTimes:
		if f.Time, err = findTime(f.Info, f.Path); err != nil {
			return &outcome.JobError{Err: jobspec.Errorf("Input.Times", "%s: %w", f.Path, err)}
		}
	case f.Index < len(spec.Times):
		f.Time = spec.Times[f.Index]
	}
	return nil
}

// findTime returns the time of a raster: that of its acquisition in the metadata, else that in its
// name, else that of TIFF's tag DateTime, which may be the time at which the file was written.
func findTime(info *raster.Info, name string) (time.Time, error) {
	for _, text := range []string{info.Domains["IMAGERY"]["ACQUISITIONDATETIME"], info.Metadata["ACQUISITIONDATETIME"],
		info.Metadata["datetime"]} {
		if t, err := stac.ParseTime(text); err == nil {
			return t, nil
		}
	}
	t, err := timeOfName(name)
	if t.IsZero() && err == nil {
		var terr error
		if t, terr = stac.ParseTime(info.Metadata["TIFFTAG_DATETIME"]); terr != nil {
			err = fmt.Errorf("neither its metadata nor its name says when it was taken, expected a date such as 20200131, 2020-01-31 or 2020031 in the name")
		}
	}
	return t, err
}

// dateForms are the forms of dates in names. Digits around a match make it another number.
var dateForms = []struct {
	pattern *lazyregexp.Regexp
	layout  string // of what the groups hold, joined
}{
	{lazyregexp.New(`(\d{4})(\d{2})(\d{2})(?:[Tt]?(\d{6}))?`), "20060102150405"},
	{lazyregexp.New(`(\d{4})-(\d{2})-(\d{2})(?:[Tt](\d{2})[-:]?(\d{2})[-:]?(\d{2}))?`), "20060102150405"},
	{lazyregexp.New(`(\d{4})_(\d{2})_(\d{2})`), "20060102150405"},
	{lazyregexp.New(`(\d{4})\.(\d{2})\.(\d{2})`), "20060102150405"},
	{lazyregexp.New(`(\d{4})(\d{3})(?:[Tt](\d{6}))?`), "2006002150405"},
}

// timeOfName returns the first date in the name of a file, else in that of its directory, and the
// zero time if there is none. Names such as those of Landsat continue with the date of processing.
// Dates of several forms, or earlier ones after the first, make the name ambiguous.
func timeOfName(name string) (time.Time, error) {
	name, _, _ = strings.Cut(name, "?")
	for _, part := range []string{path.Base(name), path.Base(path.Dir(name))} {
		var found []time.Time
		var texts []string
		forms := 0
		for _, f := range dateForms {
			before := len(found)
			for _, at := range matches(f.pattern, part) {
				if t, ok := parseDate(f.pattern, f.layout, part[at[0]:at[1]]); ok {
					found, texts = append(found, t), append(texts, part[at[0]:at[1]])
				}
			}
			if len(found) > before {
				forms++
			}
		}
		for i, t := range found {
			if forms > 1 || t.Before(found[0]) {
				return time.Time{}, fmt.Errorf("its name has several dates, %s and %s, expected one, or the earliest first",
					texts[0], texts[max(i, 1)])
			}
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	return time.Time{}, nil
}

// matches returns the places of a pattern in text that no digits surround.
func matches(pattern *lazyregexp.Regexp, text string) (list [][2]int) {
	digit := func(i int) bool { return i >= 0 && i < len(text) && text[i] >= '0' && text[i] <= '9' }
	for from := 0; from < len(text); {
		at := pattern.FindStringIndex(text[from:])
		if at == nil {
			break
		}
		start, end := from+at[0], from+at[1]
		if digit(start-1) || digit(end) {
			for from = start; digit(from); from++ { // the number is another one
			}
			continue
		}
		list = append(list, [2]int{start, end})
		from = end
	}
	return list
}

// parseDate parses a match of pattern. ok is false for numbers that are not a date from 1950 to
// 2099.
func parseDate(pattern *lazyregexp.Regexp, layout, text string) (t time.Time, ok bool) {
	digits := strings.Join(pattern.FindStringSubmatch(text)[1:], "")
	t, err := time.Parse(layout[:len(digits)], digits)
	return t, err == nil && t.Year() >= 1950 && t.Year() < 2100
}
