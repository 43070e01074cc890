//go:build !amd64

package tiff

// Other processors use the Go loops only.

func sumFast[T uint8 | uint16 | uint32 | uint64](_, _ []T) int { return 0 }
func joinPlanesFast(_ []uint32, _, _, _, _ []uint8) int        { return 0 }
