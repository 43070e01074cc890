package table

import (
	"bytes"
	"encoding/csv"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

var testColumns = []Column{{"zone", Int64}, {"b,ig", Uint64}, {"mean", Float64}, {"a name", Text}}

var testRows = [][]any{
	{int64(-3), uint64(math.MaxUint64), 0.1, `quoted "text"`},
	{int64(math.MaxInt64), nil, math.NaN(), ""},
	{nil, uint64(0), math.Inf(-1), "two\nlines"},
	{int64(0), uint64(7), nil, nil},
	{int64(1), uint64(7), 1e-7, " blank "},
	{int64(2), uint64(7), 123456789012.5, "ü, ö"},
}

// write returns a table of the rows.
func write(t *testing.T, ending string, rows [][]any) []byte {
	t.Helper()
	f, ok := FormatOf("a/b" + ending)
	if !ok {
		t.Fatal(ending)
	}
	var b bytes.Buffer
	w, err := f.New(&b, testColumns)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCSV(t *testing.T) {
	text := string(write(t, ".CSV", testRows))
	want := "zone,\"b,ig\",mean,a name\n" +
		"-3,18446744073709551615,0.1,\"quoted \"\"text\"\"\"\n" +
		"9223372036854775807,,nan,\"\"\n" +
		",0,-inf,\"two\nlines\"\n" +
		"0,7,,\n" +
		"1,7,1e-07,\" blank \"\n" +
		"2,7,123456789012.5,\"ü, ö\"\n"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) != 7 || records[1][3] != `quoted "text"` || records[6][3] != "ü, ö" {
		t.Errorf("%q: %v", records, err)
	}
}

func TestParquet(t *testing.T) {
	var rows [][]any
	for range 400 { // several calls of WriteRows
		rows = append(rows, testRows...)
	}
	data := write(t, ".parquet", rows)
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range f.Root().Columns() {
		names = append(names, c.Name())
	}
	if diff := cmp.Diff([]string{"zone", "b,ig", "mean", "a name"}, names); diff != "" {
		t.Error(diff)
	}
	if f.NumRows() != int64(len(rows)) {
		t.Errorf("%d rows, expected %d", f.NumRows(), len(rows))
	}
	n := 0
	for _, g := range f.RowGroups() {
		r := g.Rows()
		got := make([]parquet.Row, 100)
		for {
			k, err := r.ReadRows(got)
			for _, row := range got[:k] {
				sameRow(t, n, row, rows[n])
				n++
			}
			if err != nil {
				break
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if n != len(rows) {
		t.Errorf("%d rows were read", n)
	}
}

func sameRow(t *testing.T, n int, got parquet.Row, want []any) {
	t.Helper()
	for i, v := range got {
		same := false
		switch w := want[i].(type) {
		case nil:
			same = v.IsNull()
		case int64:
			same = !v.IsNull() && v.Int64() == w
		case uint64:
			same = !v.IsNull() && v.Uint64() == w
		case float64:
			same = !v.IsNull() && math.Float64bits(v.Double()) == math.Float64bits(w)
		case string:
			same = !v.IsNull() && string(v.ByteArray()) == w
		}
		if !same || v.Column() != i {
			t.Fatalf("row %d, column %d: %v, expected %v", n, i, v, want[i])
		}
	}
}

func TestWrongValue(t *testing.T) {
	for _, f := range Formats() {
		w, err := f.New(&bytes.Buffer{}, testColumns)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write([]any{int32(1), nil, nil, nil}); err == nil || !strings.Contains(err.Error(), "column zone") {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if f, ok := FormatOf("table.txt"); ok {
		t.Error(f)
	}
}
