//go:build !amd64

package focal

// Other processors use the Go loops only.

type terrainConstants struct{}

func newTerrainConstants(...float64) *terrainConstants { return nil }

func hillshadeFast[T Float](_, _, _, _ []T, _ *terrainConstants) int { return 0 }
func slopeFast[T Float](_, _, _, _ []T, _ *terrainConstants) int     { return 0 }

func addFast[A float64 | int32](_, _, _ []A) int                      { return 0 }
func smallerFast[A Float](_, _, _ []A) int                            { return 0 }
func largerFast[A Float](_, _, _ []A) int                             { return 0 }
func loadFast[T, A Float](_ []A, _ []T, _ []byte, _ A) int            { return 0 }
func countsFast(_ []int32, _ []byte) int                              { return 0 }
func anyFast(_ []byte, _ []int32) int                                 { return 0 }
func meansFast[T Float](_ []T, _ []float64, _ []int32, _ float64) int { return 0 }
func performFast[T Float](_ []T, _ []comparison, _ int) bool          { return false }
func hasComparisons() bool                                            { return false }

func combineMomentsFast(_, _, _ moments, _, _ float64) int               { return 0 }
func deviationsFast[T Float](_ []T, _ moments, _ []int32, _ float64) int { return 0 }
func addProductsFast[T Float](_ []float64, _ []T, _ float64) int         { return 0 }
