package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"leat/apply"
)

// creationOption is a [NAME=]KEY=VALUE of --co.
type creationOption struct {
	text       string // as typed
	output     string // "" for all
	key, value string
}

// option returns the KEY that the option sets, which has several names.
func (o creationOption) option() string {
	switch key := strings.ToUpper(o.key); key {
	case "ZLEVEL", "ZSTD_LEVEL":
		return "LEVEL"
	default:
		return key
	}
}

// parseCreation reads --co: at most one for a key of an output, and one for that key of all others.
func (f *outputFlags) parseCreation(job *apply.Job) ([]creationOption, error) {
	var list []creationOption
	var errs []error
	for _, s := range f.creation {
		o, text := creationOption{text: s}, s
		if name, rest, ok := strings.Cut(s, "="); ok && strings.Contains(rest, "=") {
			if _, known := job.Outputs[name]; known {
				o.output, text = name, rest
			}
		}
		var ok bool
		if o.key, o.value, ok = strings.Cut(text, "="); !ok {
			errs = append(errs, fmt.Errorf("--co %s: write it as KEY=VALUE", s))
			continue
		}
		same := func(other creationOption) bool { return other.output == o.output && other.option() == o.option() }
		if i := slices.IndexFunc(list, same); i >= 0 {
			errs = append(errs, givenAlready("--co", s, o.output, list[i].text))
			continue
		}
		list = append(list, o)
	}
	return list, errors.Join(errs...)
}

// setCreation sets creation options in GDAL's names. Formats are set. What is said of one output
// replaces what is said of all.
func (f *outputFlags) setCreation(job *apply.Job) error {
	list, err := f.parseCreation(job)
	errs := []error{err}
	for _, c := range list {
		for _, name := range sortedNames(job.Outputs) {
			replaced := func(other creationOption) bool { return other.output == name && other.option() == c.option() }
			if c.output != name && (c.output != "" || slices.ContainsFunc(list, replaced)) {
				continue
			}
			o := job.Outputs[name]
			var err error
			if o.Format != "" && !strings.EqualFold(o.Format, "GTiff") {
				o.Options = append(o.Options, c.key+"="+c.value) // GDAL says what is wrong with it
			} else {
				err = setOption(&o, strings.ToUpper(c.key), strings.ToUpper(c.value))
			}
			job.Outputs[name] = o
			if err != nil {
				errs = append(errs, fmt.Errorf("--co %s: %w", c.text, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// What --co takes of leat's own GeoTIFF.
var (
	creationKeys = []string{"COMPRESS", "PREDICTOR", "LEVEL", "BLOCKSIZE", "INTERLEAVE", "BIGTIFF"}
	compressions = []string{"DEFLATE", "ZSTD", "LZW", "PACKBITS", "NONE"}
)

// setOption sets an option of leat's own GeoTIFF.
func setOption(o *apply.Output, key, value string) error {
	whole := func(what string, to *int) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("%s is a whole number above 0", what)
		}
		*to = n
		return nil
	}
	switch key {
	case "COMPRESS":
		if !slices.Contains(compressions, value) {
			return unknownWord(value, compressions)
		}
		o.Compression = strings.ToLower(value)
	case "PREDICTOR":
		switch value {
		case "NO":
			value = "1"
		case "STANDARD":
			value = "2"
		case "FLOATING_POINT":
			value = "3"
		}
		if value != "1" && value != "2" && value != "3" {
			return errors.New("use 1, 2 or 3")
		}
		return whole("a predictor", &o.Predictor)
	case "LEVEL", "ZLEVEL", "ZSTD_LEVEL":
		if value == "0" {
			return errors.New("use a level of 1 or more, or COMPRESS=NONE")
		}
		return whole("a level", &o.Level)
	case "BLOCKSIZE", "BLOCKXSIZE", "BLOCKYSIZE":
		if size := o.TileSize; size != 0 && strconv.Itoa(size) != value {
			return fmt.Errorf("tiles of %d were asked for as well: leat's tiles are square", size)
		}
		return whole("a tile size", &o.TileSize)
	case "TILED":
		if value != "YES" {
			return errors.New("leat always writes tiles")
		}
	case "INTERLEAVE":
		if value != "BAND" && value != "PIXEL" {
			return errors.New("use BAND or PIXEL")
		}
		o.PixelInterleave = value == "PIXEL"
	case "BIGTIFF":
		if value != "YES" && value != "IF_NEEDED" && value != "IF_SAFER" {
			return errors.New("use YES or IF_NEEDED")
		}
		o.BigTIFF = value == "YES"
	case "NUM_THREADS":
		return errors.New("use -j: leat encodes with all workers")
	default:
		return didYouMean(errors.New("leat knows COMPRESS, PREDICTOR, LEVEL, BLOCKSIZE, INTERLEAVE and BIGTIFF"), key,
			creationKeys)
	}
	return nil
}
