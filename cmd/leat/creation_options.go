package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"leat/apply"
)

// setCreation reads creation options in GDAL's names. Formats are set.
func (f *outputFlags) setCreation(job *apply.Job) error {
	var errs []error
	for _, s := range f.creation {
		names, option := sortedNames(job.Outputs), s
		if name, rest, ok := strings.Cut(s, "="); ok && strings.Contains(rest, "=") {
			if _, known := job.Outputs[name]; known {
				names, option = []string{name}, rest
			}
		}
		key, value, ok := strings.Cut(option, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("--co %s: write it as KEY=VALUE", s))
			continue
		}
		for _, name := range names {
			o := job.Outputs[name]
			var err error
			if o.Format != "" && !strings.EqualFold(o.Format, "GTiff") {
				o.Options = append(o.Options, option) // GDAL says what is wrong with it
			} else {
				err = setOption(&o, strings.ToUpper(key), strings.ToUpper(value))
			}
			job.Outputs[name] = o
			if err != nil {
				errs = append(errs, fmt.Errorf("--co %s: %w", s, err))
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
