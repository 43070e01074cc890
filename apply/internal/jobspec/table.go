package jobspec

import (
	"context"
	"os"
)

// Table makes an output one of values instead of pixels. The records of its blocks hold only what
// the function emitted, so that a run whose outputs are all tables can be resumed.
type Table struct {
	Format string // its name in plans and results
	// Sidecars are suffixes of files next to an older output that readers would take for parts of
	// the new one. They are removed when it is published.
	Sidecars []string
	// Write writes the output into an empty file, after Merge has received all values. The run
	// publishes the file.
	Write func(ctx context.Context, f *os.File) error `json:"-"`
}
