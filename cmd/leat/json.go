package main

import (
	"encoding/json"
	"io"
)

// writeJSON writes one line.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
