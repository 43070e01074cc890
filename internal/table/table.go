// Package table writes tables of named and typed columns, row by row, as CSV or Parquet.
package table

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
)

// Type is the type of a column's values. Any value may be nil, which is null.
type Type uint8

const (
	Int64   Type = iota // int64
	Uint64              // uint64
	Float64             // float64; NaN and infinities are not null
	Text                // string
)

// Column is a column of a table.
type Column struct {
	Name string
	Type Type
}

// Writer writes the rows of a table. Write does not keep the row. Close completes the table and
// does not close the file.
type Writer interface {
	Write(row []any) error
	Close() error
}

// Format is a format of tables.
type Format struct {
	Name   string // such as "CSV"
	Ending string // of files, such as ".csv"
	// New starts a table in an empty file.
	New func(w io.Writer, columns []Column) (Writer, error)
}

// formats are the formats that the package writes.
var formats = []Format{{"CSV", ".csv", newCSV}, {"Parquet", ".parquet", newParquet}}

// Formats returns the formats that the package writes.
func Formats() []Format { return formats }

// FormatOf returns the format of a file by the ending of its name.
func FormatOf(path string) (Format, bool) {
	ending := strings.ToLower(filepath.Ext(path))
	for _, f := range formats {
		if f.Ending == ending {
			return f, true
		}
	}
	return Format{}, false
}

// Number returns the shortest text that a float64 can be read back from, with an exponent only
// beyond 1e21 and below 1e-6.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	form := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	return strconv.FormatFloat(v, form, -1, 64)
}

// typeError returns the error about a value that is not of its column's type.
func typeError(c Column, v any) error { return fmt.Errorf("column %s: a value of type %T", c.Name, v) }
