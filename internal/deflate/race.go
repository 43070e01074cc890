//go:build race

package deflate

import (
	"runtime"
	"unsafe"
)

// noteRead reports to the race detector that AppendZlib uses e and reads src. make race compiles
// this package without the detector, whose calls take half to two thirds of a run.
func noteRead(e *Encoder, src []byte) {
	runtime.RaceWriteRange(unsafe.Pointer(e), int(unsafe.Sizeof(*e)))
	runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(src)), len(src))
}

// noteWritten reports to the race detector that AppendZlib wrote b.
func noteWritten(b []byte) {
	runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
}
