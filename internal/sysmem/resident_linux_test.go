package sysmem

import (
	"runtime"
	"testing"
)

func TestResidentCountsTouchedMemory(t *testing.T) {
	before := Resident()
	const size = 64 << 20
	b := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	after := Resident()
	runtime.KeepAlive(b)
	if before <= 0 || after-before < size/2 {
		t.Errorf("%d bytes, and %d after %d were touched", before, after, size)
	}
}
