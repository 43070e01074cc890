//go:build !amd64

package tiffwrite

func planes4Fast(_, _ []byte, _ int) int { return 0 }

func subtractFast(_, _, _ []byte, _ int) int { return 0 }
