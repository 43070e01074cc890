package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"leat/apply"
	"leat/internal/regular"
	"leat/raster"
)

// setFormats sets the formats of outputs.
func (f *applyFlags) setFormats(job *apply.Job) error {
	return eachOutput(job, "--format", f.formats, func(o *apply.Output, v string) error {
		if v == "" {
			return errors.New("give the name of a format, such as HFA (leat info --formats lists them)")
		}
		o.Format = v
		return nil
	})
}

// setCreation reads creation options in GDAL's names. Formats are set.
func (f *applyFlags) setCreation(job *apply.Job) error {
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
		switch value {
		case "DEFLATE", "ZSTD", "LZW", "PACKBITS", "NONE":
		default:
			return errors.New("use DEFLATE, ZSTD, LZW, PACKBITS or NONE")
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
		return errors.New("leat knows COMPRESS, PREDICTOR, LEVEL, BLOCKSIZE, INTERLEAVE and BIGTIFF")
	}
	return nil
}

// readColors reads a colour table: lines of value, red, green and blue, parted by blanks
// or commas; # begins a comment. Values that are not named are black.
func readColors(path string) ([]raster.RGBA, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError{fmt.Errorf("--color-table %s: %w", path, cause(err))}
	}
	defer f.Close()
	var table []raster.RGBA
	sc := bufio.NewScanner(f)
	for line := 1; sc.Scan(); line++ {
		text, _, _ := strings.Cut(sc.Text(), "#")
		fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == ':' })
		if len(fields) == 0 {
			continue
		}
		var v [4]int
		ok := len(fields) == 4
		for i := 0; ok && i < len(fields); i++ {
			v[i], err = strconv.Atoi(fields[i])
			ok = err == nil && v[i] >= 0 && v[i] <= 65535 && (i == 0 || v[i] <= 255)
		}
		if !ok {
			return nil, fmt.Errorf("--color-table %s, line %d: write it as: value red green blue", path, line)
		}
		for len(table) <= v[0] {
			table = append(table, raster.RGBA{})
		}
		table[v[0]] = raster.RGBA{R: uint8(v[1]), G: uint8(v[2]), B: uint8(v[3]), A: 255}
	}
	if err := sc.Err(); err != nil {
		return nil, fileError{fmt.Errorf("--color-table %s: %w", path, cause(err))}
	}
	if len(table) == 0 {
		return nil, fmt.Errorf("--color-table %s has no entry", path)
	}
	return table, nil
}

// checkSideFiles says beforehand whether the files that come besides the outputs can be written.
func (f *applyFlags) checkSideFiles(job *apply.Job) error {
	var errs []error
	taken := map[string]string{} // by absolute path: what it is
	for _, name := range sortedNames(job.Inputs) {
		for _, path := range job.Inputs[name].Files {
			taken[absolute(path)] = "the input " + name
		}
	}
	for _, name := range sortedNames(job.Vectors) {
		taken[absolute(job.Vectors[name].Path)] = "the vector " + name
	}
	for _, name := range sortedNames(job.Outputs) {
		taken[absolute(job.Outputs[name].Path)] = "the output " + name
	}
	for _, side := range []struct{ flag, path, ext string }{{"--preview", f.preview, ".png"},
		{"--report", f.report, ""}, {"--trace", f.trace, ""}} {
		if side.path == "" {
			continue
		}
		if what, ok := taken[absolute(side.path)]; ok {
			errs = append(errs, usagef("%s %s is %s: write to another file", side.flag, side.path, what))
			continue
		}
		taken[absolute(side.path)] = "that of " + side.flag
		if err := checkSideFile(side.path, side.ext); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", side.flag, side.path, err))
		}
	}
	return errors.Join(errs...)
}

func checkSideFile(path, ext string) error {
	if err := regular.Check(path); errors.Is(err, regular.ErrDirectory) {
		return errors.New("that is a folder: give the name of a file in it")
	} else if errors.Is(err, regular.ErrSpecial) {
		return regular.ErrSpecial
	} else if errors.Is(err, unix.ENAMETOOLONG) {
		return unix.ENAMETOOLONG
	}
	if ext == ".png" && !strings.EqualFold(filepath.Ext(path), ext) {
		return usagef("the preview is a PNG: give a name that ends in .png")
	}
	dir := filepath.Dir(path)
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return fmt.Errorf("the folder %s does not exist: make it first", dir)
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		return fmt.Errorf("the folder %s can't be written to: %w", dir, err)
	}
	return nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
