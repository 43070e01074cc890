package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"

	"leat/apply/outcome"
	"leat/cache"
	"leat/internal/expr"
	"leat/internal/gdal"
	"leat/internal/ranged"
	"leat/objstore"
	"leat/stage"
	"leat/worker"
)

// hintedError is an error with a hint of the command that met it.
type hintedError struct {
	err  error
	hint string
}

func (e hintedError) Error() string { return e.err.Error() }
func (e hintedError) Unwrap() error { return e.err }

// hintOf returns what the user can do about an error, "" if nothing is known. It looks at err and
// all errors that it wraps, the innermost first, which is the most specific.
func hintOf(err error) string {
	if own, ok := err.(hintedError); ok {
		return own.hint
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			if hint := hintOf(inner); hint != "" {
				return hint
			}
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if hint := hintOf(one); hint != "" {
				return hint
			}
		}
	}
	return ownHint(err)
}

// ownHint is hintOf without the errors that err wraps.
func ownHint(err error) string {
	switch e := err.(type) {
	case hintedError:
		return e.hint
	case *outcome.FieldError:
		return fieldHint(e.Field, e.Value)
	case *outcome.ResumeError:
		if errors.Is(e, outcome.ErrNotSpool) {
			return "run without --resume to start over, or remove the file first"
		}
		return fieldHint("Resume", "")
	case *outcome.InputChangedError:
		if e.Overwritten {
			return "run again when it is complete; replace the inputs of a run by renaming"
		}
		return "run again when it is complete"
	case *objstore.Error:
		return storeHint(e)
	case *worker.BatchError:
		return batchHint(e)
	case *worker.LostError:
		return exitsHint(e)
	case *outcome.UnknownNameError:
		return meant(e.Name, e.Known)
	case *expr.SyntaxError:
		return unknownFunctionHint(e)
	case *expr.TypeError:
		if e.NoTime {
			return fieldHints["Input.Times"]
		}
		return unknownNameHint(e)
	case syscall.Errno:
		return errnoHints[e]
	case *fs.PathError:
		if e.Op == "fork/exec" && e.Err == syscall.EAGAIN {
			return "use fewer workers, or allow more processes (ulimit -u)"
		}
	case *stage.HolderError:
		return holderHint(e)
	case *gdal.Error:
		for _, s := range [][2]string{{"/vsis3/", "s3://"}, {"/vsigs/", "gs://"}, {"/vsiaz/", "azblob://"}, {"/vsicurl/", ""}} {
			if rest, ok := strings.CutPrefix(e.Path, s[0]); ok {
				return "leat reads stores itself: write it as " + shown(s[1]+rest)
			}
		}
	}
	switch err {
	case cache.ErrRemote:
		return "use a path on a local disk, or --allow-remote if all processes that use the cache run on this machine"
	case cache.ErrMismatch:
		return "use the values of the existing cache, or another name"
	case ranged.ErrNoSize:
		return "fetch it first: leat stage get"
	case outcome.ErrNotGeoreferenced:
		return "write the coordinates into the file with gdal_edit.py -a_ullr and -a_srs, or warp it by its control points with gdalwarp"
	case outcome.ErrNoCRS:
		return "write the CRS into the file first: gdal_edit.py -a_srs EPSG:CODE FILE"
	case outcome.ErrBeingWritten:
		return "wait until it is complete, and run again"
	case outcome.ErrInUse:
		return "wait for the other run, or end it"
	case outcome.ErrVectors:
		return "use -v to rasterize vectors; leat info shows their extent"
	case stage.ErrUnversioned:
		return "free space on the disk so that it can be staged"
	}
	return ""
}

// errnoHints maps errors of the system to hints.
var errnoHints = map[syscall.Errno]string{
	syscall.EADDRINUSE: "another program listens at that port: use another one, or 0 for one that is free",
	syscall.ENOSPC:     "free some space on the disk",
	syscall.EDQUOT:     "free some space on the disk",
	syscall.EROFS:      "use a directory on another file system",
	syscall.EFBIG:      "allow larger files (ulimit -f), or use another file system",
	syscall.EMFILE:     "use fewer workers, or allow more open files (ulimit -n)",
}

// holderHint returns what the user can do about a process that holds a lock.
func holderHint(e *stage.HolderError) string {
	switch {
	case e.PID == 0:
		return "end the process that uses the directory, perhaps in another container"
	case errors.Is(e, stage.ErrStopped):
		return fmt.Sprintf("continue it by `kill -CONT %d`, or end it", e.PID)
	}
	return "wait for it, or end it"
}

// fieldHint returns what the user can do about a field, "" if nothing is known. value is a value of
// the field that works, "" if none is known.
func fieldHint(field, value string) string {
	if field == "Controls.Grid" && value != "" { // one that encloses a rotated grid
		size := value[strings.LastIndexByte(value, ',')+1:]
		return fmt.Sprintf("use --pixel-size %s, which warps it onto a north-up grid, or --grid %s", size, value)
	}
	if text, ok := valueHints[field]; ok && value != "" {
		return fmt.Sprintf(text, value)
	}
	return fieldHints[field]
}

// valueHints maps fields for which a value is known to what options of leat apply select it.
var valueHints = map[string]string{
	"Input.Resample":     "use --resample %s",
	"Controls.Reference": "use --reference %s or --grid to warp inputs onto one grid",
	"Output.Type":        "use --type %s, or another --format",
	"Output.Nodata":      "use --nodata %s",
	"Output.ColorInterp": "make all pixels valid, as fill(%s, 0) does",
	"Output.Format":      "use --format %s, or a name with another ending",
	"Output.Options":     "use --co %s",

	"Controls.MemoryBytes": "use --memory %s or more, or write a raster, such as -o NAME=FILE.tif",
}

// fieldHints maps the fields of apply.Job to what options of leat apply can change.
var fieldHints = map[string]string{
	"Resume": "run without --resume to start over, or leat apply discard to remove the unfinished output",

	"Input.Files":     "leat info shows a file and its warnings",
	"Input.List":      "give the name once for each file: -i NAME=FILE -i NAME=FILE",
	"Input.Layers":    "use --bands to select bands",
	"Input.Nodata":    "see --input-nodata",
	"Input.Scale":     "see --input-scale; --unscale applies the scales of files",
	"Input.Offset":    "see --input-scale",
	"Input.Groups":    "see --group",
	"Input.Resample":  "see --resample",
	"Input.Times":     "use --times to give the times of a list",
	"Input.Overviews": "leave out --use-overviews, or copy the file first: leat stage get",
	"Input.Source":    "use --stage-dir to name a directory for remote inputs, or copy the file first: leat stage get",

	"Vector.Layer":       "use --layer to select a layer",
	"Vector.Burn":        "see --burn",
	"Vector.Attribute":   "see --burn",
	"Vector.Where":       "see --where",
	"Vector.SQL":         "see --sql",
	"Vector.Null":        "see --null",
	"Vector.Nodata":      "see --input-nodata",
	"Vector.Type":        "use --vector-type to select another type",
	"Vector.AllTouched":  "see --all-touched",
	"Vector.OpenOptions": "see --open-option",

	"Python":            "see docs/guide/python-functions.md",
	"Python.Executable": "use --python-executable to name the Python that has NumPy and what the function imports",
	"Python.Params":     "see --python-params",

	"Output.Path":            "use another name or directory (-o)",
	"Output.Type":            "use --type to select another type",
	"Output.Nodata":          "use --nodata to select another value, or --nodata none if all pixels are valid",
	"Output.Scale":           "use another --scale and --offset, or leave them out",
	"Output.Offset":          "see --scale and --offset",
	"Output.Compression":     "see --co COMPRESS",
	"Output.Predictor":       "see --co PREDICTOR",
	"Output.Level":           "see --co LEVEL",
	"Output.TileSize":        "see --co BLOCKSIZE",
	"Output.PixelInterleave": "see --co INTERLEAVE",
	"Output.BigTIFF":         "see --co BIGTIFF",
	"Output.Overviews":       "use other --overviews, or --overviews none",
	"Output.NoOverviews":     "leave out --cog or --overviews none",
	"Output.COG":             "leave out --cog or --format",
	"Output.OverviewMethod":  "see --overview-method",
	"Output.NoStatistics":    "see --no-stats",
	"Output.NoHistogram":     "see --no-histogram",
	"Output.HistAux":         "leave out --aux-xml",
	"Output.LayerNames":      "see --names",
	"Output.Thematic":        "leave out --thematic",
	"Output.Colors":          "use another --color-table, or leave it out",
	"Output.Categories":      "leave out --color-table, or the names in it",
	"Output.ColorInterp":     "see --color-interp",
	"Output.Unit":            "see --unit",
	"Output.Metadata":        "see --metadata",
	"Output.NoClobber":       "use another name, remove the file first, or leave out --no-clobber",
	"Output.TempDir":         "use --tmpdir to name another directory for unfinished outputs",
	"Output.Polygons":        "make classes, as classify(a, [0.2, 0.5]) or a < 0.2 ? 1 : nodata, and see --type",
	"Output.Sieve":           "see --sieve",
	"Output.Diagonals":       "leave out --diagonals",
	"Output.Format":          "use another --format; leat info --formats lists them",
	"Output.Options":         "see --co; leat info --formats FORMAT lists the options of a format",

	"Controls.Footprint":       "use --footprint union, or another --reference or --grid",
	"Controls.Reference":       "use --reference NAME or --grid to warp inputs onto one grid",
	"Controls.Grid":            "use --grid to give a grid",
	"Controls.PixelSize":       "see --pixel-size",
	"Controls.CRS":             "use another --crs",
	"Controls.Cutline":         "see --cutline; --where, --layer and --sql select its features",
	"Controls.BBox":            "see --bbox and --extent",
	"Controls.Window":          "see --srcwin",
	"Controls.Margin":          "see --margin",
	"Controls.WindowWidth":     "use --window to select another size of blocks",
	"Controls.WindowHeight":    "use --window to select another size of blocks",
	"Controls.MemoryBytes":     "use a higher --memory, a smaller --window, or fewer workers (-j, --workers); files in large pieces can be tiled first",
	"Controls.NoMask":          "see --no-mask",
	"Controls.Unscale":         "leave out --unscale",
	"Controls.NodataCollision": "use --nodata to select another value, or --nodata-collision warn",
	"Controls.Extents":         "see --extent and --bbox",

	"Concurrency.Workers":          "use --workers to set the number of workers",
	"Concurrency.Readers":          "leave out --readers",
	"Concurrency.On":               "use --on to select the kind of workers",
	"Concurrency.OneBlockPerJob":   "see --single-block-jobs",
	"Concurrency.Reading":          "make the inputs readable for workers under the same names, or leave out --workers-read",
	"Concurrency.SharedTemp":       "use --shared-temp to name a directory that all workers can reach",
	"Concurrency.Listen":           "use --listen to give an address of this machine that workers can reach",
	"Concurrency.ReplaceWorkers":   "leave out --replace-workers",
	"Concurrency.Barrier":          "use a --barrier above 0, or leave it out",
	"Concurrency.AllowMixedBuilds": "install the same version, or use --allow-mixed-builds",
}

// storeHint returns what the user can do about a failed request to a store.
func storeHint(e *objstore.Error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var notTLS tls.RecordHeaderError
	switch {
	case errors.Is(e, objstore.ErrProxy):
		return "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
	case errors.Is(e.Err, objstore.ErrNoCredentials):
		return "set credentials as for the provider's own command, or use --anonymous for public data"
	case errors.Is(e.Err, objstore.ErrProtocol):
		return "check --endpoint, and that the server speaks the store's protocol"
	case e.Op == "listing" && errors.Is(e.Err, errors.ErrUnsupported):
		return "give a list of URLs"
	case e.Op == "writing" && errors.Is(e.Err, errors.ErrUnsupported):
		return "use a bucket (s3://, gs://, azblob://) or a local file"
	case e.Err == io.EOF:
		return "check the host, the port, and whether it is http or https"
	case errors.Is(e.Err, objstore.ErrChanged), e.Status == http.StatusPreconditionFailed:
		return "run the command again to read the new version"
	case errors.Is(e.Err, fs.ErrExist):
		return "use another name, or remove the object first"
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "check the credentials and the store's policy; public data may need --anonymous; signed URLs, as in the answer of a STAC search, expire: search or sign again"
	case e.Status == http.StatusNotFound && e.Code == "NoSuchBucket":
		return "check the bucket's name, --region and --endpoint"
	case e.Status == http.StatusNotFound:
		return "check the name, upper and lower case too, and the bucket"
	case e.Status == http.StatusMovedPermanently, e.Status == http.StatusTemporaryRedirect:
		if !strings.HasPrefix(e.URL, "http") {
			return "check --region: the bucket may be in another one"
		}
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusServiceUnavailable:
		return "use fewer workers, or try later: the server is overloaded or limits requests"
	case errors.As(e.Err, &dns):
		return "check the host's name and the network"
	case errors.As(e.Err, &unknown):
		return "set SSL_CERT_FILE to a file with the certificate of the authority that signed the server's, if you trust it"
	case errors.As(e.Err, &cert):
		return "check the host's name and the machine's certificates"
	case errors.As(e.Err, &notTLS), errors.Is(e.Err, http.ErrSchemeMismatch):
		return "the server does not speak TLS: use http in place of https"
	case e.Status == http.StatusBadRequest && strings.HasPrefix(e.URL, "http://"):
		return "check whether the server is one for https"
	case errors.Is(e.Err, syscall.EMFILE):
		return "use fewer workers, or allow more open files (ulimit -n)"
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "check the host, the port and --endpoint: nothing listens there"
	}
	return ""
}
