package main

import (
	"context"

	"leat/internal/driver"
	"leat/internal/stats"
	"leat/ndarray"
	"leat/raster"
)

// computeStats reads every pixel once; nil for bands of complex pixels or without a valid one.
func computeStats(ctx context.Context, src raster.Source) ([]*statsDoc, error) {
	info := src.Info()
	all := make([]*statsDoc, len(info.Bands))
	for i, b := range info.Bands {
		m, err := bandMoments(ctx, src, i+1)
		if err != nil {
			return nil, err
		}
		if m.Valid == 0 || b.Type.IsComplex() {
			continue
		}
		all[i] = &statsDoc{Min: newJSONFloat(m.Min), Max: newJSONFloat(m.Max), Mean: newJSONFloat(m.Mean),
			StdDev: newJSONFloat(m.StdDev()), ValidPercent: newJSONFloat(m.ValidPercent()), Computed: true}
	}
	return all, nil
}

// bandMoments summarizes one band in windows of bounded size.
func bandMoments(ctx context.Context, src raster.Source, band int) (stats.Moments, error) {
	var total stats.Moments
	info := src.Info()
	b := info.Bands[band-1]
	nodata, mask := info.Validity(band)
	masker, masked := src.(raster.Masker)
	masked = masked && mask == raster.MaskDataset
	alpha, byAlpha := info.AlphaBand(), mask == raster.MaskAlpha
	c := stats.NewCollector(b.Type, nodata, false)
	pixel := b.Type.Size() + 1
	if byAlpha {
		pixel += info.Bands[alpha-1].Type.Size()
	}
	ww, wh := driver.ScanWindow(info, scanBytes/pixel)
	pixels := ndarray.New(b.Type, 1, wh, ww)
	var alphas *ndarray.Array
	if byAlpha {
		alphas = ndarray.New(info.Bands[alpha-1].Type, 1, wh, ww)
	}
	valid := make([]byte, ww*wh)
	for row := 0; row < info.Grid.Height; row += wh {
		for col := 0; col < info.Grid.Width; col += ww {
			win := raster.Window{Col: col, Row: row, Width: min(ww, info.Grid.Width-col),
				Height: min(wh, info.Grid.Height-row)}
			n := win.Width * win.Height
			if err := src.Read(ctx, []int{band}, win,
				ndarray.FromBytes(b.Type, pixels.Data, 1, win.Height, win.Width)); err != nil {
				return total, err
			}
			data, count := pixels.Data, n
			switch {
			case masked:
				if err := masker.ReadMask(ctx, win, valid[:n]); err != nil {
					return total, err
				}
				count = compact(data, b.Type.Size(), valid[:n])
			case byAlpha:
				if err := src.Read(ctx, []int{alpha}, win,
					ndarray.FromBytes(alphas.Type, alphas.Data, 1, win.Height, win.Width)); err != nil {
					return total, err
				}
				driver.AlphaMask(alphas.Data, alphas.Type.Size(), valid[:n])
				count = compact(data, b.Type.Size(), valid[:n])
			}
			m := c.Tile(data[:count*b.Type.Size()], nil, count, 1, count, 1)
			m.Total = int64(n)
			total.Merge(m)
		}
	}
	return total, nil
}

// scanBytes bounds the pixels that are read at once.
const scanBytes = 32 << 20

// compact moves the elements whose mask is not 0 to the front and returns their number.
func compact(data []byte, size int, mask []byte) int {
	n := 0
	for i, v := range mask {
		if v != 0 {
			copy(data[n*size:(n+1)*size], data[i*size:(i+1)*size])
			n++
		}
	}
	return n
}
