// Package python has the Python modules that leat hands to the Python processes that it starts. Its
// tests run those of the Python package, and install its wheel.
package python

import (
	"embed"
	"path"
	"strings"
)

//go:embed leat/_block.py leat/_convert.py leat/_fork_server.py
//go:embed leat/_function.py leat/_function_run.py leat/_load.py leat/_memory.py
//go:embed leat/_messages.py leat/_worker.py
var sources embed.FS

// Modules returns the sources of the modules that serve a function, by name. The module _worker has
// main, and imports the others.
func Modules() (map[string]string, error) {
	modules := map[string]string{}
	files, err := sources.ReadDir("leat")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := sources.ReadFile(path.Join("leat", f.Name()))
		if err != nil {
			return nil, err
		}
		modules[strings.TrimSuffix(f.Name(), ".py")] = string(text)
	}
	return modules, nil
}
