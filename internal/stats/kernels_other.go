//go:build !amd64

package stats

import "leat/ndarray"

// Other processors use the Go loops only.

func sumFast[T ndarray.Real]([]T) (n int, sums [4]float64, low, high T) { return 0, sums, low, high }

func sumRowsFast([]float32, int, int, *[4]floatSums, *histogram) int { return 0 }

func squaresRowsFast([]float32, int, int, *[4]float64, *[4][4]float64, *histogram) int { return 0 }

func squaresFast[T ndarray.Real]([]T, float64, *[4]float64, *histogram) int { return 0 }

func sumIntsFast[T uint8 | int8 | uint16 | int16]([]T) (n int, low, high T, sum, squares int64) {
	return 0, 0, 0, 0, 0
}
