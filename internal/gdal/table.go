package gdal

import (
	"reflect"
	"strconv"
	"strings"
	"unsafe"
)

// Handles of GDAL's objects.
type (
	hObject  uintptr // GDALMajorObjectH: any of the next three
	hDriver  uintptr
	hDataset uintptr
	hBand    uintptr
	hSRS     uintptr // OGRSpatialReferenceH
	hColors  uintptr // GDALColorTableH
	hRAT     uintptr // GDALRasterAttributeTableH
	hFile    uintptr // VSILFILE *
)

// c holds the functions of libgdal once load has returned nil. No compiler checks their types: a
// field has the C function's name, and its tag c has the C prototype from GDAL's headers. Tests
// compare the prototype with the Go type and, if installed, with the headers, and call every
// function. Strings that C returns are copied; const char * arguments must not contain NUL. Lists
// of strings and optional pointers are unsafe.Pointer.
//
// To add functions, embed another struct of such fields.
var c struct {
	portabilityAPI
	driverAPI
	datasetAPI
	bandAPI
	tableAPI
	referenceAPI
	warpAPI
	vectorAPI
}

// portabilityAPI holds functions of https://gdal.org/en/stable/api/cpl.html
type portabilityAPI struct {
	CPLErrorReset       func()                          `c:"void (void)"`
	CPLGetLastErrorNo   func() int32                    `c:"CPLErrorNum (void)"`
	CPLGetLastErrorType func() int32                    `c:"CPLErr (void)"`
	CPLGetLastErrorMsg  func() string                   `c:"const char *(void)"`
	CPLSetErrorHandler  func(handler uintptr) uintptr   `c:"CPLErrorHandler (CPLErrorHandler)"`
	CPLSetConfigOption  func(key, value string)         `c:"void (const char *, const char *)"`
	CPLGetConfigOption  func(key, unset string) string  `c:"const char *(const char *, const char *)"`
	VSIFree             func(memory unsafe.Pointer)     `c:"void (void *)"`
	CSLDestroy          func(list unsafe.Pointer)       `c:"void (char **)"`
	VSIFOpenL           func(path, access string) hFile `c:"VSILFILE *(const char *, const char *)"`
	VSIFWriteL          func(b *byte, size, count uintptr,
		f hFile) uintptr `c:"size_t (const void *, size_t, size_t, VSILFILE *)"`
	VSIFCloseL          func(f hFile) int32     `c:"int (VSILFILE *)"`
	VSIUnlink           func(path string) int32 `c:"int (const char *)"`
	VSIGetMemFileBuffer func(path string, size *uint64,
		seize int32) unsafe.Pointer `c:"GByte *(const char *, vsi_l_offset *, int)"`
}

// driverAPI holds drivers and metadata of https://gdal.org/en/stable/api/raster_c_api.html
type driverAPI struct {
	GDALVersionInfo     func(request string) string `c:"const char *(const char *)"`
	GDALAllRegister     func()                      `c:"void (void)"`
	GDALSetCacheMax64   func(bytes int64)           `c:"void (GIntBig)"`
	GDALGetCacheMax64   func() int64                `c:"GIntBig (void)"`
	GDALGetDriverCount  func() int32                `c:"int (void)"`
	GDALGetDriver       func(i int32) hDriver       `c:"GDALDriverH (int)"`
	GDALGetDriverByName func(name string) hDriver   `c:"GDALDriverH (const char *)"`
	GDALGetDescription  func(o hObject) string      `c:"const char *(GDALMajorObjectH)"`
	GDALSetDescription  func(o hObject,
		text string) `c:"void (GDALMajorObjectH, const char *)"`
	GDALGetMetadata func(o hObject,
		domain string) unsafe.Pointer `c:"char **(GDALMajorObjectH, const char *)"`
	GDALGetMetadataItem func(o hObject, name,
		domain string) string `c:"const char *(GDALMajorObjectH, const char *, const char *)"`
	GDALGetMetadataDomainList func(o hObject) unsafe.Pointer `c:"char **(GDALMajorObjectH)"`
	GDALSetMetadataItem       func(o hObject, name, value,
		domain string) int32 `c:"CPLErr (GDALMajorObjectH, const char *, const char *, const char *)"`
	GDALCreate func(d hDriver, path string, width, height, bands, typ int32,
		options unsafe.Pointer) hDataset `c:"GDALDatasetH (GDALDriverH, const char *, int, int, int, GDALDataType, CSLConstList)"`
	GDALCreateCopy func(d hDriver, path string, from hDataset, strict int32, options unsafe.Pointer,
		progress, data uintptr) hDataset `c:"GDALDatasetH (GDALDriverH, const char *, GDALDatasetH, int, CSLConstList, GDALProgressFunc, void *)"`
}

// datasetAPI holds datasets of https://gdal.org/en/stable/api/raster_c_api.html. Since 3.7
// GDALClose and GDALFlushCache return a CPLErr, which is ignored: all versions also record the
// error.
type datasetAPI struct {
	GDALOpenEx func(path string, flags uint32, drivers, options,
		siblings unsafe.Pointer) hDataset `c:"GDALDatasetH (const char *, unsigned int, const char *const *, const char *const *, const char *const *)"`
	GDALClose            func(d hDataset)                `c:"void (GDALDatasetH)"`
	GDALFlushCache       func(d hDataset)                `c:"void (GDALDatasetH)"`
	GDALGetDatasetDriver func(d hDataset) hDriver        `c:"GDALDriverH (GDALDatasetH)"`
	GDALGetFileList      func(d hDataset) unsafe.Pointer `c:"char **(GDALDatasetH)"`
	GDALGetRasterXSize   func(d hDataset) int32          `c:"int (GDALDatasetH)"`
	GDALGetRasterYSize   func(d hDataset) int32          `c:"int (GDALDatasetH)"`
	GDALGetRasterCount   func(d hDataset) int32          `c:"int (GDALDatasetH)"`
	GDALGetRasterBand    func(d hDataset,
		number int32) hBand `c:"GDALRasterBandH (GDALDatasetH, int)"`
	GDALGetGeoTransform func(d hDataset,
		six *float64) int32 `c:"CPLErr (GDALDatasetH, double *)"`
	GDALSetGeoTransform func(d hDataset,
		six *float64) int32 `c:"CPLErr (GDALDatasetH, double *)"`
	GDALGetSpatialRef func(d hDataset) hSRS `c:"OGRSpatialReferenceH (GDALDatasetH)"`
	GDALSetSpatialRef func(d hDataset,
		s hSRS) int32 `c:"CPLErr (GDALDatasetH, OGRSpatialReferenceH)"`
	GDALGetGCPCount      func(d hDataset) int32          `c:"int (GDALDatasetH)"`
	GDALGetGCPSpatialRef func(d hDataset) hSRS           `c:"OGRSpatialReferenceH (GDALDatasetH)"`
	GDALGetGCPs          func(d hDataset) unsafe.Pointer `c:"const GDAL_GCP *(GDALDatasetH)"`
	GDALSetGCPs2         func(d hDataset, count int32, list unsafe.Pointer,
		s hSRS) int32 `c:"CPLErr (GDALDatasetH, int, const GDAL_GCP *, OGRSpatialReferenceH)"`
	GDALDatasetRasterIOEx func(d hDataset, write, col, row, width, height int32, pixels unsafe.Pointer, toWidth,
		toHeight, typ, count int32, bands *int32, pixelStep, lineStep, bandStep int64,
		extra unsafe.Pointer) int32 `c:"CPLErr (GDALDatasetH, GDALRWFlag, int, int, int, int, void *, int, int, GDALDataType, int, int *, GSpacing, GSpacing, GSpacing, GDALRasterIOExtraArg *)"`
	GDALBuildOverviews func(d hDataset, resampling string, levels int32, factors *int32, bands int32, list *int32,
		progress, data uintptr) int32 `c:"CPLErr (GDALDatasetH, const char *, int, const int *, int, const int *, GDALProgressFunc, void *)"`
}

// bandAPI holds bands of https://gdal.org/en/stable/api/raster_c_api.html
type bandAPI struct {
	GDALRasterIOEx func(b hBand, write, col, row, width, height int32, pixels unsafe.Pointer, toWidth,
		toHeight, typ int32, pixelStep, lineStep int64,
		extra unsafe.Pointer) int32 `c:"CPLErr (GDALRasterBandH, GDALRWFlag, int, int, int, int, void *, int, int, GDALDataType, GSpacing, GSpacing, GDALRasterIOExtraArg *)"`
	GDALGetRasterDataType func(b hBand) int32 `c:"GDALDataType (GDALRasterBandH)"`
	GDALGetBlockSize      func(b hBand, width,
		height *int32) `c:"void (GDALRasterBandH, int *, int *)"`
	GDALGetRasterNoDataValue func(b hBand,
		ok *int32) float64 `c:"double (GDALRasterBandH, int *)"`
	GDALGetRasterNoDataValueAsInt64 func(b hBand,
		ok *int32) int64 `c:"int64_t (GDALRasterBandH, int *)" since:"3.5"`
	GDALGetRasterNoDataValueAsUInt64 func(b hBand,
		ok *int32) uint64 `c:"uint64_t (GDALRasterBandH, int *)" since:"3.5"`
	GDALSetRasterNoDataValue func(b hBand,
		v float64) int32 `c:"CPLErr (GDALRasterBandH, double)"`
	GDALSetRasterNoDataValueAsInt64 func(b hBand,
		v int64) int32 `c:"CPLErr (GDALRasterBandH, int64_t)" since:"3.5"`
	GDALSetRasterNoDataValueAsUInt64 func(b hBand,
		v uint64) int32 `c:"CPLErr (GDALRasterBandH, uint64_t)" since:"3.5"`
	GDALGetRasterScale func(b hBand,
		ok *int32) float64 `c:"double (GDALRasterBandH, int *)"`
	GDALGetRasterOffset func(b hBand,
		ok *int32) float64 `c:"double (GDALRasterBandH, int *)"`
	GDALSetRasterScale func(b hBand,
		v float64) int32 `c:"CPLErr (GDALRasterBandH, double)"`
	GDALSetRasterOffset func(b hBand,
		v float64) int32 `c:"CPLErr (GDALRasterBandH, double)"`
	GDALGetRasterUnitType func(b hBand) string `c:"const char *(GDALRasterBandH)"`
	GDALSetRasterUnitType func(b hBand,
		unit string) int32 `c:"CPLErr (GDALRasterBandH, const char *)"`
	GDALGetRasterColorInterpretation func(b hBand) int32 `c:"GDALColorInterp (GDALRasterBandH)"`
	GDALSetRasterColorInterpretation func(b hBand,
		color int32) int32 `c:"CPLErr (GDALRasterBandH, GDALColorInterp)"`
	GDALGetMaskFlags     func(b hBand) int32 `c:"int (GDALRasterBandH)"`
	GDALGetMaskBand      func(b hBand) hBand `c:"GDALRasterBandH (GDALRasterBandH)"`
	GDALGetOverviewCount func(b hBand) int32 `c:"int (GDALRasterBandH)"`
	GDALGetOverview      func(b hBand,
		i int32) hBand `c:"GDALRasterBandH (GDALRasterBandH, int)"`
	GDALGetRasterBandXSize      func(b hBand) int32 `c:"int (GDALRasterBandH)"`
	GDALGetRasterBandYSize      func(b hBand) int32 `c:"int (GDALRasterBandH)"`
	GDALComputeRasterStatistics func(b hBand, approximate int32, lowest, highest, mean, deviation *float64,
		progress, data uintptr) int32 `c:"CPLErr (GDALRasterBandH, int, double *, double *, double *, double *, GDALProgressFunc, void *)"`
	GDALSetRasterStatistics func(b hBand, lowest, highest, mean,
		deviation float64) int32 `c:"CPLErr (GDALRasterBandH, double, double, double, double)"`
	GDALGetDefaultHistogramEx func(b hBand, lowest, highest *float64, buckets *int32, counts *unsafe.Pointer,
		force int32, progress, data uintptr) int32 `c:"CPLErr (GDALRasterBandH, double *, double *, int *, GUIntBig **, int, GDALProgressFunc, void *)"`
	GDALSetDefaultHistogramEx func(b hBand, lowest, highest float64, buckets int32,
		counts *uint64) int32 `c:"CPLErr (GDALRasterBandH, double, double, int, GUIntBig *)"`
}

// tableAPI holds colour tables, categories and attribute tables of
// https://gdal.org/en/stable/api/raster_c_api.html
type tableAPI struct {
	GDALGetRasterColorTable func(b hBand) hColors `c:"GDALColorTableH (GDALRasterBandH)"`
	GDALSetRasterColorTable func(b hBand,
		t hColors) int32 `c:"CPLErr (GDALRasterBandH, GDALColorTableH)"`
	GDALCreateColorTable   func(interpretation int32) hColors `c:"GDALColorTableH (GDALPaletteInterp)"`
	GDALDestroyColorTable  func(t hColors)                    `c:"void (GDALColorTableH)"`
	GDALGetColorEntryCount func(t hColors) int32              `c:"int (GDALColorTableH)"`
	GDALGetColorEntryAsRGB func(t hColors, i int32,
		e *colorEntry) int32 `c:"int (GDALColorTableH, int, GDALColorEntry *)"`
	GDALSetColorEntry func(t hColors, i int32,
		e *colorEntry) `c:"void (GDALColorTableH, int, const GDALColorEntry *)"`
	GDALGetRasterCategoryNames func(b hBand) unsafe.Pointer `c:"char **(GDALRasterBandH)"`
	GDALGetDefaultRAT          func(b hBand) hRAT           `c:"GDALRasterAttributeTableH (GDALRasterBandH)"`
	GDALRATGetColumnCount      func(t hRAT) int32           `c:"int (GDALRasterAttributeTableH)"`
	GDALRATGetRowCount         func(t hRAT) int32           `c:"int (GDALRasterAttributeTableH)"`
	GDALRATGetNameOfCol        func(t hRAT,
		col int32) string `c:"const char *(GDALRasterAttributeTableH, int)"`
	GDALRATGetTypeOfCol func(t hRAT,
		col int32) int32 `c:"GDALRATFieldType (GDALRasterAttributeTableH, int)"`
	GDALRATGetUsageOfCol func(t hRAT,
		col int32) int32 `c:"GDALRATFieldUsage (GDALRasterAttributeTableH, int)"`
	GDALRATGetValueAsString func(t hRAT, row,
		col int32) string `c:"const char *(GDALRasterAttributeTableH, int, int)"`
	GDALRATValuesIOAsDouble func(t hRAT, write, col, row, rows int32,
		values *float64) int32 `c:"CPLErr (GDALRasterAttributeTableH, GDALRWFlag, int, int, int, double *)"`
	GDALRATValuesIOAsInteger func(t hRAT, write, col, row, rows int32,
		values *int32) int32 `c:"CPLErr (GDALRasterAttributeTableH, GDALRWFlag, int, int, int, int *)"`
}

// colorEntry is GDALColorEntry.
type colorEntry struct{ c1, c2, c3, c4 int16 }

// referenceAPI holds functions of https://gdal.org/en/stable/api/ogr_srs_api.html
type referenceAPI struct {
	OSRNewSpatialReference     func(wkt string) hSRS `c:"OGRSpatialReferenceH (const char *)"`
	OSRDestroySpatialReference func(s hSRS)          `c:"void (OGRSpatialReferenceH)"`
	OSRClone                   func(s hSRS) hSRS     `c:"OGRSpatialReferenceH (OGRSpatialReferenceH)"`
	OSRGetName                 func(s hSRS) string   `c:"const char *(OGRSpatialReferenceH)"`
	OSRGetAuthorityName        func(s hSRS,
		node unsafe.Pointer) string `c:"const char *(OGRSpatialReferenceH, const char *)"`
	OSRGetAuthorityCode func(s hSRS,
		node unsafe.Pointer) string `c:"const char *(OGRSpatialReferenceH, const char *)"`
	OSRExportToWktEx func(s hSRS, text *unsafe.Pointer,
		options unsafe.Pointer) int32 `c:"OGRErr (OGRSpatialReferenceH, char **, const char *const *)"`
	OSRIsCompound  func(s hSRS) int32 `c:"int (OGRSpatialReferenceH)"`
	OSRIsProjected func(s hSRS) int32 `c:"int (OGRSpatialReferenceH)"`
	OSRFindMatches func(s hSRS, options unsafe.Pointer, count *int32,
		confidences *unsafe.Pointer) unsafe.Pointer `c:"OGRSpatialReferenceH *(OGRSpatialReferenceH, char **, int *, int **)"`
	OSRFreeSRSArray     func(list unsafe.Pointer) `c:"void (OGRSpatialReferenceH *)"`
	OSRSetFromUserInput func(s hSRS,
		text string) int32 `c:"OGRErr (OGRSpatialReferenceH, const char *)"`
	OSRIsSameEx func(a, b hSRS,
		options unsafe.Pointer) int32 `c:"int (OGRSpatialReferenceH, OGRSpatialReferenceH, const char *const *)"`
	OSRGetDataAxisToSRSAxisMapping func(s hSRS,
		count *int32) unsafe.Pointer `c:"const int *(OGRSpatialReferenceH, int *)"`
	OSRSetAxisMappingStrategy func(s hSRS,
		strategy int32) `c:"void (OGRSpatialReferenceH, OSRAxisMappingStrategy)"`
}

// function is an entry of the table.
type function struct {
	name      string
	prototype string        // in C
	since     int           // first GDAL version that has it; 0 if every supported version does
	value     reflect.Value // the field of c, settable
}

// functions lists the entries of the table.
func functions() []function {
	var list []function
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Anonymous {
				// The embedded structs are not exported, but their fields are, and can be set.
				walk(v.Field(i))
				continue
			}
			list = append(list, function{f.Name, f.Tag.Get("c"), sinceVersion(f.Tag.Get("since")), v.Field(i)})
		}
	}
	walk(reflect.ValueOf(&c).Elem())
	return list
}

// sinceVersion converts "3.5" to 3050000.
func sinceVersion(text string) int {
	major, minor, ok := strings.Cut(text, ".")
	if !ok {
		return 0
	}
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return a*1_000_000 + b*10_000
}
