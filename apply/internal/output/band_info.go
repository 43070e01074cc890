package output

import (
	"slices"
	"strconv"
	"strings"

	"leat/apply/outcome"
	"leat/internal/stats"
	"leat/ndarray"
	"leat/raster"
)

// bandInfo returns the options of a band, counted from 0.
func (o *Output) bandInfo(i int) raster.Band {
	s := o.Scaling(i)
	b := raster.Band{Type: o.Type, Nodata: o.Nodata, Scale: s.Scale, Offset: s.Offset, Unit: s.Unit,
		Metadata: map[string]string{}}
	if i < len(o.Spec.LayerNames) {
		b.Name = o.Spec.LayerNames[i]
	}
	if i < len(o.Copied) && o.Copied[i] != nil {
		b.Color = o.Copied[i].Color
		if b.Color == raster.ColorPalette { // useless without its table, which few other formats hold
			if b.Color = ""; o.format.holdsColors(o) {
				b.Color, b.Colors = raster.ColorPalette, o.Copied[i].Colors
			}
		}
		b.Categories = o.Copied[i].Categories
	}
	if o.Spec.Colors != nil {
		b.Color, b.Colors = raster.ColorPalette, o.Spec.Colors
	}
	if o.Spec.Categories != nil {
		b.Categories = o.Spec.Categories
	}
	if i < len(o.Spec.ColorInterp) && o.Spec.ColorInterp[i] != "" {
		if b.Color = o.Spec.ColorInterp[i]; b.Color != raster.ColorPalette {
			b.Colors = nil
		}
	}
	if o.Spec.Thematic {
		b.Metadata["LAYER_TYPE"] = "thematic"
	}
	return b
}

// AlphaBand returns the band, counted from 1, that marks valid pixels of the others for readers of
// the output; 0 for none.
func (o *Output) AlphaBand() int {
	if !slices.ContainsFunc(o.Spec.ColorInterp, func(c raster.Color) bool { return c != "" }) {
		return o.Alpha
	}
	if o.Nodata != nil || o.Type != ndarray.Uint8 && o.Type != ndarray.Uint16 {
		return 0 // readers ignore it
	}
	for i := range o.Bands {
		if o.bandInfo(i).Color == raster.ColorAlpha {
			return i + 1
		}
	}
	return 0
}

// translucent reports whether a colour table has colours that TIFF can't store: its readers take
// the nodata value for transparent and all others for opaque. The zero RGBA is an entry that is not
// set.
func translucent(table []raster.RGBA, nodata *ndarray.Scalar) bool {
	for v, c := range table {
		if c.A < 255 && c != (raster.RGBA{}) && (nodata == nil || nodata.Float64() != float64(v)) {
			return true
		}
	}
	return false
}

// HasSidecar reports whether a GeoTIFF of the output's options has an .aux.xml.
func (o *Output) HasSidecar() bool {
	if o.Spec.HistAux || o.WKT != "" || o.Spec.Categories != nil || translucent(o.Spec.Colors, o.Nodata) {
		return true
	}
	return slices.ContainsFunc(o.Copied, func(b *raster.Band) bool {
		return b != nil && (b.Categories != nil || translucent(b.Colors, o.Nodata))
	})
}

// number formats a float with as many digits as it takes to read it back.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// setMoments sets the fields of a result that m has.
func setMoments(b *outcome.BandResult, m *stats.Moments) {
	b.Pixels, b.Valid, b.NaN, b.Infinite = m.Total, m.Valid, m.NaN, m.Infinite
	b.Min, b.Max, b.Mean, b.StdDev, b.ValidPercent = m.Min, m.Max, m.Mean, m.StdDev(), m.ValidPercent()
}

// statisticsItems adds the items that GDAL writes, for the finite pixels. Without finite pixels it
// adds the percentage only; it omits a deviation that overflows float64.
func statisticsItems(items map[string]string, b *outcome.BandResult) {
	items["STATISTICS_VALID_PERCENT"] = strconv.FormatFloat(b.ValidPercent, 'g', 4, 64)
	if b.Valid == 0 {
		return
	}
	items["STATISTICS_MINIMUM"] = number(b.Min)
	items["STATISTICS_MAXIMUM"] = number(b.Max)
	items["STATISTICS_MEAN"] = number(b.Mean)
	if s := b.StdDev; s-s == 0 {
		items["STATISTICS_STDDEV"] = number(s)
	}
}

// histogramItems adds the items that RIOS and ERDAS Imagine use.
func histogramItems(items map[string]string, b *outcome.BandResult) {
	if b.Histogram.Counts == nil {
		return
	}
	values := make([]string, len(b.Histogram.Counts))
	for i, c := range b.Histogram.Counts {
		values[i] = strconv.FormatUint(c, 10)
	}
	items["STATISTICS_MEDIAN"] = number(b.Median)
	items["STATISTICS_MODE"] = number(b.Mode)
	items["STATISTICS_HISTOMIN"] = number(b.Histogram.Min)
	items["STATISTICS_HISTOMAX"] = number(b.Histogram.Max)
	items["STATISTICS_HISTONUMBINS"] = strconv.Itoa(len(values))
	items["STATISTICS_HISTOBINVALUES"] = strings.Join(values, "|") + "|"
	items["STATISTICS_HISTOBINFUNCTION"] = "linear"
	if b.Histogram.Direct {
		items["STATISTICS_HISTOBINFUNCTION"] = "direct"
	}
}
