//go:build !amd64

package expr

// Other processors use the Go loops only.

func withRoutines(k32 *kernels[float32], k64 *kernels[float64]) (*kernels[float32], *kernels[float64]) {
	return k32, k64
}

func widenU8([]float32, []uint8) int               { return 0 }
func widenU16([]float32, []uint16) int             { return 0 }
func widenI16([]float32, []int16) int              { return 0 }
func to64Fast([]float64, []float32) int            { return 0 }
func to32Fast([]float32, []float64) int            { return 0 }
func special32Fast([]float32, float32) (int, bool) { return 0, false }
func contains16Fast([]uint16, uint16) (int, bool)  { return 0, false }
func keys32Fast(d, s []int32) int                  { return 0 }
func order32Fast(a, b []int32) int                 { return 0 }
func order16Fast(_, _, _, _ []uint16) int          { return 0 }

func first3Fast(*[3][]uint16, [][]uint16, bool) int { return 0 }

func differ16Fast([]byte, []uint16, uint16) int                      { return 0 }
func where32Fast(_ []uint32, _ []byte, _, _ []uint32) int            { return 0 }
func patch32Fast([]uint32, []byte, uint32) int                       { return 0 }
func maskKeysFast(_, _ []int32, _ []byte) int                        { return 0 }
func maskPixelsFast(_, _ []uint16, _ []byte) int                     { return 0 }
func splitPixelsFast(_, _ []uint16, _ []byte) int                    { return 0 }
func splitKeysFast(_, _ []int32, _ []byte) int                       { return 0 }
func round32Fast([]int32, []float32, float32, float32) (int, bool)   { return 0, false }
func narrow8Fast([]uint8, []int32) int                               { return 0 }
func blend16Fast(_ []float32, _, _ []uint16, _ int32, _ float64) int { return 0 }
func hornerFast(_, _, _ []float32) int                               { return 0 }
func narrow16Fast([]uint16, []int32) int                             { return 0 }
