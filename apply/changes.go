package apply

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"leat/internal/units"
	"leat/objstore"
)

// changes lists the differences between a run and an earlier one, each as a clause.
type changes []string

func (c *changes) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*c, text) { // several outputs have the same inputs
		*c = append(*c, text)
	}
}

// value adds a clause if a value differs.
func (c *changes) value(what string, was, now any) {
	if a, b := fmt.Sprint(was), fmt.Sprint(now); a != b {
		c.add("%s was %s and is %s", what, a, b)
	}
}

// text adds a clause if a text differs; "" stands for none.
func (c *changes) text(what, was, now string) {
	switch {
	case was == now:
	case was == "":
		c.add("there was no %s, and there is '%s'", strings.TrimPrefix(what, "the "), now)
	case now == "":
		c.add("%s was '%s', and there is none", what, was)
	default:
		c.add("%s was '%s' and is '%s'", what, was, now)
	}
}

// flag adds the clause yes or no if a setting differs.
func (c *changes) flag(was, now bool, yes, no string) {
	if was != now {
		c.add("%s", map[bool]string{true: yes, false: no}[now])
	}
}

// compare adds the differences between two descriptions.
func (c *changes) compare(was, now *description) {
	switch {
	case was.BigEndian != now.BigEndian:
		c.add("it was made on a machine with another byte order")
	case was.Build != now.Build:
		c.add("it was made by another build of the program")
	}
	c.text("the version", was.Version, now.Version)
	c.text("the function", was.Function, now.Function)
	if was.Function == now.Function && !now.sameParams(&was.descriptionParams) {
		c.add("the parameters of the function differ")
	}
	c.value("the list of outputs", strings.Join(was.Outputs, ", "), strings.Join(now.Outputs, ", "))
	for _, name := range now.Outputs {
		c.text("the expression of "+name, was.Expressions[name], now.Expressions[name])
	}
	c.value("the grid's size", sides(was.Width, was.Height), sides(now.Width, now.Height))
	if !slices.Equal(was.Transform, now.Transform) {
		c.add("the grid has another position or pixel size")
	}
	c.value("the CRS", was.CRS, now.CRS)
	c.value("the overlap", was.Overlap, now.Overlap)
	if now.Overlap > 0 {
		c.value("the margin", was.Margin, now.Margin)
	}
	c.flag(was.NoMask, now.NoMask, "masks and nodata of inputs were used and are not (--no-mask)",
		"masks and nodata of inputs were not used and are (--no-mask)")
	c.flag(was.Unscale, now.Unscale, "inputs were not scaled and are (--unscale)",
		"inputs were scaled and are not (--unscale)")
	c.flag(was.Collision, now.Collision, "a result that equals nodata was not an error and is one (--nodata-collision)",
		"a result that equals nodata was an error and is not (--nodata-collision)")
	c.inputs(was.Inputs, now.Inputs)
	c.output(was, now)
	if was.BlockWidth != now.BlockWidth || was.BlockHeight != now.BlockHeight || was.Blocks != now.Blocks {
		c.value("the size of blocks (--window)", sides(was.BlockWidth, was.BlockHeight),
			sides(now.BlockWidth, now.BlockHeight))
	}
}

func sides(w, h int) string { return fmt.Sprintf("%d x %d", w, h) }

// output compares the fields that belong to one output.
func (c *changes) output(was, now *description) {
	of := "output " + now.Output + ": "
	c.text(of+"the file", was.Path, now.Path)
	c.value(of+"the type", was.Type, now.Type)
	c.value(of+"the number of bands", was.Bands, now.Bands)
	c.value(of+"nodata", was.Nodata, now.Nodata)
	c.value(of+"the scale", was.Scale, now.Scale)
	c.value(of+"the offset", was.Offset, now.Offset)
	c.value(of+"the tile size", sides(was.TileWidth, was.TileHeight), sides(now.TileWidth, now.TileHeight))
	c.value(of+"the interleave", was.Interleave, now.Interleave)
	c.value(of+"the coding", strings.Join(was.Candidates, " or "), strings.Join(now.Candidates, " or "))
	c.value(of+"the list of overview levels", levelsText(was.Factors), levelsText(now.Factors))
	if len(now.Factors) > 0 {
		c.value(of+"the overview method", was.Method, now.Method)
	}
	c.flag(was.Statistics, now.Statistics, of+"statistics were not wanted and are",
		of+"statistics were wanted and are not")
	c.flag(was.Histogram, now.Histogram, of+"a histogram was not wanted and is", of+"a histogram was wanted and is not")
}

func levelsText(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	return listText(list)
}

// inputs compares the files of all inputs by name and index.
func (c *changes) inputs(was, now []descriptionInput) {
	a, b := filesOf(was), filesOf(now)
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if len(a[name]) == 0 {
			c.add("there was no input %s", name)
		} else if len(a[name]) != len(b[name]) || a[name][0].List != b[name][0].List {
			c.add("input %s had %s and has %s", name, units.Count(len(a[name]), "file"), units.Count(len(b[name]), "file"))
		}
		for i := range min(len(a[name]), len(b[name])) {
			c.input(&a[name][i], &b[name][i])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if len(b[name]) == 0 {
			c.add("there was an input %s", name)
		}
	}
}

func filesOf(list []descriptionInput) map[string][]descriptionInput {
	m := map[string][]descriptionInput{}
	for _, d := range list {
		m[d.Name] = append(m[d.Name], d)
	}
	return m
}

func (c *changes) input(was, now *descriptionInput) {
	of := "input " + now.Name + ": "
	if was.Path != now.Path {
		c.add("%sthe file was %s and is %s", of, was.Path, now.Path)
		return
	}
	switch {
	case now.known():
	case objstore.IsURL(now.Path):
		c.add("%sthe server of %s does not identify the version of the file or of one of its sidecars (neither by a tag nor by a time at least two seconds ago), so a change can't be detected", of, now.Path)
		return
	default:
		c.add("%s%s is no regular file, or consists of files that are not, so a change can't be detected", of, now.Path)
		return
	}
	if text := was.fileState.change(now.fileState); text != "" {
		c.add("%s%s %s", of, now.Path, text)
		return
	}
	for _, suffix := range slices.Sorted(maps.Keys(now.Sidecars)) {
		if old, ok := was.Sidecars[suffix]; !ok {
			c.add("%s%s was not there before", of, sidecarName(now.Path, suffix))
		} else if text := old.change(now.Sidecars[suffix]); text != "" {
			c.add("%s%s %s", of, sidecarName(now.Path, suffix), text)
		}
	}
	for _, suffix := range slices.Sorted(maps.Keys(was.Sidecars)) {
		if _, ok := now.Sidecars[suffix]; !ok {
			c.add("%s%s is gone", of, sidecarName(now.Path, suffix))
		}
	}
	c.vector(of, was.Vector, now.Vector)
	c.value(of+"the list of layers that are read", levelsText(was.Layers), levelsText(now.Layers))
	c.value(of+"the type", was.Type, now.Type)
	c.value(of+"nodata", strings.Join(was.Nodata, ","), strings.Join(now.Nodata, ","))
	c.value(of+"the scale", strings.Join(was.Scales, ","), strings.Join(now.Scales, ","))
	c.value(of+"the offset", strings.Join(was.Offsets, ","), strings.Join(now.Offsets, ","))
	c.warp(of, was.Warp, now.Warp)
	c.value(of+"its position in the grid", []int{was.Col, was.Row}, []int{now.Col, now.Row})
}

// change describes how a file differs from its earlier state; it returns "" if it does not.
func (was fileState) change(now fileState) string {
	switch {
	case was == now:
		return ""
	case was.MTime != now.MTime && now.MTime != "":
		return "was changed at " + timeText(now.MTime)
	case was.Bytes != now.Bytes:
		return fmt.Sprintf("had %d bytes and has %d", was.Bytes, now.Bytes)
	case was.ETag != now.ETag:
		return fmt.Sprintf("is another version (its tag was %s and is %s)", was.ETag, now.ETag)
	case was.Weak:
		return "had just been changed when it was opened, and may have been replaced within the same second"
	}
	return "is another file than before, of the same size and time"
}

func timeText(exact string) string {
	t, err := time.Parse(exactTime, exact)
	if err != nil {
		return exact
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
