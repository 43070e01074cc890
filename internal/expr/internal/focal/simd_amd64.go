package focal

import "golang.org/x/sys/cpu"

// hasAVX2 reports whether the processor can run the routines of this package.
var hasAVX2 = cpu.X86.HasAVX2

// terrainConstants are constants of the routines, four times each: x, y, 1, the largest float64,
// and others.
type terrainConstants [12][4]float64

func hillshadeAVX(to, above, here, below *float32, n int, k *terrainConstants)
func slopeAVX(to, above, here, below *float32, n int, k *terrainConstants, arcs *float64)

func newTerrainConstants(values ...float64) *terrainConstants {
	k := &terrainConstants{}
	for i, v := range values {
		k[i] = [4]float64{v, v, v, v}
	}
	return k
}

// firsts returns the first elements of rows of float32, and how many of their pixels the routines
// can compute.
func firsts[T Float](to, above, here, below []T) (d, a, h, b *float32, n int) {
	t, ok := any(to).([]float32)
	n = len(t) &^ 3
	if !ok || !hasAVX2 || n == 0 {
		return nil, nil, nil, nil, 0
	}
	return &t[0], &any(above[:n+2]).([]float32)[0], &any(here[:n+2]).([]float32)[0],
		&any(below[:n+2]).([]float32)[0], n
}

// hillshadeFast computes as many pixels of Hillshade as its routine can, and returns their number.
func hillshadeFast[T Float](to, above, here, below []T, k *terrainConstants) int {
	d, a, h, b, n := firsts(to, above, here, below)
	if n > 0 {
		hillshadeAVX(d, a, h, b, n, k)
	}
	return n
}

// slopeFast computes as many pixels of Slope as its routine can, and returns their number.
func slopeFast[T Float](to, above, here, below []T, k *terrainConstants) int {
	d, a, h, b, n := firsts(to, above, here, below)
	if n > 0 {
		slopeAVX(d, a, h, b, n, k, &arcs[0])
	}
	return n
}
