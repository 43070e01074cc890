//go:build !amd64

package stats

import "leat/ndarray"

// Other processors use the Go loops only.

func sumFast[T ndarray.Real]([]T) (n int, sums [4]float64, low, high T) { return 0, sums, low, high }

func sumPairFast(_, _ []float32) (n int, sums [2][4]float64, low, high [2]float32) {
	return 0, sums, low, high
}

func squaresPairFast(_, _ []float32, _ [2]float64, _ []uint16) (n int, sums [2][4]float64) {
	return 0, sums
}

func squaresFast[T ndarray.Real]([]T, float64, []uint16) (n int, sums [4]float64) { return 0, sums }

func sumIntsFast[T uint8 | int8 | uint16 | int16]([]T) (n int, low, high T, sum, squares int64) {
	return 0, 0, 0, 0, 0
}
