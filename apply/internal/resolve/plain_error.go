package resolve

import "strings"

// plain drops the package's name at the start of an error, which means nothing to users.
func plain(err error) error {
	for _, p := range []string{"geotiff: ", "expr: ", "ndarray: "} {
		if text, ok := strings.CutPrefix(err.Error(), p); ok {
			return plainError{text, err}
		}
	}
	return err
}

type plainError struct {
	text string
	err  error
}

func (e plainError) Error() string { return e.text }
func (e plainError) Unwrap() error { return e.err }
