package geotiff

import (
	"fmt"
	"math"
	"strings"

	"leat/internal/georef"
	"leat/internal/tiff"
	"leat/ndarray"
	"leat/raster"
)

// describe returns the Info of the main image.
func describe(d *directory, im *image) (*raster.Info, error) {
	info := &raster.Info{Path: d.name, Driver: "GTiff", FileBytes: d.size}
	layoutInfo(info, im)
	var err error
	if info.Grid, err = georeference(d, im.width, im.height); err != nil {
		return nil, err
	}
	hasKeys := info.Grid.CRS.Keys != nil || info.Grid.GCPs != nil && info.Grid.GCPs.CRS.Keys != nil
	if err := addControl(info, im, d); err != nil {
		return nil, err
	}
	info.Bands = make([]raster.Band, im.spp)
	for i := range info.Bands {
		info.Bands[i] = raster.Band{Type: im.pixel, Stored: im.stored, Scale: 1, Color: im.color(i)}
	}
	nodata, err := d.text(tiff.TagGDALNodata)
	if err != nil {
		return nil, err
	}
	if nodata = strings.TrimSpace(nodata); nodata != "" {
		for i := range info.Bands {
			setNodata(&info.Bands[i], nodata)
		}
	}
	info.Bands[0].Colors = im.colors(info.Bands[0].Nodata)
	if info.Bands[0].Colors != nil {
		info.Bands[0].Color = raster.ColorPalette
	}
	if err := applyTextTags(info, d); err != nil {
		return nil, err
	}
	if hasKeys {
		setItem(info, "", "AREA_OR_POINT", map[bool]string{false: "Area", true: "Point"}[info.Grid.PixelIsPoint])
	}
	items, err := gdalItems(d)
	if err != nil {
		return nil, err
	}
	applyItems(info, items)
	if im.bits == 1 { // 1-bit images are black and white, whatever the items say
		table := im.colors(nil)
		for i := range info.Bands {
			info.Bands[i].Colors, info.Bands[i].Color = table, raster.ColorPalette
		}
	}
	return info, nil
}

// addControl adds the coefficients, and drops points that are not finite.
func addControl(info *raster.Info, im *image, d *directory) error {
	if p := info.Grid.GCPs; p != nil && !georef.FiniteGCPs(p) {
		info.Grid.GCPs = nil
		im.warnings = append(im.warnings, "its ground control points (GCPs) are not read: they are not finite")
	}
	rpc, bad, err := coefficients(d)
	if err != nil {
		return err
	}
	if bad != nil {
		im.warnings = append(im.warnings,
			fmt.Sprintf("its rational polynomial coefficients (RPCs) are not read: %v", bad))
	}
	if info.Grid.RPC = rpc; rpc != nil {
		for k, v := range georef.RPCItems(rpc) {
			setItem(info, domainRPC, k, v)
		}
	}
	return nil
}

// domainRPC is GDAL's metadata domain of RPCs.
const domainRPC = "RPC"

// layoutInfo sets the fields of info that describe how the pixels are stored.
func layoutInfo(info *raster.Info, im *image) {
	info.TileWidth, info.TileHeight = im.tileW, im.tileH
	info.Interleave = "pixel"
	if im.planar || im.spp == 1 {
		info.Interleave = "band"
	}
	info.Compression, info.Predictor = tiff.CompressionName(im.compression), im.predictor
	info.ByteOrder = "little"
	if isBig(im.order) {
		info.ByteOrder = "big"
	}
	info.BigTIFF = im.big
}

// setNodata sets the nodata value of a band to that of a text, if the band's type can hold it.
func setNodata(b *raster.Band, text string) {
	b.Nodata, b.NodataText = nil, text
	if s, err := ndarray.ParseScalar(text, b.Type); err == nil {
		b.Nodata = &s
		return
	}
	if v, ok := parseNumber(text); ok {
		if s, err := ndarray.ScalarFromFloat(v, b.Type); err == nil {
			b.Nodata = &s
		}
	}
}

// color returns the meaning of band i (from 0), according to the photometric interpretation and the
// extra samples.
func (im *image) color(i int) raster.Color {
	switch {
	case im.photometric == tiff.PhotometricRGB && i < 3 && im.spp >= 3,
		im.photometric == tiff.PhotometricYCbCr && i < 3 && im.spp >= 3:
		return [...]raster.Color{raster.ColorRed, raster.ColorGreen, raster.ColorBlue}[i]
	case i == 0 && (im.photometric == tiff.PhotometricMinIsBlack || im.photometric == tiff.PhotometricMinIsWhite):
		return raster.ColorGray
	}
	if n := i - (im.spp - len(im.extra)); n >= 0 && n < len(im.extra) {
		if im.extra[n] == tiff.ExtraAssociated || im.extra[n] == tiff.ExtraUnassociated {
			return raster.ColorAlpha
		}
	}
	return raster.ColorUndefined
}

// colors returns the colour table: the file's own, or that implied by inverted or 1-bit images. It
// does not change pixels. As in GDAL, the entry of the nodata value is transparent.
func (im *image) colors(nodata *ndarray.Scalar) []raster.RGBA {
	if im.bits > 16 || im.format != tiff.FormatUint && im.format != tiff.FormatVoid {
		return nil
	}
	n := 1 << im.bits
	switch {
	case im.photometric == tiff.PhotometricPalette && len(im.colorMap) >= 3*n:
		table := make([]raster.RGBA, n)
		top := uint64(0)
		for _, v := range im.colorMap[:3*n] {
			top = max(top, v)
		}
		div := uint64(257) // 16-bit values; some programs write 8-bit ones
		if top < 256 {
			div = 1
		}
		at := func(i int) uint8 { return uint8(min(im.colorMap[i]/div, math.MaxUint8)) }
		for i := range table {
			table[i] = raster.RGBA{R: at(i), G: at(n + i), B: at(2*n + i), A: 255}
		}
		if nodata != nil {
			if v := nodata.Float64(); v >= 0 && v < float64(n) {
				table[int(v)].A = 0
			}
		}
		return table
	case im.photometric == tiff.PhotometricMinIsWhite && (im.spp == 1 || im.bits == 1):
		table := make([]raster.RGBA, n)
		for i := range table {
			v := uint8(255 * (n - 1 - i) / (n - 1))
			table[i] = raster.RGBA{R: v, G: v, B: v, A: 255}
		}
		return table
	case im.bits == 1:
		return []raster.RGBA{{A: 255}, {R: 255, G: 255, B: 255, A: 255}}
	}
	return nil
}

// alphaMasks reports whether an alpha band marks invalid pixels of the other bands. As in GDAL, an
// alpha band of a type other than uint8 and uint16 does not.
func alphaMasks(i *raster.Info) bool {
	n := i.AlphaBand()
	return n > 0 && (i.Bands[n-1].Type == ndarray.Uint8 || i.Bands[n-1].Type == ndarray.Uint16)
}
