//go:build unix && !linux

package localdir

// Of returns Local: other systems are not distinguished.
func Of(int) FileSystem { return FileSystem{Kind: Local} }
