package apply

import "leat/apply/internal/output"

// NoFormat returns an error about a format that GDAL does not have, with suggestions of similar
// names.
func NoFormat(name string) error { return output.NoFormat(name) }
