package gdal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"leat/ndarray"
	"leat/raster"
)

// describe fills in info from an open handle.
func (f *File) describe(h hDataset) (err error) {
	onThread(func() { err = f.describeHere(h) })
	return err
}

func (f *File) describeHere(h hDataset) error {
	i := &f.info
	i.Driver = c.GDALGetDescription(hObject(c.GDALGetDatasetDriver(h)))
	bands := c.GDALGetRasterCount(h)
	if bands == 0 {
		return f.noBands(h)
	}
	i.Grid = raster.Grid{Width: int(c.GDALGetRasterXSize(h)), Height: int(c.GDALGetRasterYSize(h)),
		Transform: raster.Identity}
	var six raster.Transform
	if c.GDALGetGeoTransform(h, &six[0]) == 0 {
		i.Grid.Transform, i.Grid.HasTransform = six, true
	}
	i.Grid.CRS = crsOf(c.GDALGetSpatialRef(h))
	f.metadata(h)
	f.control(h)
	i.Grid.PixelIsPoint = strings.EqualFold(i.Metadata["AREA_OR_POINT"], "Point")
	f.structure(h)
	for n := range bands {
		b := c.GDALGetRasterBand(h, n+1)
		band, err := describeBand(b)
		if err != nil {
			return fmt.Errorf("%s: band %d: %w", i.Path, n+1, err)
		}
		i.Bands = append(i.Bands, band)
	}
	f.mask(h)
	f.overviews(h)
	f.sub = subdatasets(h)
	i.FileBytes = f.size(h)
	return nil
}

// noBands returns an error for a dataset without pixels of its own.
func (f *File) noBands(h hDataset) error {
	list := subdatasets(h)
	if list == nil {
		return fmt.Errorf("%s: it has no raster (GDAL reads it as %s); if it has vectors, burn them onto a grid first (%w)", f.info.Path, f.info.Driver, raster.ErrFormat)
	}
	return &SubdatasetsError{Path: f.info.Path, Driver: f.info.Driver, Subdatasets: list,
		Metadata: items(goStrings(c.GDALGetMetadata(hObject(h), "")))}
}

// metadata copies the items of all domains except those that describe storage or hold documents.
func (f *File) metadata(h hDataset) {
	f.info.Metadata = items(goStrings(c.GDALGetMetadata(hObject(h), "")))
	domains := c.GDALGetMetadataDomainList(hObject(h))
	for _, d := range goStrings(domains) {
		switch {
		case d == "", d == "IMAGE_STRUCTURE", d == "SUBDATASETS", d == "DERIVED_SUBDATASETS",
			strings.HasPrefix(d, "xml:"), strings.HasPrefix(d, "json:"):
			continue
		}
		if m := items(goStrings(c.GDALGetMetadata(hObject(h), d))); m != nil {
			if f.info.Domains == nil {
				f.info.Domains = map[string]map[string]string{}
			}
			f.info.Domains[d] = m
		}
	}
	c.CSLDestroy(domains)
}

// structure describes how the pixels are stored, as far as the driver reports it.
func (f *File) structure(h hDataset) {
	i := &f.info
	s := items(goStrings(c.GDALGetMetadata(hObject(h), "IMAGE_STRUCTURE")))
	var w, t int32
	b := c.GDALGetRasterBand(h, 1)
	c.GDALGetBlockSize(b, &w, &t)
	i.TileWidth, i.TileHeight = max(1, int(w)), max(1, int(t))
	i.Interleave = "band"
	if s["INTERLEAVE"] == "PIXEL" {
		i.Interleave = "pixel"
	}
	i.Compression = "unknown" // the item is missing: PNG is always compressed
	if v := s["COMPRESSION"]; v != "" {
		i.Compression = strings.ToLower(v)
	} else if v := c.GDALGetMetadataItem(hObject(b), "COMPRESSION", "IMAGE_STRUCTURE"); v != "" {
		i.Compression = strings.ToLower(v)
	}
	i.Predictor = 1
	if n, err := strconv.Atoi(s["PREDICTOR"]); err == nil {
		i.Predictor = n
	}
	i.ByteOrder = "little"
	if s["ENDIANNESS"] == "BIG" {
		i.ByteOrder = "big"
	}
}

func describeBand(b hBand) (raster.Band, error) {
	typ := c.GDALGetRasterDataType(b)
	p, ok := pixelTypes[typ]
	if !ok {
		return raster.Band{}, fmt.Errorf("GDAL's pixel type %d is not supported (%w)", typ,
			raster.ErrUnsupported)
	}
	band := raster.Band{Type: p.read, Stored: p.stored, Scale: 1}
	bits, _ := strconv.Atoi(c.GDALGetMetadataItem(hObject(b), "NBITS", "IMAGE_STRUCTURE"))
	switch {
	case typ == gdtByte && c.GDALGetMetadataItem(hObject(b), "PIXELTYPE", "IMAGE_STRUCTURE") == "SIGNEDBYTE":
		band.Type = ndarray.Int8
	case bits > 0 && bits < 8*p.read.Size() && p.read.IsInteger() && !p.read.IsSigned():
		band.Stored = fmt.Sprintf("uint%d", bits)
	case bits == 16 && typ == gdtFloat32:
		band.Stored = "float16"
	}
	band.Nodata, band.NodataText = nodataOf(b, typ, band.Type)
	band.Name = c.GDALGetDescription(hObject(b))
	band.Color = colorOf(c.GDALGetRasterColorInterpretation(b))
	band.Colors = colorTable(b)
	band.Categories = goStrings(c.GDALGetRasterCategoryNames(b))
	var has int32
	if v := c.GDALGetRasterScale(b, &has); has != 0 && v != 0 {
		band.Scale = v
	}
	if v := c.GDALGetRasterOffset(b, &has); has != 0 {
		band.Offset = v
	}
	band.Unit = c.GDALGetRasterUnitType(b)
	band.Metadata = items(goStrings(c.GDALGetMetadata(hObject(b), "")))
	return band, nil
}

// nodataOf returns a band's nodata value, nil if no pixel of its type can have it, and its text.
func nodataOf(b hBand, typ int32, as ndarray.DType) (*ndarray.Scalar, string) {
	var has int32
	var s, given ndarray.Scalar
	var err error
	switch typ {
	case gdtInt64:
		s = ndarray.ScalarOf(c.GDALGetRasterNoDataValueAsInt64(b, &has))
	case gdtUInt64:
		s = ndarray.ScalarOf(c.GDALGetRasterNoDataValueAsUInt64(b, &has))
	default:
		given = ndarray.ScalarOf(c.GDALGetRasterNoDataValue(b, &has))
		s, err = ndarray.ScalarFromFloat(given.Float64(), as)
	}
	switch {
	case has == 0:
		return nil, ""
	case err != nil:
		return nil, given.String()
	}
	return &s, s.String()
}

func colorTable(b hBand) []raster.RGBA {
	t := c.GDALGetRasterColorTable(b)
	if t == 0 {
		return nil
	}
	table := make([]raster.RGBA, c.GDALGetColorEntryCount(t))
	byteOf := func(v int16) uint8 { return uint8(min(max(v, 0), 255)) }
	for i := range table {
		var e colorEntry
		if c.GDALGetColorEntryAsRGB(t, int32(i), &e) == 0 {
			return nil // not a colour table
		}
		table[i] = raster.RGBA{R: byteOf(e.c1), G: byteOf(e.c2), B: byteOf(e.c3), A: byteOf(e.c4)}
	}
	return table
}

// GDAL's mask flags. A band without any has its own mask.
const (
	maskAllValid   = 1
	maskPerDataset = 2
	maskAlpha      = 4
	maskNodata     = 8
)

// mask finds what determines the valid pixels besides the bands' nodata. raster.Source has one mask
// for all bands. If bands have masks of their own, a pixel is valid where it is valid in all of
// these masks and does not equal the nodata of any other band.
func (f *File) mask(h hDataset) {
	i := &f.info
	var nodata []int32
	for n := range i.Bands {
		flags := c.GDALGetMaskFlags(c.GDALGetRasterBand(h, int32(n+1)))
		switch {
		case flags&maskAllValid != 0:
		case flags == maskNodata:
			nodata = append(nodata, int32(n+1))
		case flags&maskAlpha != 0 && i.AlphaBand() != 0:
			i.Mask = raster.MaskAlpha
			return
		case flags&maskPerDataset != 0:
			f.masks, nodata = []int32{int32(n + 1)}, nil
			i.MaskFromNodata = flags&maskNodata != 0
		default:
			f.masks = append(f.masks, int32(n+1))
		}
		if flags&maskPerDataset != 0 {
			break
		}
	}
	if f.masks == nil {
		return
	}
	f.masks = append(f.masks, nodata...)
	var w, t int32
	c.GDALGetBlockSize(c.GDALGetMaskBand(c.GDALGetRasterBand(h, f.masks[0])), &w, &t)
	i.Mask, i.MaskTile = raster.MaskDataset, raster.Size{Width: int(w), Height: int(t)}
}

// overviews lists the sizes of overviews that all bands have.
func (f *File) overviews(h hDataset) {
	type overview struct {
		raster.Size
		level int
	}
	var list []overview
	first := c.GDALGetRasterBand(h, 1)
	for level := range int(c.GDALGetOverviewCount(first)) {
		if o := c.GDALGetOverview(first, int32(level)); o != 0 {
			list = append(list, overview{raster.Size{Width: int(c.GDALGetRasterBandXSize(o)),
				Height: int(c.GDALGetRasterBandYSize(o))}, level})
		}
	}
	for n := range f.info.Bands {
		if b := c.GDALGetRasterBand(h, int32(n+1)); c.GDALGetOverviewCount(b) != c.GDALGetOverviewCount(first) {
			return
		}
	}
	slices.SortStableFunc(list, func(a, b overview) int { return b.Width*b.Height - a.Width*a.Height })
	for _, o := range list {
		f.info.Overviews, f.levels = append(f.info.Overviews, o.Size), append(f.levels, o.level)
	}
}

// maxSized bounds the number of files that FileBytes counts.
const maxSized = 1000

func (f *File) size(h hDataset) int64 {
	if f.plain != nil && f.plain.Mode().IsRegular() {
		return f.plain.Size()
	}
	if f.plain != nil && f.plain.IsDir() {
		var n int64
		left := maxSized
		filepath.WalkDir(f.info.Path, func(_ string, d os.DirEntry, err error) error {
			if err != nil || left == 0 {
				return filepath.SkipAll
			}
			if st, err := d.Info(); err == nil && st.Mode().IsRegular() {
				n += st.Size()
				left--
			}
			return nil
		})
		return n
	}
	var n int64
	for k, name := range fileNames(h) {
		if st, err := os.Stat(name); k < maxSized && err == nil && st.Mode().IsRegular() {
			n += st.Size()
		}
	}
	return n
}
