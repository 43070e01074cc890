package gdal

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"leat/raster"
)

// BuildOverviews adds overviews, one for each factor (2 halves the sides), computed from all pixels
// by one of GDAL's methods: "NEAREST", "AVERAGE", "MODE" and so on. Formats that can't hold them
// get a sidecar .ovr.
func (w *Writer) BuildOverviews(ctx context.Context, method string, factors []int) error {
	if err := checkText(w.path, "method", method); err != nil {
		return err
	}
	list := make([]int32, len(factors))
	for i, f := range factors {
		if f < 2 || f > 1<<30 {
			return fmt.Errorf("%s: overview factor %d, expected 2 or more", w.path, f)
		}
		list[i] = int32(f)
	}
	if len(list) == 0 {
		return nil
	}
	if w.driver.Name == "MRF" { // GDAL crashes
		return fmt.Errorf("%s: GDAL can't add overviews to an MRF that is being written; gdaladdo adds them afterwards (%w)", w.path, raster.ErrUnsupported)
	}
	return w.derive(ctx, "make its overviews", w.try, func(p *progress) bool {
		return c.GDALBuildOverviews(w.h, method, int32(len(list)), &list[0], 0, nil, p.function, p.data) == 0
	})
}

// derive runs f on the finished raster within run, which is try or attempt.
func (w *Writer) derive(ctx context.Context, op string, run func(op string, f func() bool) error,
	f func(p *progress) bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(ctx); err != nil {
		return err
	}
	if w.whole {
		return fmt.Errorf("%s: nothing can be added after Finish", w.path)
	}
	if err := w.seal(ctx); err != nil {
		return err
	}
	p := newProgress(ctx)
	defer p.end()
	err := run(op, func() bool { return f(p) })
	if ctx.Err() != nil {
		w.err, err = ctx.Err(), ctx.Err()
	}
	return err
}

// Statistics holds statistics of the valid pixels of a band.
type Statistics struct{ Lowest, Highest, Mean, Deviation float64 }

// ComputeStatistics computes the statistics of a band, counted from 1, from all its pixels and
// stores them in the file. If no pixel is valid, valid is false and nothing is stored.
func (w *Writer) ComputeStatistics(ctx context.Context, band int) (s Statistics, valid bool, err error) {
	if err := w.checkBand(band); err != nil {
		return s, false, err
	}
	valid = true
	err = w.derive(ctx, "compute its statistics", w.try, func(p *progress) bool {
		b := c.GDALGetRasterBand(w.h, int32(band))
		if c.GDALComputeRasterStatistics(b, 0, &s.Lowest, &s.Highest, &s.Mean, &s.Deviation, p.function, p.data) == 0 {
			return true
		}
		if strings.Contains(c.CPLGetLastErrorMsg(), "no valid pixels") {
			c.CPLErrorReset()
			s, valid = Statistics{}, false
			return true
		}
		return false
	})
	return s, valid && err == nil, err
}

// SetStatistics stores statistics of a band, counted from 1. After an error, which wraps
// raster.ErrUnsupported if the format can't hold them, the writer can still be used.
func (w *Writer) SetStatistics(ctx context.Context, band int, s Statistics) error {
	if err := w.checkBand(band); err != nil {
		return err
	}
	return w.derive(ctx, "store its statistics", w.attempt, func(*progress) bool {
		return c.GDALSetRasterStatistics(c.GDALGetRasterBand(w.h, int32(band)), s.Lowest, s.Highest, s.Mean,
			s.Deviation) == 0
	})
}

// SetHistogram stores the histogram of a band, counted from 1. Errors are those of SetStatistics.
func (w *Writer) SetHistogram(ctx context.Context, band int, h Histogram) error {
	if err := w.checkBand(band); err != nil {
		return err
	}
	if len(h.Counts) == 0 || len(h.Counts) > 1<<30 {
		return fmt.Errorf("%s: the histogram has %d buckets, expected 1 or more", w.path, len(h.Counts))
	}
	return w.derive(ctx, "store its histogram", w.attempt, func(*progress) bool {
		return c.GDALSetDefaultHistogramEx(c.GDALGetRasterBand(w.h, int32(band)), h.Lowest, h.Highest,
			int32(len(h.Counts)), &h.Counts[0]) == 0
	})
}

func (w *Writer) checkBand(band int) error {
	if band < 1 || band > w.spec.Bands {
		return fmt.Errorf("%s: band %d out of range (has %d)", w.path, band, w.spec.Bands)
	}
	return nil
}

// progress lets a context cancel a long call of GDAL, through the progress function that GDAL calls
// from time to time. A process can create few C functions that call Go, and can't free them. So
// there is one function, and a number identifies the call.
type progress struct {
	function, data uintptr
	ctx            context.Context
}

var running struct {
	sync.Mutex
	function uintptr
	last     uintptr
	calls    map[uintptr]*progress
}

func newProgress(ctx context.Context) *progress {
	running.Lock()
	defer running.Unlock()
	if running.calls == nil {
		running.function = newCallback(goOn)
		running.calls = map[uintptr]*progress{}
	}
	running.last++
	p := &progress{running.function, running.last, ctx}
	running.calls[p.data] = p
	return p
}

func (p *progress) end() {
	running.Lock()
	delete(running.calls, p.data)
	running.Unlock()
}

// goOn is a GDALProgressFunc: int (double, const char *, void *).
func goOn(_ float64, _ uintptr, data uintptr) uintptr {
	running.Lock()
	p := running.calls[data]
	running.Unlock()
	if p != nil && p.ctx.Err() != nil {
		return 0
	}
	return 1
}
