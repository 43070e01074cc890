//go:build !amd64

package focal

// Other processors use the Go loops only.

type terrainConstants struct{}

func newTerrainConstants(...float64) *terrainConstants { return nil }

func hillshadeFast[T Float](_, _, _, _ []T, _ *terrainConstants) int { return 0 }
func slopeFast[T Float](_, _, _, _ []T, _ *terrainConstants) int     { return 0 }
