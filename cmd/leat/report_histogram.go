package main

import (
	"math"
	"strconv"
	"strings"

	"leat/raster"
	"leat/raster/gdal"
)

// histogram counts pixels in equal parts of Lo to Hi.
type histogram struct {
	Lo, Hi float64
	Counts []float64
}

// maxHistogramBins bounds what is believed of a file.
const maxHistogramBins = 1 << 16

// storedHistogram reads the histogram items that RIOS and leat write; nil when there are none or they
// make no sense.
func storedHistogram(m map[string]string) *histogram {
	lo, err1 := strconv.ParseFloat(m["STATISTICS_HISTOMIN"], 64)
	hi, err2 := strconv.ParseFloat(m["STATISTICS_HISTOMAX"], 64)
	text := strings.Trim(m["STATISTICS_HISTOBINVALUES"], "|")
	if err1 != nil || err2 != nil || text == "" || math.IsNaN(lo) || math.IsNaN(hi) || math.IsInf(hi-lo, 0) {
		return nil
	}
	h := &histogram{Lo: lo, Hi: hi}
	for part := range strings.SplitSeq(text, "|") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || v < 0 || math.IsInf(v, 0) || len(h.Counts) == maxHistogramBins {
			return nil
		}
		h.Counts = append(h.Counts, v)
	}
	return h
}

// histogramOf is the histogram that a raster of GDAL's holds for a band, counted from 1; nil where there is none.
func histogramOf(src raster.Source, band int) *histogram {
	g, ok := src.(*gdal.File)
	if !ok {
		return nil
	}
	stored, err := g.Histogram(band)
	if err != nil || stored == nil || len(stored.Counts) > maxHistogramBins {
		return nil
	}
	h := &histogram{Lo: stored.Lowest, Hi: stored.Highest}
	for _, n := range stored.Counts {
		h.Counts = append(h.Counts, float64(n))
	}
	return h
}
