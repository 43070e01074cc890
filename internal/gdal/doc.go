// Package gdal reads and writes rasters through GDAL, for all formats without a driver in leat.
// libgdal is loaded when first needed: nothing is compiled against it, and a machine without it
// lacks only these formats. [Open] returns a [File], which is a raster.Source; [Create] returns a
// [Writer]; [Drivers] lists what the loaded library can do.
//
// GDAL 3.2 or later is searched under its usual names (libgdal.so.32 and so on, the active conda
// environment first); LEAT_GDAL_LIBRARY names another library. Without one, every call returns an
// error that wraps [ErrNotInstalled] and names the packages to install. A binary built with -tags
// nogdal, or for a system that purego does not support, has the same functions, which all return
// such an error.
//
// table.go declares the functions of GDAL's C interface that are called.
//
// The package does not promise that GDAL survives a file made to attack it, nor that files are on
// disk after a power loss, nor that a handle is closed that the caller does not close.
package gdal
