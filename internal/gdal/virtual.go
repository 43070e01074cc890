package gdal

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"leat/raster"
)

// virtual returns the XML of a VRT on a grid, with bands of given types, whose pixels are those of
// source, opened with options. If source is empty, the VRT has no pixels and serves only to compute
// positions. It has no nodata, mask or alpha.
func virtual(g raster.Grid, bands []raster.Band, source string, options []string) (string, error) {
	var b strings.Builder
	escaped := func(text string) {
		_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	}
	fmt.Fprintf(&b, `<VRTDataset rasterXSize="%d" rasterYSize="%d">`, g.Width, g.Height)
	if !g.CRS.IsZero() {
		wkt, err := referenceText(g.CRS)
		if err != nil {
			return "", err
		}
		b.WriteString("<SRS>") // without an axis mapping, x before y
		escaped(wkt)
		b.WriteString("</SRS>")
	}
	if g.HasTransform {
		var six []string
		for _, v := range g.Transform {
			six = append(six, strconv.FormatFloat(v, 'g', -1, 64))
		}
		fmt.Fprintf(&b, "<GeoTransform>%s</GeoTransform>", strings.Join(six, ","))
	}
	for i, band := range bands {
		fmt.Fprintf(&b, `<VRTRasterBand dataType="%s" band="%d">`, typeNames[gdalType(band.Type)], i+1)
		if source != "" {
			// Not shared, since each handle belongs to one goroutine.
			b.WriteString(`<SimpleSource><SourceFilename relativeToVRT="0" shared="0">`)
			escaped(source)
			b.WriteString("</SourceFilename><OpenOptions>")
			for _, o := range options {
				key, value, _ := strings.Cut(o, "=")
				b.WriteString(`<OOI key="`)
				escaped(key)
				b.WriteString(`">`)
				escaped(value)
				b.WriteString("</OOI>")
			}
			fmt.Fprintf(&b, "</OpenOptions><SourceBand>%d</SourceBand></SimpleSource>", i+1)
		}
		b.WriteString("</VRTRasterBand>")
	}
	b.WriteString("</VRTDataset>")
	return b.String(), nil
}

// typeNames holds GDAL's names of its types.
var typeNames = map[int32]string{gdtByte: "Byte", gdtUInt16: "UInt16", gdtInt16: "Int16", gdtUInt32: "UInt32",
	gdtInt32: "Int32", gdtFloat32: "Float32", gdtFloat64: "Float64",
	gdtCFloat32: "CFloat32", gdtCFloat64: "CFloat64", gdtUInt64: "UInt64", gdtInt64: "Int64", gdtInt8: "Int8"}

// openVirtual opens a VRT in place of a raster. info remains the raster's; plain is its file, if it
// has one.
func openVirtual(text string, info *raster.Info, plain os.FileInfo, limit int) (*File, error) {
	f := &File{name: text, drivers: []string{"VRT"}}
	f.info.Path = info.Path
	if err := f.start(limit); err != nil {
		return nil, err
	}
	f.info, f.plain, f.masks, f.levels = *info, plain, nil, nil
	return f, nil
}

// withoutMask reopens the file without its mask and its alpha, which GDAL would apply, and closes
// f.
func (f *File) withoutMask() (*File, error) {
	text, err := virtual(f.info.Grid, f.info.Bands, f.name, f.options)
	if err != nil {
		return nil, err
	}
	info := f.info
	info.Mask, info.MaskTile = raster.MaskNone, raster.Size{}
	b, err := openVirtual(text, &info, f.plain, f.limit)
	if err != nil {
		return nil, err
	}
	b.levels = f.levels
	b.files, err = f.FileNames()
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// PlanWarp returns what [Warp] would for the raster that info describes, which need not exist: only
// Info, Offset and Scales may be called.
func PlanWarp(info *raster.Info, o *WarpOptions) (*Warped, error) {
	if err := o.validate(info.Path); err != nil {
		return nil, err
	}
	text, err := virtual(info.Grid, info.Bands, "", nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", info.Path, err)
	}
	src, err := openVirtual(text, info, nil, 1)
	if err != nil {
		return nil, err
	}
	if info.Mask == raster.MaskDataset {
		src.masks = []int32{1}
	}
	if o.NoMask {
		src.info.Mask, src.info.MaskTile = raster.MaskNone, raster.Size{}
	}
	return newWarped(src, o)
}

// ParseCRS parses AUTHORITY:NUMBER, such as EPSG:32631, or WKT. The result has geo keys if GeoTIFF
// can express it.
func ParseCRS(text string) (raster.CRS, error) {
	if err := load(); err != nil {
		return raster.CRS{}, err
	}
	if err := checkText(text, "coordinate reference system", text); err != nil {
		return raster.CRS{}, err
	}
	named := raster.CRS{WKT: text}
	if codePattern.MatchString(text) {
		named = raster.CRS{Code: strings.ToUpper(text)}
	}
	var r raster.CRS
	var err error
	onThread(func() {
		c.CPLErrorReset()
		var s hSRS
		if s, err = srsOf(named); err == nil && s != 0 {
			r = crsOf(s)
			c.OSRDestroySpatialReference(s)
		}
	})
	if err == nil && r.IsZero() {
		err = fmt.Errorf("%q is not a coordinate reference system: expected one such as EPSG:32631, or WKT", text)
	}
	return r, err
}
