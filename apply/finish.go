package apply

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"leat/internal/fault"
	"leat/internal/publish"
	"leat/raster"
	"leat/raster/geotiff"
	"leat/raster/stats"
)

// finish lays the outputs out, first all of them, and then gives them their names.
func (r *run) finish(ctx context.Context, start time.Time) (*Result, error) {
	if err := r.in.unchanged(); err != nil {
		return nil, err
	}
	res := &Result{Plan: r.plan, Blocks: r.done, Resumed: r.resumed, Pixels: r.pixels}
	files := make([]*publish.File, len(r.outs))
	defer func() {
		for _, f := range files {
			if f != nil {
				f.Abort() // nothing to do after Commit
			}
		}
		for _, o := range r.outs {
			o.discardForeign()
		}
	}()
	r.at("laying out")
	stop := func() {}
	if slices.ContainsFunc(r.outs, func(o *output) bool { return o.spec.foreign() }) {
		r.freeBlocks()
		stop = r.tell("laying out")
	}
	for i, o := range r.outs {
		layOut := o.layOut
		if o.spec.foreign() {
			layOut = o.layOutForeign
		}
		or, f, err := layOut(ctx)
		files[i] = f
		if err != nil {
			stop()
			return nil, err
		}
		if r.exprs != nil {
			r.exprs.programs[i].report(or)
		}
		res.Outputs = append(res.Outputs, *or)
	}
	stop()
	fault.Point("apply.laid-out")
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if r.claims != nil && r.claims.Err() != nil {
		return nil, fmt.Errorf("another run may be writing the same files: %w", r.claims.Err())
	}
	// What may fail comes first, while the old files are as they were.
	for i, o := range r.outs {
		if !o.spec.inStore() {
			continue
		}
		if err := o.upload(ctx, files[i], &res.Outputs[i]); err != nil {
			return nil, r.keep(files, res.Outputs, err)
		}
	}
	for i, o := range r.outs {
		if o.spec.inStore() {
			continue
		}
		publish := o.publish
		if o.spec.foreign() {
			publish = o.publishForeign
		}
		if err := publish(files[i], &res.Outputs[i]); err != nil {
			return nil, r.keep(files, res.Outputs, err)
		}
	}
	if c := r.watched.outside.Load(); c != nil {
		status := c.Status()
		res.Outside = &status
	}
	res.Timings = r.timings.Summary()
	res.Wall = time.Since(start)
	return res, nil
}

// layOut completes the tiles and writes the finished file, without its name yet.
func (o *output) layOut(ctx context.Context) (*OutputResult, *publish.File, error) {
	defer o.run.timings.Start("laying out", "main", -1).Stop()
	coding, err := o.trial.finish()
	if err != nil {
		return nil, nil, fmt.Errorf("output %s: %w", o.name, err)
	}
	e := newEncoding(o, "main")
	if err := e.derive(); err != nil {
		return nil, nil, err
	}
	if err := o.encodeAgain(ctx, coding); err != nil {
		return nil, nil, err
	}
	o.file.Coding = coding
	res := &OutputResult{Name: o.name, Path: o.spec.label(), Type: o.typ, Nodata: o.nodata, Coding: coding, Overviews: o.file.Levels, Format: nativeFormat}
	if err := o.describeBands(res); err != nil {
		return nil, nil, err
	}
	f, err := publish.Create(o.spec.localPath(), 0o666)
	if err != nil {
		return nil, nil, err
	}
	n, err := geotiff.Write(ctx, f.File, &o.file, o.spool.f, func(level int, _ bool, index int) geotiff.TileRef {
		return o.levels[level].tiles[index].ref
	})
	if err != nil {
		return nil, f, err
	}
	res.Bytes = n
	for _, l := range o.levels {
		res.Tiles += len(l.tiles)
	}
	return res, f, nil
}

// encodeAgain replaces the tiles that were encoded with the default before the trial chose something else.
func (o *output) encodeAgain(ctx context.Context, coding geotiff.Coding) error {
	before := o.trial.fallback()
	if before == coding {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(min(o.run.plan.Workers, runtime.GOMAXPROCS(0))) // of this process, wherever the workers are
	pool := sync.Pool{New: func() any { return newEncoding(o, "main") }}
	for lev, l := range o.levels {
		for i := range l.tiles {
			if l.tiles[i].final {
				continue
			}
			g.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				e := pool.Get().(*encoding)
				defer pool.Put(e)
				return e.tileAgain(lev, i, before, coding)
			})
		}
	}
	return g.Wait()
}

func (e *encoding) tileAgain(lev, i int, before, coding geotiff.Coding) error {
	o := e.o
	t := &o.levels[lev].tiles[i]
	stored := make([]byte, t.ref.Bytes)
	if _, err := o.spool.f.ReadAt(stored, t.ref.Offset); err != nil {
		return fmt.Errorf("%s: reading a tile back: %w", o.spool.path, err)
	}
	if err := geotiff.DecodeTile(o.file.Shape(), before, stored, e.pixels); err != nil {
		return fmt.Errorf("%s: %w", o.spool.path, err)
	}
	data, err := e.encoder(coding).Encode(e.rec.data[:0], e.pixels)
	if err != nil {
		return err
	}
	e.rec.data = data
	e.rec.meta = appendTileEntry(e.rec.meta[:0], i, len(data), true)
	at, err := o.spool.append(recordTile, tileNumber(lev, i), e.rec.meta, data)
	if err != nil {
		return spoolError(o.spec.label(), o.spool.path, err)
	}
	*t = tile{geotiff.TileRef{Offset: at, Bytes: int64(len(data))}, true}
	return nil
}

// describeBands fills in what the file says of its bands: names, colours, statistics, and whatever the caller's hook adds.
func (o *output) describeBands(res *OutputResult) error {
	info := &raster.Info{Path: o.spec.label(), Driver: o.spec.formatName(), Grid: o.file.Grid, Metadata: maps.Clone(o.spec.Metadata)}
	if info.Metadata == nil {
		info.Metadata = map[string]string{}
	}
	for i := range o.bands {
		b := o.bandInfo(i)
		br := BandResult{Name: b.Name}
		if !o.spec.NoStatistics && !o.typ.IsComplex() {
			for _, m := range o.moments[i] {
				br.Moments.Merge(m)
			}
			statisticsItems(b.Metadata, &br.Moments)
			if !o.spec.NoHistogram && br.Moments.Valid > 0 {
				br.Bins = o.totals[i].Bins(br.Moments)
				if o.spec.foreign() {
					br.Bins = o.fromZero(br.Bins)
				}
				br.Median, br.Mode = o.totals[i].Quantile(0.5, br.Moments), o.totals[i].Mode(br.Moments)
				histogramItems(b.Metadata, &br)
			}
		}
		info.Bands = append(info.Bands, b)
		res.Bands = append(res.Bands, br)
	}
	if o.spec.BeforeClose != nil {
		if err := o.spec.BeforeClose(info); err != nil {
			return fmt.Errorf("output %s: before closing: %w", o.name, err)
		}
		if len(info.Bands) != o.bands {
			return fmt.Errorf("output %s: the hook before closing changed the number of bands", o.name)
		}
	}
	o.file.BandInfo, o.file.Metadata, o.file.Domains = info.Bands, info.Metadata, info.Domains
	return nil
}

// bandInfo is what the options say of a band, counted from 0.
func (o *output) bandInfo(i int) raster.Band {
	b := raster.Band{Type: o.typ, Nodata: o.nodata, Scale: 1, Unit: o.spec.Unit, Metadata: map[string]string{}}
	if i < len(o.spec.LayerNames) {
		b.Name = o.spec.LayerNames[i]
	}
	if o.spec.Scale != 0 {
		b.Scale = o.spec.Scale
	}
	b.Offset = o.spec.Offset
	if o.spec.Colors != nil {
		b.Color, b.Colors = raster.ColorPalette, o.spec.Colors
	}
	if o.spec.Thematic {
		b.Metadata["LAYER_TYPE"] = "thematic"
	}
	return b
}

// number writes a float with as many digits as it takes to read it back.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// statisticsItems are those that GDAL writes. Without a valid pixel there are none but the percentage.
func statisticsItems(items map[string]string, m *stats.Moments) {
	items["STATISTICS_VALID_PERCENT"] = strconv.FormatFloat(m.ValidPercent(), 'g', 4, 64)
	if m.Valid == 0 {
		return
	}
	items["STATISTICS_MINIMUM"] = number(m.Min)
	items["STATISTICS_MAXIMUM"] = number(m.Max)
	items["STATISTICS_MEAN"] = number(m.Mean)
	items["STATISTICS_STDDEV"] = number(m.StdDev())
}

// histogramItems are those that RIOS and ERDAS Imagine use.
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

// publish removes what belonged to the old file and gives the new one its name.
func (o *output) publish(f *publish.File, res *OutputResult) error {
	path := absolute(o.spec.Path)
	if _, err := os.Stat(path); err == nil && o.spec.NoClobber {
		return o.clobbers()
	}
	// Stale side files would be read as this file's statistics, overviews and mask, under either name of a link.
	for _, name := range []string{path, realPath(path)} {
		for _, ext := range sideSuffixes {
			if err := os.Remove(name + ext); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("output %s: %s belongs to the old file and can't be removed: %w", o.name, name+ext, err)
			}
		}
	}
	if o.spec.HistAux {
		if err := writeAux(path+".aux.xml", res); err != nil {
			return fmt.Errorf("output %s: %w", o.name, err)
		}
	}
	if !o.spec.NoClobber {
		return f.Commit()
	}
	err := f.CommitNew()
	if errors.Is(err, os.ErrExist) {
		return o.clobbers()
	}
	return err
}

// clobbers is the error of a file that came while the run went on.
func (o *output) clobbers() error {
	return fmt.Errorf("output %s: %s exists by now and is not to be replaced (--no-clobber)", o.name, o.spec.Path)
}

// The parts of GDAL's .aux.xml that hold histograms.
type pamDataset struct {
	XMLName xml.Name  `xml:"PAMDataset"`
	Bands   []pamBand `xml:"PAMRasterBand"`
}

type pamBand struct {
	Band int     `xml:"band,attr"`
	Item pamItem `xml:"Histograms>HistItem"`
}

type pamItem struct {
	Min          string `xml:"HistMin"`
	Max          string `xml:"HistMax"`
	Buckets      int    `xml:"BucketCount"`
	OutOfRange   int    `xml:"IncludeOutOfRange"`
	Approximate  int    `xml:"Approximate"`
	HistogramTxt string `xml:"HistCounts"`
}

// auxText is an .aux.xml with the histograms; "" where there are none.
func auxText(res *OutputResult) (string, error) {
	var d pamDataset
	for i, b := range res.Bands {
		if b.Bins.Counts == nil {
			continue
		}
		counts := make([]string, len(b.Bins.Counts))
		for k, c := range b.Bins.Counts {
			counts[k] = strconv.FormatUint(c, 10)
		}
		item := pamItem{Min: number(b.Bins.Min), Max: number(b.Bins.Max), Buckets: len(counts), HistogramTxt: strings.Join(counts, "|")}
		if b.Bins.Direct { // a bin reaches half a value to each side
			item.Min, item.Max = number(b.Bins.Min-0.5), number(b.Bins.Max+0.5)
		}
		d.Bands = append(d.Bands, pamBand{i + 1, item})
	}
	if len(d.Bands) == 0 {
		return "", nil
	}
	text, err := xml.MarshalIndent(d, "", "  ")
	return string(text) + "\n", err
}

func writeAux(path string, res *OutputResult) error {
	text, err := auxText(res)
	if err != nil || text == "" {
		return err
	}
	f, err := publish.Create(path, 0o666)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := io.WriteString(f, text); err != nil {
		return err
	}
	return f.Commit()
}

func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// report adds what an expression counted, and the sentences that people should read.
func (p *program) report(res *OutputResult) {
	res.Counts = p.counts
	c := &p.counts
	if c.Saturated > 0 {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%s beyond the range of %v and became its nearest value", many(c.Saturated, "pixel was", "pixels were"), res.Type))
	}
	if c.NodataCollision > 0 {
		another := "another value (--nodata)"
		if res.Type.IsFloat() {
			another = "--nodata nan"
		}
		res.Warnings = append(res.Warnings, fmt.Sprintf("%s computed as the nodata value %v, the first at column %d, row %d: readers will take that for nodata; choose %s",
			many(c.NodataCollision, "valid pixel was", "valid pixels were"), res.Nodata, p.first.Col, p.first.Row, another))
	}
	if c.Inf > 0 {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%s infinite", many(c.Inf, "pixel is", "pixels are")))
	}
}
