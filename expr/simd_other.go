//go:build !amd64

package expr

// Other processors use the Go loops only.

func fastVV32(op) func(d, a, b []float32)              { return nil }
func fastVV64(op) func(d, a, b []float64)              { return nil }
func fastVK32(op, int) func(d, a []float32, k float32) { return nil }
func fastVK64(op, int) func(d, a []float64, k float64) { return nil }
func widenU8([]float32, []uint8) int                   { return 0 }
func widenU16([]float32, []uint16) int                 { return 0 }
func widenI16([]float32, []int16) int                  { return 0 }
func to64Fast([]float64, []float32) int                { return 0 }
func to32Fast([]float32, []float64) int                { return 0 }
func special32Fast([]float32, float32) (int, bool)     { return 0, false }
func contains16Fast([]uint16, uint16) (int, bool)      { return 0, false }
func keys32Fast(d, s []int32) int                      { return 0 }
func order32Fast(a, b []int32) int                     { return 0 }
