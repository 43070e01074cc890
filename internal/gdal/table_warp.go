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
	GDALCreateGenImgProjTransformer2            func(from, to hDataset, options unsafe.Pointer) hTransformer
	GDALSetGenImgProjTransformerDstGeoTransform func(t hTransformer, six *float64)
	GDALDestroyGenImgProjTransformer            func(t hTransformer)
	GDALGenImgProjTransform                     func(t hTransformer, toSource, count int32, x, y, z *float64,
		ok *int32) int32
	GDALCreateWarpOptions    func() *warpOptions
	GDALDestroyWarpOptions   func(o *warpOptions)
	GDALCreateWarpOperation  func(o *warpOptions) hOperation
	GDALDestroyWarpOperation func(o hOperation)
	GDALWarpRegionToBuffer   func(o hOperation, col, row, width, height int32,
		pixels unsafe.Pointer, typ, fromCol, fromRow, fromWidth, fromHeight int32) int32
	GDALAddBand func(d hDataset, typ int32, options unsafe.Pointer) int32
}

// vectorAPI holds functions of https://gdal.org/en/stable/api/vector_c_api.html
type vectorAPI struct {
	GDALDatasetGetLayerCount           func(d hDataset) int32
	GDALDatasetGetLayer                func(d hDataset, i int32) hLayer
	GDALDatasetGetLayerByName          func(d hDataset, name string) hLayer
	GDALDatasetExecuteSQL              func(d hDataset, statement string, filter unsafe.Pointer, dialect *byte) hLayer
	GDALDatasetReleaseResultSet        func(d hDataset, l hLayer)
	GDALDatasetCreateLayer             func(d hDataset, name string, s hSRS, typ int32, options unsafe.Pointer) hLayer
	GDALDatasetStartTransaction        func(d hDataset, force int32) int32
	GDALDatasetCommitTransaction       func(d hDataset) int32
	GDALDatasetRollbackTransaction     func(d hDataset) int32
	OGR_L_GetName                      func(l hLayer) string
	OGR_L_GetLayerDefn                 func(l hLayer) hDefinition
	OGR_FD_GetFieldCount               func(d hDefinition) int32
	OGR_FD_GetFieldDefn                func(d hDefinition, i int32) hField
	OGR_Fld_GetNameRef                 func(f hField) string
	OGR_Fld_GetType                    func(f hField) int32
	OGR_Fld_Create                     func(name string, typ int32) hField
	OGR_Fld_Destroy                    func(f hField)
	OGR_GetFieldTypeName               func(t int32) string
	OGR_L_GetGeomType                  func(l hLayer) int32
	OGRGeometryTypeToName              func(t int32) string
	OGR_L_GetSpatialRef                func(l hLayer) hSRS
	OGR_L_GetFeatureCount              func(l hLayer, force int32) int64
	OGR_L_GetExtent                    func(l hLayer, fourXXYY *float64, force int32) int32
	OGR_L_SetAttributeFilter           func(l hLayer, condition string) int32
	OGR_L_ResetReading                 func(l hLayer)
	OGR_L_GetNextFeature               func(l hLayer) hFeature
	OGR_L_CreateField                  func(l hLayer, f hField, approximate int32) int32
	OGR_L_CreateFeature                func(l hLayer, f hFeature) int32
	OGR_F_Create                       func(d hDefinition) hFeature
	OGR_F_Destroy                      func(f hFeature)
	OGR_F_GetFID                       func(f hFeature) int64
	OGR_F_SetFID                       func(f hFeature, fid int64) int32
	OGR_F_SetGeometry                  func(f hFeature, g hGeometry) int32
	OGR_F_SetFieldNull                 func(f hFeature, i int32)
	OGR_F_SetFieldInteger64            func(f hFeature, i int32, v int64)
	OGR_F_SetFieldDouble               func(f hFeature, i int32, v float64)
	OGR_F_SetFieldString               func(f hFeature, i int32, text string)
	OGR_F_IsFieldSetAndNotNull         func(f hFeature, i int32) int32
	OGR_F_GetFieldAsDouble             func(f hFeature, i int32) float64
	OGR_F_GetFieldAsInteger64          func(f hFeature, i int32) int64
	OGR_F_GetFieldAsString             func(f hFeature, i int32) string
	OGR_F_GetGeometryRef               func(f hFeature) hGeometry
	OGR_G_WkbSize                      func(g hGeometry) int32
	OGR_G_ExportToIsoWkb               func(g hGeometry, order int32, wkb *uint8) int32
	OGR_G_GetGeometryType              func(g hGeometry) int32
	OGR_G_GetGeometryCount             func(g hGeometry) int32
	OGR_G_GetGeometryRef               func(g hGeometry, i int32) hGeometry
	OGR_G_IsEmpty                      func(g hGeometry) int32
	OGR_G_Transform                    func(g hGeometry, t hTransformation) int32
	OGR_G_CreateFromWkb                func(wkb unsafe.Pointer, s hSRS, g *hGeometry, size int32) int32
	OGR_G_DestroyGeometry              func(g hGeometry)
	OCTNewCoordinateTransformation     func(from, to hSRS) hTransformation
	OCTDestroyCoordinateTransformation func(t hTransformation)
	OCTTransformEx                     func(t hTransformation, count int32, x, y, z *float64, success *int32) int32
	GDALFillRaster                     func(b hBand, value, imaginary float64) int32
	GDALRasterizeOptionsNew            func(args, binary unsafe.Pointer) hBurning
	GDALRasterizeOptionsFree           func(o hBurning)
	GDALRasterizeOptionsSetProgress    func(o hBurning, progress, data uintptr)
	GDALRasterize                      func(path *byte, to, from hDataset, options hBurning, fault *int32) hDataset
	GDALSieveFilter                    func(from, mask, to hBand, pixels, connectedness int32, options unsafe.Pointer,
		progress, data uintptr) int32
	GDALPolygonize func(from, mask hBand, to hLayer, field int32, options unsafe.Pointer,
		progress, data uintptr) int32
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
