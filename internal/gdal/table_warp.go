package gdal

import "unsafe"

// Handles for warping and rasterizing.
type (
	hTransformer unsafe.Pointer // of GDALCreateGenImgProjTransformer2
	hOperation   uintptr        // GDALWarpOperationH
	hLayer       uintptr        // OGRLayerH
	hDefinition  uintptr        // OGRFeatureDefnH
	hField       uintptr        // OGRFieldDefnH
	hFeature     uintptr        // OGRFeatureH
	hGeometry    uintptr        // OGRGeometryH
	hBurning     uintptr        // GDALRasterizeOptions *

	hTransformation uintptr // OGRCoordinateTransformationH
)

// warpAPI holds functions of https://gdal.org/en/stable/api/gdalwarp_cpp.html and gdal_alg.html
type warpAPI struct {
	GDALCreateGenImgProjTransformer2 func(from, to hDataset,
		options unsafe.Pointer) hTransformer `c:"void *(GDALDatasetH, GDALDatasetH, char **)"`
	GDALSetGenImgProjTransformerDstGeoTransform func(t hTransformer,
		six *float64) `c:"void (void *, const double *)"`
	GDALDestroyGenImgProjTransformer func(t hTransformer) `c:"void (void *)"`
	GDALGenImgProjTransform          func(t hTransformer, toSource, count int32, x, y, z *float64,
		ok *int32) int32 `c:"int (void *, int, int, double *, double *, double *, int *)"`
	GDALCreateWarpOptions    func() *warpOptions             `c:"GDALWarpOptions *(void)"`
	GDALDestroyWarpOptions   func(o *warpOptions)            `c:"void (GDALWarpOptions *)"`
	GDALCreateWarpOperation  func(o *warpOptions) hOperation `c:"GDALWarpOperationH (const GDALWarpOptions *)"`
	GDALDestroyWarpOperation func(o hOperation)              `c:"void (GDALWarpOperationH)"`
	GDALWarpRegionToBuffer   func(o hOperation, col, row, width, height int32, pixels unsafe.Pointer,
		typ, fromCol, fromRow, fromWidth,
		fromHeight int32) int32 `c:"CPLErr (GDALWarpOperationH, int, int, int, int, void *, GDALDataType, int, int, int, int)"`
	GDALAddBand func(d hDataset, typ int32,
		options unsafe.Pointer) int32 `c:"CPLErr (GDALDatasetH, GDALDataType, CSLConstList)"`
}

// vectorAPI holds functions of https://gdal.org/en/stable/api/vector_c_api.html
type vectorAPI struct {
	GDALDatasetGetLayerCount func(d hDataset) int32 `c:"int (GDALDatasetH)"`
	GDALDatasetGetLayer      func(d hDataset,
		i int32) hLayer `c:"OGRLayerH (GDALDatasetH, int)"`
	GDALDatasetGetLayerByName func(d hDataset,
		name string) hLayer `c:"OGRLayerH (GDALDatasetH, const char *)"`
	GDALDatasetExecuteSQL func(d hDataset, statement string, filter unsafe.Pointer,
		dialect *byte) hLayer `c:"OGRLayerH (GDALDatasetH, const char *, OGRGeometryH, const char *)"`
	GDALDatasetReleaseResultSet func(d hDataset,
		l hLayer) `c:"void (GDALDatasetH, OGRLayerH)"`
	OGR_L_GetName        func(l hLayer) string      `c:"const char *(OGRLayerH)"`
	OGR_L_GetLayerDefn   func(l hLayer) hDefinition `c:"OGRFeatureDefnH (OGRLayerH)"`
	OGR_FD_GetFieldCount func(d hDefinition) int32  `c:"int (OGRFeatureDefnH)"`
	OGR_FD_GetFieldDefn  func(d hDefinition,
		i int32) hField `c:"OGRFieldDefnH (OGRFeatureDefnH, int)"`
	OGR_Fld_GetNameRef    func(f hField) string `c:"const char *(OGRFieldDefnH)"`
	OGR_Fld_GetType       func(f hField) int32  `c:"OGRFieldType (OGRFieldDefnH)"`
	OGR_GetFieldTypeName  func(t int32) string  `c:"const char *(OGRFieldType)"`
	OGR_L_GetGeomType     func(l hLayer) int32  `c:"OGRwkbGeometryType (OGRLayerH)"`
	OGRGeometryTypeToName func(t int32) string  `c:"const char *(OGRwkbGeometryType)"`
	OGR_L_GetSpatialRef   func(l hLayer) hSRS   `c:"OGRSpatialReferenceH (OGRLayerH)"`
	OGR_L_GetFeatureCount func(l hLayer,
		force int32) int64 `c:"GIntBig (OGRLayerH, int)"`
	OGR_L_GetExtent func(l hLayer, fourXXYY *float64,
		force int32) int32 `c:"OGRErr (OGRLayerH, OGREnvelope *, int)"`
	OGR_L_SetAttributeFilter func(l hLayer,
		condition string) int32 `c:"OGRErr (OGRLayerH, const char *)"`
	OGR_L_ResetReading         func(l hLayer)          `c:"void (OGRLayerH)"`
	OGR_L_GetNextFeature       func(l hLayer) hFeature `c:"OGRFeatureH (OGRLayerH)"`
	OGR_F_Destroy              func(f hFeature)        `c:"void (OGRFeatureH)"`
	OGR_F_GetFID               func(f hFeature) int64  `c:"GIntBig (OGRFeatureH)"`
	OGR_F_IsFieldSetAndNotNull func(f hFeature,
		i int32) int32 `c:"int (OGRFeatureH, int)"`
	OGR_F_GetFieldAsDouble func(f hFeature,
		i int32) float64 `c:"double (OGRFeatureH, int)"`
	OGR_F_GetFieldAsInteger64 func(f hFeature,
		i int32) int64 `c:"GIntBig (OGRFeatureH, int)"`
	OGR_F_GetGeometryRef   func(f hFeature) hGeometry `c:"OGRGeometryH (OGRFeatureH)"`
	OGR_G_GetGeometryType  func(g hGeometry) int32    `c:"OGRwkbGeometryType (OGRGeometryH)"`
	OGR_G_GetGeometryCount func(g hGeometry) int32    `c:"int (OGRGeometryH)"`
	OGR_G_GetGeometryRef   func(g hGeometry,
		i int32) hGeometry `c:"OGRGeometryH (OGRGeometryH, int)"`
	OGR_G_IsEmpty   func(g hGeometry) int32 `c:"int (OGRGeometryH)"`
	OGR_G_Transform func(g hGeometry,
		t hTransformation) int32 `c:"OGRErr (OGRGeometryH, OGRCoordinateTransformationH)"`
	OCTNewCoordinateTransformation func(from,
		to hSRS) hTransformation `c:"OGRCoordinateTransformationH (OGRSpatialReferenceH, OGRSpatialReferenceH)"`
	OCTDestroyCoordinateTransformation func(t hTransformation) `c:"void (OGRCoordinateTransformationH)"`
	GDALFillRaster                     func(b hBand, value,
		imaginary float64) int32 `c:"CPLErr (GDALRasterBandH, double, double)"`
	GDALRasterizeOptionsNew func(args,
		binary unsafe.Pointer) hBurning `c:"GDALRasterizeOptions *(char **, GDALRasterizeOptionsForBinary *)"`
	GDALRasterizeOptionsFree        func(o hBurning) `c:"void (GDALRasterizeOptions *)"`
	GDALRasterizeOptionsSetProgress func(o hBurning, progress,
		data uintptr) `c:"void (GDALRasterizeOptions *, GDALProgressFunc, void *)"`
	GDALRasterize func(path *byte, to, from hDataset, options hBurning,
		fault *int32) hDataset `c:"GDALDatasetH (const char *, GDALDatasetH, GDALDatasetH, const GDALRasterizeOptions *, int *)"`
}

// warpOptions is the beginning of GDALWarpOptions, which is unchanged since GDAL 1.x. The rest
// keeps what GDALCreateWarpOptions sets.
type warpOptions struct {
	options                    unsafe.Pointer // char **
	_                          float64
	method, working            int32
	from, to                   hDataset
	count                      int32
	fromBands, toBands         *int32
	fromAlpha, toAlpha         int32
	fromNodata, fromNodataImag *float64
	toNodata, toNodataImag     *float64
	_                          [2]uintptr // the progress function and its data
	transformer                uintptr
	transformerData            hTransformer
}
