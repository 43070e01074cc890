package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"leat/raster"
)

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
