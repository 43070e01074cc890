// Package gdal reads and writes rasters through GDAL, for all formats that leat has no driver of its own for. libgdal is loaded when
// it is first needed: nothing is compiled against it, and a machine without it lacks these formats only. [Open] gives a [File], which
// is a raster.Source; [Create] gives a [Writer]; [Drivers] tells what the library at hand can do.
//
// GDAL 3.2 or later is looked for under its usual names (libgdal.so.32 and so on, the active conda environment first); LEAT_GDAL_LIBRARY names another one. Where there is
// none, every call returns an error that wraps [ErrAbsent] and names the packages to install. A binary built with -tags nogdal, or for a system that purego does not know, has the
// same functions, which all return such an error.
//
// The functions of GDAL's C interface that are called stand in table.go with their C prototypes.
//
// What it does not promise: that GDAL itself survives a file that was made to attack it; that files are on disk after a power loss;
// that a handle that nobody closes is ever closed (nothing here is finalised by the collector).
package gdal
