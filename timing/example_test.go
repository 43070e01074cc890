package timing_test

import (
	"fmt"
	"time"

	"leat/timing"
)

func Example() {
	rec := timing.New()
	for block := range 3 {
		func() {
			defer rec.Start("reading", "reader 1", block).Stop()
			// … read the block
		}()
	}
	other := timing.New() // of another part of the program
	other.Record("computing", "worker 1", 0, time.Now(), 300*time.Millisecond)
	rec.Merge(other)

	for _, st := range rec.Summary().Stages {
		fmt.Println(st.Stage, st.N, st.Median > 200*time.Millisecond)
	}
	// rec.Summary().Text(os.Stdout, true) writes a table, rec.Trace(f) a file for ui.perfetto.dev.

	// Output:
	// reading 3 false
	// computing 1 true
}
