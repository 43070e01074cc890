package jobspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"leat/internal/storeurl"
)

// property is one property of a description of type T. text returns its value for messages, which
// is also what is compared; "" stands for none.
type property[T any] struct {
	name string
	text func(*T) string
}

// runProperties are the properties that all spools of a run have in common.
var runProperties = []property[Description]{
	{"the byte order of the machine", func(d *Description) string { return choose(d.BigEndian, "big", "little") }},
	{"the build of the program", func(d *Description) string { return d.Build }},
	{"the version", func(d *Description) string { return quote(d.Version) }},
	{"the function", func(d *Description) string { return quote(d.Function) }},
	{"the list of outputs", func(d *Description) string { return strings.Join(d.Outputs, ", ") }},
	{"the grid's size", func(d *Description) string { return size(d.Width, d.Height) }},
	{"the grid's transform", func(d *Description) string { return list(d.Transform) }},
	{"the CRS", func(d *Description) string { return d.CRS }},
	{"the overlap", func(d *Description) string { return fmt.Sprint(d.Overlap) }},
	{"the domain of focal functions", func(d *Description) string { return fmt.Sprint(d.Domain) }},
	{"the version of PROJ, which transforms coordinates,", func(d *Description) string { return d.PROJ }},
	{"the margin", func(d *Description) string { return choose(d.Overlap > 0, d.Margin, "") }},
	{"the use of masks and nodata of inputs", func(d *Description) string { return onOff(!d.NoMask) }},
	{"the scaling of inputs", func(d *Description) string { return onOff(d.Unscale) }},
	{"the cutline", func(d *Description) string { return quote(d.Cutline) }},
	{"the check for results that equal nodata", func(d *Description) string { return onOff(d.Collision) }},
	{"the size of blocks", func(d *Description) string { return size(d.BlockWidth, d.BlockHeight) }},
}

// outputProperties are the properties of the output that a spool belongs to.
var outputProperties = []property[Description]{
	{"the file", func(d *Description) string { return quote(d.Path) }},
	{"the type", func(d *Description) string { return d.Type }},
	{"the number of bands", func(d *Description) string { return fmt.Sprint(d.Bands) }},
	{"nodata", func(d *Description) string { return d.Nodata }},
	{"the scale", func(d *Description) string { return fmt.Sprint(d.Scale) }},
	{"the offset", func(d *Description) string { return fmt.Sprint(d.Offset) }},
	{"the alpha band", func(d *Description) string { return choose(d.Alpha > 0, fmt.Sprint(d.Alpha), "") }},
	{"the tile size", func(d *Description) string { return size(d.TileWidth, d.TileHeight) }},
	{"the interleave", func(d *Description) string { return d.Interleave }},
	{"the coding", func(d *Description) string { return strings.Join(d.Candidates, " or ") }},
	{"the list of overview levels", func(d *Description) string { return list(d.Factors) }},
	{"the overview method", func(d *Description) string { return choose(len(d.Factors) > 0, d.Method, "") }},
	{"the computation of statistics", func(d *Description) string { return onOff(d.Statistics) }},
	{"the computation of a histogram", func(d *Description) string { return onOff(d.Histogram) }},
}

var fileProperties = []property[DescribedFile]{
	{"the item of the list that it is a part of", func(f *DescribedFile) string { return fmt.Sprint(f.Item + 1) }},
	{"the list of bands that are read", func(f *DescribedFile) string { return list(f.Layers) }},
	{"the type", func(f *DescribedFile) string { return f.Type }},
	{"nodata", func(f *DescribedFile) string { return strings.Join(f.Nodata, ",") }},
	{"the scale", func(f *DescribedFile) string { return strings.Join(f.Scales, ",") }},
	{"the offset", func(f *DescribedFile) string { return strings.Join(f.Offsets, ",") }},
	{"its time", func(f *DescribedFile) string { return f.Time }},
	{"its position in the grid", func(f *DescribedFile) string { return list([]int{f.Col, f.Row}) }},
}

var warpProperties = []property[DescribedWarp]{
	{"the method of resampling", func(w *DescribedWarp) string { return w.Method }},
	{"nodata for warping", func(w *DescribedWarp) string { return w.Nodata }},
	{"the use of its overviews", func(w *DescribedWarp) string { return onOff(w.Overviews) }},
	{"the fingerprint of the grid that it is warped onto", func(w *DescribedWarp) string { return w.Grid }},
	{"the version of GDAL, which warps it,", func(w *DescribedWarp) string { return w.GDAL }},
}

var vectorProperties = []property[DescribedVector]{
	{"the layer", func(v *DescribedVector) string { return quote(v.Layer) }},
	{"the statement", func(v *DescribedVector) string { return quote(v.SQL) }},
	{"the condition", func(v *DescribedVector) string { return quote(v.Where) }},
	{"the attribute to burn", func(v *DescribedVector) string { return quote(v.Attribute) }},
	{"the value to burn", func(v *DescribedVector) string { return v.Burn }},
	{"the value where no feature lies", func(v *DescribedVector) string { return v.Null }},
	{"burning all pixels that a feature touches", func(v *DescribedVector) string { return onOff(v.AllTouched) }},
	{"the list of open options", func(v *DescribedVector) string { return quote(strings.Join(v.OpenOptions, " ")) }},
}

// Diff returns the differences between a run's description and an earlier one, each as a clause.
func Diff(was, now *Description) []string {
	clauses := append(diff("", runProperties, was, now), diffSource(was.Source, now.Source)...)
	if was.Function == now.Function && !was.Params.Equal(&now.Params) {
		clauses = append(clauses, "the parameters of the function differ")
	}
	for _, name := range slices.Sorted(maps.Keys(now.Expressions)) {
		expression := property[Description]{"the expression of " + name,
			func(d *Description) string { return quote(d.Expressions[name]) }}
		clauses = append(clauses, diff("", []property[Description]{expression}, was, now)...)
	}
	for _, name := range slices.Sorted(maps.Keys(union(was.Variables, now.Variables))) {
		variable := property[Description]{"the variable " + name, func(d *Description) string { return quote(d.Variables[name]) }}
		clauses = append(clauses, diff("", []property[Description]{variable}, was, now)...)
	}
	for _, name := range slices.Sorted(maps.Keys(now.Tables)) {
		if old, ok := was.Tables[name]; ok && old != now.Tables[name] {
			clauses = append(clauses, fmt.Sprintf("the contents of the table %s differ", name))
		}
	}
	clauses = append(clauses, diffInputs(was.Inputs, now.Inputs)...)
	return append(clauses, diff("output "+now.Output+": ", outputProperties, was, now)...)
}

func union(a, b map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// DiffOutputs returns the difference between two lists of outputs as a clause; none if they agree.
func DiffOutputs(was, now []string) []string {
	return diffText("the list of outputs", strings.Join(was, ", "), strings.Join(now, ", "))
}

func diff[T any](subject string, properties []property[T], was, now *T) (clauses []string) {
	for _, p := range properties {
		clauses = append(clauses, diffText(subject+p.name, p.text(was), p.text(now))...)
	}
	return clauses
}

func diffText(name, was, now string) []string {
	if was == now {
		return nil
	}
	return []string{fmt.Sprintf("%s was %s and is %s", name, choose(was != "", was, "none"),
		choose(now != "", now, "none"))}
}

// CallersSource begins the source of a function of the calling program, before a digest.
const CallersSource = "the caller's, "

// diffSource compares the sources of functions. Digests are no use to readers.
func diffSource(was, now string) []string {
	old, callers := strings.HasPrefix(was, CallersSource), strings.HasPrefix(now, CallersSource)
	if old && callers && was != now {
		return []string{"the function differs, or a value that it uses"}
	}
	for _, text := range []*string{&was, &now} {
		if strings.HasPrefix(*text, CallersSource) {
			*text = "in the calling program"
		}
	}
	return diffText("the source of the function", was, now)
}

// diffInputs compares the files of all inputs by name and index.
func diffInputs(was, now []DescribedFile) (clauses []string) {
	a, b := byInput(was), byInput(now)
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		clauses = append(clauses, diffText("the number of files of input "+name, countText(a[name]), countText(b[name]))...)
		for i := range min(len(a[name]), len(b[name])) {
			clauses = append(clauses, diffFile("input "+name+": ", &a[name][i], &b[name][i])...)
		}
	}
	return clauses
}

func byInput(files []DescribedFile) map[string][]DescribedFile {
	m := map[string][]DescribedFile{}
	for _, f := range files {
		m[f.Name] = append(m[f.Name], f)
	}
	return m
}

func countText(files []DescribedFile) string {
	if len(files) == 0 {
		return ""
	}
	return fmt.Sprint(len(files)) + choose(files[0].List, " (a list)", "")
}

// diffFile compares two files of the same input. Where they are different files, or a difference
// can't be detected, it returns one clause.
func diffFile(subject string, was, now *DescribedFile) []string {
	switch {
	case was.Path != now.Path:
		return diffText(subject+"the file", was.Path, now.Path)
	case now.known():
	case storeurl.Is(now.Path):
		return []string{fmt.Sprintf("%sa change of %s can't be detected: its server identifies no version of it or of one of its sidecars, neither by a tag nor by a time at least two seconds ago",
			subject, now.Path)}
	default:
		return []string{fmt.Sprintf("%sa change of %s can't be detected: it is not a regular file, or consists of files that are not",
			subject, now.Path)}
	}
	if text := was.FileState.Changes(now.FileState); text != "" {
		return []string{subject + now.Path + " " + text}
	}
	clauses := diffSidecars(subject, was, now)
	switch {
	case was.Vector != nil && now.Vector != nil:
		clauses = append(clauses, diff(subject, vectorProperties, was.Vector, now.Vector)...)
	case was.Vector != nil:
		clauses = append(clauses, subject+"it was a vector and is a raster")
	case now.Vector != nil:
		clauses = append(clauses, subject+"it was a raster and is a vector")
	}
	clauses = append(clauses, diff(subject, fileProperties, was, now)...)
	switch {
	case was.Warp != nil && now.Warp != nil:
		clauses = append(clauses, diff(subject, warpProperties, was.Warp, now.Warp)...)
	case was.Warp != nil:
		clauses = append(clauses, subject+"it was warped onto the grid, and is read as it is")
	case now.Warp != nil:
		clauses = append(clauses, subject+"it was read as it is, and is warped onto the grid")
	}
	return clauses
}

func diffSidecars(subject string, was, now *DescribedFile) (clauses []string) {
	for _, key := range slices.Sorted(maps.Keys(now.Sidecars)) {
		name := subject + SidecarName(now.Path, key)
		if old, ok := was.Sidecars[key]; !ok {
			clauses = append(clauses, name+" was not there before")
		} else if text := old.Changes(now.Sidecars[key]); text != "" {
			clauses = append(clauses, name+" "+text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(was.Sidecars)) {
		if _, ok := now.Sidecars[key]; !ok {
			clauses = append(clauses, subject+SidecarName(now.Path, key)+" is gone")
		}
	}
	return clauses
}

func choose(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

func onOff(on bool) string { return choose(on, "on", "off") }

func quote(text string) string { return choose(text == "", "", "'"+text+"'") }

func size(width, height int) string { return fmt.Sprintf("%d x %d", width, height) }

func list[T any](values []T) string {
	text := make([]string, len(values))
	for i, v := range values {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, ",")
}
