// Package python has the Python modules that leat hands to the Python processes that it starts. Its
// tests run those of the Python package, and install its wheel.
package python

import _ "embed"

// Block and Function are the sources of leat._block and leat._function.
var (
	//go:embed leat/_block.py
	Block string
	//go:embed leat/_function.py
	Function string
)
