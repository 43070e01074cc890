package zonaljob

import (
	"strconv"
	"strings"

	"leat/internal/table"
	"leat/internal/zonal"
)

// cell returns a statistic as the value of a table's cell.
func cell(v zonal.Value) any {
	switch {
	case v.Null:
		return nil
	case v.Type == zonal.Int64:
		return v.Int
	case v.Type == zonal.Uint64:
		return v.Uint
	case v.Type == zonal.Histogram:
		return histogramText(v.Bins)
	}
	return v.Float
}

// histogramText returns a histogram as a JSON object: the weight of each value, or of each range
// LOW..HIGH.
func histogramText(bins []zonal.Bin) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, bin := range bins {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteByte('"')
		b.WriteString(numberText(bin.Low))
		if numberText(bin.High) != numberText(bin.Low) {
			b.WriteString("..")
			b.WriteString(numberText(bin.High))
		}
		b.WriteString(`": `)
		b.WriteString(table.Number(bin.Count))
	}
	b.WriteByte('}')
	return b.String()
}

func numberText(v zonal.Value) string {
	switch v.Type {
	case zonal.Int64:
		return strconv.FormatInt(v.Int, 10)
	case zonal.Uint64:
		return strconv.FormatUint(v.Uint, 10)
	}
	return table.Number(v.Float)
}
