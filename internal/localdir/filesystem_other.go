//go:build unix && !linux

package localdir

// Of takes every file system to be local: elsewhere they are not told apart.
func Of(int) FileSystem { return FileSystem{Kind: Local} }
