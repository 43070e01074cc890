//go:build !linux

package exec

func adviseHuge([]byte) {}
