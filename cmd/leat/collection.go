package main

import (
	"runtime"
	"runtime/debug"
)

// firstCollection is the size of the heap at which garbage is first collected. Go's own, 4 MiB, is
// reached by starting: a run over a small file then collects five times, which takes a seventh of
// its processor time.
const firstCollection = 32 << 20

// delayCollection delays the first collection of garbage to firstCollection, unless GOGC is set.
// Later ones come as Go has them.
func delayCollection() {
	const percent, smallest = 100, 4 << 20 // Go's own, and the size at which it first collects then
	if set := debug.SetGCPercent(percent * (firstCollection / smallest)); set != percent {
		debug.SetGCPercent(set)
		return
	}
	// The first collection finds this object without references.
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, percent)
}
