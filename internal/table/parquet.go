package table

import (
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// parquetWriter writes a Parquet file whose columns are all optional, compressed by zstd.
type parquetWriter struct {
	w       *parquet.GenericWriter[any]
	columns []Column
	rows    []parquet.Row
}

// rowsAtOnce is the number of rows for each call of WriteRows, rowGroup the number of a row group.
const (
	rowsAtOnce = 1024
	rowGroup   = 128 << 10
)

func newParquet(w io.Writer, columns []Column) (Writer, error) {
	root := group{}
	for _, c := range columns {
		var leaf parquet.Node
		switch c.Type {
		case Int64:
			leaf = parquet.Leaf(parquet.Int64Type)
		case Uint64:
			leaf = parquet.Uint(64)
		case Float64:
			leaf = parquet.Leaf(parquet.DoubleType)
		case Text:
			leaf = parquet.String()
		}
		root.fields = append(root.fields, field{parquet.Optional(leaf), c.Name})
	}
	p := &parquetWriter{columns: columns}
	p.w = parquet.NewGenericWriter[any](w, parquet.NewSchema("table", root), parquet.Compression(&parquet.Zstd),
		parquet.MaxRowsPerRowGroup(rowGroup), parquet.CreatedBy("leat", "", ""))
	return p, nil
}

func (p *parquetWriter) Write(row []any) error {
	r := make(parquet.Row, 0, len(row))
	for i, v := range row {
		var value parquet.Value
		level := 1
		switch v := v.(type) {
		case nil:
			level = 0
		case int64:
			value = parquet.Int64Value(v)
		case uint64:
			value = parquet.Int64Value(int64(v)) // the column's type is unsigned
		case float64:
			value = parquet.DoubleValue(v)
		case string:
			value = parquet.ByteArrayValue([]byte(v))
		default:
			return typeError(p.columns[i], v)
		}
		r = append(r, value.Level(0, level, i))
	}
	p.rows = append(p.rows, r)
	if len(p.rows) == rowsAtOnce {
		return p.flush()
	}
	return nil
}

func (p *parquetWriter) flush() error {
	_, err := p.w.WriteRows(p.rows)
	p.rows = p.rows[:0]
	return err
}

func (p *parquetWriter) Close() error {
	if err := p.flush(); err != nil {
		return err
	}
	return p.w.Close()
}

// group is a parquet.Group whose fields keep their order.
type group struct {
	parquet.Group
	fields []parquet.Field
}

func (g group) Fields() []parquet.Field { return g.fields }

// field is a column of a group.
type field struct {
	parquet.Node
	name string
}

func (f field) Name() string { return f.name }

func (f field) Value(base reflect.Value) reflect.Value { return base.FieldByName(f.name) }
