package output

import (
	"strconv"
	"strings"

	"leat/raster"
	"leat/raster/stats"
)

// bandInfo returns the options of a band, counted from 0.
func (o *Output) bandInfo(i int) raster.Band {
	b := raster.Band{Type: o.Type, Nodata: o.Nodata, Scale: 1, Unit: o.Spec.Unit, Metadata: map[string]string{}}
	if i < len(o.Spec.LayerNames) {
		b.Name = o.Spec.LayerNames[i]
	}
	if o.Spec.Scale != 0 {
		b.Scale = o.Spec.Scale
	}
	b.Offset = o.Spec.Offset
	if i < len(o.Copied) && o.Copied[i] != nil {
		b.Color = o.Copied[i].Color
		if b.Color == raster.ColorPalette { // useless without its table, which few other formats hold
			if b.Color = ""; o.format.holdsColors(o) {
				b.Color, b.Colors = raster.ColorPalette, o.Copied[i].Colors
			}
		}
	}
	if o.Spec.Colors != nil {
		b.Color, b.Colors = raster.ColorPalette, o.Spec.Colors
	}
	if o.Spec.Thematic {
		b.Metadata["LAYER_TYPE"] = "thematic"
	}
	return b
}

// number formats a float with as many digits as it takes to read it back.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// statisticsItems adds the items that GDAL writes, for the finite pixels. Without finite pixels it
// adds the percentage only; it omits a deviation that overflows float64.
func statisticsItems(items map[string]string, m *stats.Moments) {
	items["STATISTICS_VALID_PERCENT"] = strconv.FormatFloat(m.ValidPercent(), 'g', 4, 64)
	if m.Valid == 0 {
		return
	}
	items["STATISTICS_MINIMUM"] = number(m.Min)
	items["STATISTICS_MAXIMUM"] = number(m.Max)
	items["STATISTICS_MEAN"] = number(m.Mean)
	if s := m.StdDev(); s-s == 0 {
		items["STATISTICS_STDDEV"] = number(s)
	}
}

// histogramItems adds the items that RIOS and ERDAS Imagine use.
func histogramItems(items map[string]string, b *BandResult) {
	if b.Bins.Counts == nil {
		return
	}
	values := make([]string, len(b.Bins.Counts))
	for i, c := range b.Bins.Counts {
		values[i] = strconv.FormatUint(c, 10)
	}
	items["STATISTICS_MEDIAN"] = number(b.Median)
	items["STATISTICS_MODE"] = number(b.Mode)
	items["STATISTICS_HISTOMIN"] = number(b.Bins.Min)
	items["STATISTICS_HISTOMAX"] = number(b.Bins.Max)
	items["STATISTICS_HISTONUMBINS"] = strconv.Itoa(len(values))
	items["STATISTICS_HISTOBINVALUES"] = strings.Join(values, "|") + "|"
	items["STATISTICS_HISTOBINFUNCTION"] = "linear"
	if b.Bins.Direct {
		items["STATISTICS_HISTOBINFUNCTION"] = "direct"
	}
}
