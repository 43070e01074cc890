package gdal

import "fmt"

// RequestError is returned for a request that is wrong by itself, or that names what its source of
// vectors, which can be read, lacks: a layer, an attribute, a position on the grid. The text is
// that of the error within.
type RequestError struct{ err error }

func (e *RequestError) Error() string { return e.err.Error() }

// Unwrap returns the error within.
func (e *RequestError) Unwrap() error { return e.err }

// unmet returns a RequestError about the source.
func (r *VectorRequest) unmet(format string, args ...any) error {
	return &RequestError{fmt.Errorf("%s: "+format, append([]any{r.name()}, args...)...)}
}
