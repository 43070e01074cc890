package main

import (
	"runtime"
	"runtime/debug"
)

// firstCollection is the size of the heap at which garbage is first collected. With Go's default of
// 4 MiB, a run over a small file collects five times, which takes a seventh of its processor time.
const firstCollection = 32 << 20

// delayCollection delays the first collection of garbage to firstCollection, unless GOGC is set.
// Later collections follow Go's default.
func delayCollection() {
	const percent, smallest = 100, 4 << 20 // Go's default, and the heap at which it then first collects
	if set := debug.SetGCPercent(percent * (firstCollection / smallest)); set != percent {
		debug.SetGCPercent(set)
		return
	}
	// The first collection frees this object and calls the cleanup, which restores the default.
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, percent)
}
