package report

import (
	"math"
	"strconv"
	"strings"

	"leat/internal/gdal"
	"leat/raster"
)

// Histogram counts pixels in equal parts of Lo to Hi.
type Histogram struct {
	Lo, Hi float64
	Counts []float64
}

// maxHistogramBins bounds the bins read from a file.
const maxHistogramBins = 1 << 16

// StoredHistogram returns the histogram in the metadata items of a band that RIOS and leat write;
// nil where there are none or they are malformed.
func StoredHistogram(m map[string]string) *Histogram {
	lo, err1 := strconv.ParseFloat(m["STATISTICS_HISTOMIN"], 64)
	hi, err2 := strconv.ParseFloat(m["STATISTICS_HISTOMAX"], 64)
	text := strings.Trim(m["STATISTICS_HISTOBINVALUES"], "|")
	if err1 != nil || err2 != nil || text == "" || math.IsNaN(lo) || math.IsNaN(hi) || math.IsInf(hi-lo, 0) {
		return nil
	}
	h := &Histogram{Lo: lo, Hi: hi}
	for part := range strings.SplitSeq(text, "|") {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || v < 0 || math.IsInf(v, 0) || len(h.Counts) == maxHistogramBins {
			return nil
		}
		h.Counts = append(h.Counts, v)
	}
	return h
}

// HistogramOf returns the histogram that a raster opened through GDAL holds for a band, counted
// from 1; nil where there is none.
func HistogramOf(src raster.Source, band int) *Histogram {
	g, ok := src.(*gdal.File)
	if !ok {
		return nil
	}
	stored, err := g.Histogram(band)
	if err != nil || stored == nil || len(stored.Counts) > maxHistogramBins {
		return nil
	}
	h := &Histogram{Lo: stored.Lowest, Hi: stored.Highest}
	for _, n := range stored.Counts {
		h.Counts = append(h.Counts, float64(n))
	}
	return h
}
