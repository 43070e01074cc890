package gdal

import (
	"context"
	"fmt"
	"unsafe"
)

// AttributeTable describes the values of a band, with a row for each value or range of values.
type AttributeTable struct{ Columns []Column }

// Column is a column of an AttributeTable. Exactly one of Ints, Floats and Texts is not nil unless
// the table has no rows.
type Column struct {
	Name   string
	Usage  string // "value", "name", "count", "min", "max", "red", "green", "blue", "alpha", or "generic" otherwise
	Ints   []int32
	Floats []float64
	Texts  []string
}

// usages holds the names of GDAL's GFU_ numbers.
var usages = []string{"generic", "count", "name", "min", "max", "value", "red", "green", "blue", "alpha"}

// maxCells bounds attribute tables, since the header of a damaged file may state any size.
const maxCells = 1 << 26

// withBand runs do with a band, counted from 1.
func (f *File) withBand(band int, do func(b hBand) error) error {
	if band < 1 || band > len(f.info.Bands) {
		return fmt.Errorf("%s: band %d out of range (has %d)", f.info.Path, band, len(f.info.Bands))
	}
	h, err := f.acquire(context.Background())
	if err != nil {
		return err
	}
	defer f.release(h)
	onThread(func() { err = do(c.GDALGetRasterBand(h, int32(band))) })
	return err
}

// AttributeTable returns the attribute table of a band, counted from 1, or nil.
func (f *File) AttributeTable(band int) (*AttributeTable, error) {
	var t *AttributeTable
	err := f.withBand(band, func(b hBand) error {
		rat := c.GDALGetDefaultRAT(b)
		if rat == 0 {
			return nil
		}
		columns, rows := c.GDALRATGetColumnCount(rat), c.GDALRATGetRowCount(rat)
		if columns < 0 || rows < 0 || int64(columns)*int64(rows) > maxCells {
			return fmt.Errorf("%s: the attribute table of band %d has %d columns and %d rows, too many to be read",
				f.info.Path, band, columns, rows)
		}
		t = &AttributeTable{}
		for n := range columns {
			col, err := f.column(rat, n, rows)
			if err != nil {
				return err
			}
			t.Columns = append(t.Columns, col)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (f *File) column(rat hRAT, n, rows int32) (Column, error) {
	col := Column{Name: c.GDALRATGetNameOfCol(rat, n), Usage: usages[0]}
	if u := c.GDALRATGetUsageOfCol(rat, n); u >= 0 && int(u) < len(usages) {
		col.Usage = usages[u]
	}
	if rows == 0 {
		return col, nil
	}
	var err error
	switch typ := c.GDALRATGetTypeOfCol(rat, n); typ {
	case 0:
		col.Ints = make([]int32, rows)
		err = try(f.info.Path, "read", func() bool {
			return c.GDALRATValuesIOAsInteger(rat, 0, n, 0, rows,
				&col.Ints[0]) == 0
		})
	case 1:
		col.Floats = make([]float64, rows)
		err = try(f.info.Path, "read", func() bool {
			return c.GDALRATValuesIOAsDouble(rat, 0, n, 0, rows,
				&col.Floats[0]) == 0
		})
	default:
		col.Texts = make([]string, rows)
		for r := range rows {
			col.Texts[r] = c.GDALRATGetValueAsString(rat, r, n)
		}
	}
	return col, err
}

// Categories returns the names of a band's values 0, 1, 2 and so on, or nil. Bands count from 1.
func (f *File) Categories(band int) ([]string, error) {
	var names []string
	err := f.withBand(band, func(b hBand) error {
		names = goStrings(c.GDALGetRasterCategoryNames(b))
		return nil
	})
	return names, err
}

// Histogram counts pixels in buckets of equal width between Lowest and Highest.
type Histogram struct {
	Lowest, Highest float64
	Counts          []uint64
}

// Histogram returns the stored histogram of a band, counted from 1, or nil. It does not compute
// one.
func (f *File) Histogram(band int) (*Histogram, error) {
	var h *Histogram
	err := f.withBand(band, func(b hBand) error {
		var r Histogram
		var n int32
		var counts unsafe.Pointer
		if c.GDALGetDefaultHistogramEx(b, &r.Lowest, &r.Highest, &n, &counts, 0, 0, 0) == 0 && counts != nil && n > 0 {
			r.Counts = append(r.Counts, unsafe.Slice((*uint64)(counts), n)...)
			h = &r
		}
		c.VSIFree(counts)
		return nil
	})
	return h, err
}
