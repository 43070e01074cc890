package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"

	"leat/apply"
	"leat/cache"
	"leat/expr"
	"leat/objstore"
)

// hintedError is an error with a hint of the command that met it.
type hintedError struct {
	err  error
	hint string
}

func (e hintedError) Error() string { return e.err.Error() }
func (e hintedError) Unwrap() error { return e.err }

// hintOf returns what the user can do about an error, "" if nothing is known. It looks at err and
// all errors that it wraps.
func hintOf(err error) string {
	if hint := ownHint(err); hint != "" {
		return hint
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return hintOf(inner)
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if hint := hintOf(one); hint != "" {
				return hint
			}
		}
	}
	return ""
}

// ownHint is hintOf without the errors that err wraps.
func ownHint(err error) string {
	switch e := err.(type) {
	case hintedError:
		return e.hint
	case *apply.FieldError:
		return fieldHints[e.Field]
	case *objstore.Error:
		return storeHint(e)
	case *apply.UnknownNameError:
		return meant(e.Name, e.Known)
	case *expr.SyntaxError:
		return unknownFunctionHint(e)
	case *expr.TypeError:
		return meant(e.Unknown, e.Known)
	case syscall.Errno:
		if e == syscall.EADDRINUSE {
			return "another program listens at that port: use another one, or 0 for one that is free"
		}
	}
	switch err {
	case cache.ErrRemote:
		return "use a path on a local disk, or --allow-remote if all processes that use the cache run on this machine"
	case cache.ErrMismatch:
		return "use the values of the existing cache, or another name"
	}
	return ""
}

// fieldHints maps the fields of apply.Job to what options of leat apply can change.
var fieldHints = map[string]string{
	"Resume": "run without --resume to start over, or leat apply discard to remove the unfinished output",

	"Input.Files":     "see -i",
	"Input.Layers":    "see --bands",
	"Input.Nodata":    "see --input-nodata",
	"Input.Resample":  "see --resample",
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

	"Output.Path":            "see -o",
	"Output.Type":            "use --type to select another type",
	"Output.Nodata":          "use --nodata to select another value",
	"Output.Scale":           "see --scale and --offset",
	"Output.Offset":          "see --scale and --offset",
	"Output.Compression":     "see --co COMPRESS",
	"Output.Predictor":       "see --co PREDICTOR",
	"Output.Level":           "see --co LEVEL",
	"Output.TileSize":        "see --co BLOCKSIZE",
	"Output.PixelInterleave": "see --co INTERLEAVE",
	"Output.BigTIFF":         "see --co BIGTIFF",
	"Output.Overviews":       "see --overviews",
	"Output.NoOverviews":     "leave out --overviews none",
	"Output.COG":             "leave out --cog",
	"Output.OverviewMethod":  "see --overview-method",
	"Output.NoStatistics":    "see --no-stats",
	"Output.NoHistogram":     "see --no-histogram",
	"Output.HistAux":         "leave out --aux-xml",
	"Output.LayerNames":      "see --names",
	"Output.Thematic":        "leave out --thematic",
	"Output.Colors":          "see --color-table",
	"Output.Unit":            "see --unit",
	"Output.Metadata":        "see --metadata",
	"Output.NoClobber":       "use another name, remove the file first, or leave out --no-clobber",
	"Output.TempDir":         "use --tmpdir to name another directory for unfinished outputs",
	"Output.Format":          "use --format to select another format; leat info --formats lists them",
	"Output.Options":         "see --co; leat info --formats FORMAT lists the options of a format",

	"Controls.Footprint":       "use --footprint union, or another --reference or --grid",
	"Controls.Reference":       "use --reference NAME or --grid to warp inputs onto one grid",
	"Controls.Grid":            "use --grid to give a grid",
	"Controls.BBox":            "see --bbox and --extent",
	"Controls.Window":          "see --srcwin",
	"Controls.WindowWidth":     "use --window to select another size of blocks",
	"Controls.WindowHeight":    "use --window to select another size of blocks",
	"Controls.MemoryBytes":     "use a higher --memory, a smaller --window, or fewer workers (-j, --workers)",
	"Controls.NoMask":          "see --no-mask",
	"Controls.Unscale":         "leave out --unscale",
	"Controls.NodataCollision": "use --nodata to select another value, or --nodata-collision warn",
	"Controls.Extents":         "see --extent and --bbox",

	"Concurrency.Workers":          "use --workers to set the number of workers",
	"Concurrency.Readers":          "leave out --readers",
	"Concurrency.On":               "use --on to select the kind of workers",
	"Concurrency.OneBlockPerJob":   "see --single-block-jobs",
	"Concurrency.Reading":          "leave out --workers-read, or use --on",
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
	case e.Err == io.EOF:
		return "check the host, the port, and whether it is http or https"
	case errors.Is(e.Err, objstore.ErrChanged), e.Status == http.StatusPreconditionFailed:
		return "run the command again to read the new version"
	case errors.Is(e.Err, fs.ErrExist):
		return "use another name, or remove the object first"
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "check the credentials, whether a signed URL has expired, and the store's policy; public data may need --anonymous"
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
