package table

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// csvWriter writes CSV by RFC 4180, except that lines end with a line feed alone, as most programs
// write them. Null is an empty field, and an empty text is quoted.
type csvWriter struct {
	w       *bufio.Writer
	columns []Column
}

func newCSV(w io.Writer, columns []Column) (Writer, error) {
	c := &csvWriter{bufio.NewWriterSize(w, 1<<16), columns}
	for i, col := range columns {
		c.separate(i)
		c.text(col.Name)
	}
	return c, c.w.WriteByte('\n')
}

func (c *csvWriter) separate(i int) {
	if i > 0 {
		c.w.WriteByte(',') // an error is returned by the last write of the row
	}
}

// text writes a text, quoted if necessary.
func (c *csvWriter) text(s string) {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n") && strings.TrimSpace(s) == s {
		c.w.WriteString(s)
		return
	}
	c.w.WriteString(`"` + strings.ReplaceAll(s, `"`, `""`) + `"`)
}

func (c *csvWriter) Write(row []any) error {
	for i, v := range row {
		c.separate(i)
		switch v := v.(type) {
		case nil:
		case int64:
			c.w.WriteString(strconv.FormatInt(v, 10))
		case uint64:
			c.w.WriteString(strconv.FormatUint(v, 10))
		case float64:
			c.w.WriteString(Number(v))
		case string:
			c.text(v)
		default:
			return typeError(c.columns[i], v)
		}
	}
	return c.w.WriteByte('\n')
}

func (c *csvWriter) Close() error { return c.w.Flush() }
