//go:build !linux

package subprocess

import "testing"

// childrenOf returns nothing: only /proc lists children.
func childrenOf(*testing.T) []string { return nil }
