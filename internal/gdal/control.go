package gdal

import (
	"maps"
	"slices"
	"unsafe"

	"leat/internal/georef"
	"leat/raster"
)

// controlPoint is GDAL_GCP.
type controlPoint struct {
	id, info          *byte
	pixel, line       float64
	longX, latY, high float64
}

// domainRPC is the metadata domain of rational polynomial coefficients.
const domainRPC = "RPC"

// control reads ground control points and coefficients. It adds a warning for those that can't be
// used.
func (f *File) control(h hDataset) {
	g := &f.info.Grid
	if items := f.info.Domains[domainRPC]; items != nil {
		rpc, err := georef.ParseRPC(items)
		if err != nil {
			f.info.Warnings = append(f.info.Warnings, "its RPCs are not read: "+err.Error())
		}
		g.RPC = rpc
	}
	n := c.GDALGetGCPCount(h)
	list := c.GDALGetGCPs(h)
	if n <= 0 || list == nil {
		return
	}
	points := &raster.GCPs{CRS: crsOf(c.GDALGetGCPSpatialRef(h))}
	for _, p := range unsafe.Slice((*controlPoint)(list), n) {
		points.Points = append(points.Points, raster.GCP{ID: goString(unsafe.Pointer(p.id)),
			Info: goString(unsafe.Pointer(p.info)), Pixel: p.pixel, Line: p.line, X: p.longX, Y: p.latY, Z: p.high})
	}
	// Where there are points, GDAL's writers also treat the identity as no transform.
	if !g.HasTransform || g.Transform == raster.Identity {
		g.HasTransform, g.CRS = false, raster.CRS{}
	}
	if !georef.FiniteGCPs(points) {
		f.info.Warnings = append(f.info.Warnings, "its ground control points are not read: they are not finite")
		return
	}
	g.GCPs = points
}

// setControl sets ground control points and coefficients. It ignores failures, since few formats
// hold them.
func (w *Writer) setControl() error {
	g := &w.spec.Grid
	if g.GCPs != nil && !g.HasTransform {
		srs, err := srsOf(g.GCPs.CRS)
		if err != nil {
			return err
		}
		list := make([]controlPoint, len(g.GCPs.Points))
		for i, p := range g.GCPs.Points {
			list[i] = controlPoint{cString(p.ID), cString(p.Info), p.Pixel, p.Line, p.X, p.Y, p.Z}
		}
		if len(list) > 0 {
			c.GDALSetGCPs2(w.h, int32(len(list)), unsafe.Pointer(&list[0]), srs)
		}
		if srs != 0 {
			c.OSRDestroySpatialReference(srs)
		}
	}
	if g.RPC != nil {
		m := georef.RPCItems(g.RPC)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			c.GDALSetMetadataItem(hObject(w.h), k, m[k], domainRPC)
		}
	}
	c.CPLErrorReset()
	return nil
}
