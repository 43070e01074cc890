package timing_test

import (
	"fmt"
	"os"
	"time"

	"leat/timing"
)

func Example() {
	rec := timing.New()
	start := time.Now()
	// Around work: defer rec.Start("reading", "reader 1", block).Stop()
	rec.Record("reading", "reader 1", 0, start, 20*time.Millisecond)
	rec.Record("reading", "reader 1", 1, start, 40*time.Millisecond)

	other := timing.New() // of another part of the program
	other.Record("computing", "worker 1", 0, start, 300*time.Millisecond)
	rec.Merge(other)

	s := rec.Summary()
	for _, st := range s.Stages {
		fmt.Println(st.Stage, st.N, timing.FormatDuration(st.Total), timing.FormatDuration(st.Median))
	}
	fmt.Println(rec.Durations("computing"))
	if err := s.Text(os.Stderr, false); err != nil { // a table for people
		fmt.Println(err)
	}
	// Output:
	// reading 2 60.0 ms 30.0 ms
	// computing 1 300 ms 300 ms
	// [300ms]
}
