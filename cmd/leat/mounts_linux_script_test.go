//go:build linux

package main

import (
	"os"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// canMount reports whether this process may mount a small file system: as root, outside most
// containers.
var canMount = sync.OnceValue(func() bool {
	dir, err := os.MkdirTemp("", "leat-mount-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k") != nil {
		return false
	}
	return unix.Unmount(dir, 0) == nil
})

func mountTmpfs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tmpfs DIRECTORY SIZE")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o777))
	ts.Check(unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+args[1]))
	ts.Defer(func() { ts.Check(unix.Unmount(dir, unix.MNT_DETACH)) })
}

func remount(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: remount DIRECTORY ro|size=SIZE")
	}
	if args[1] == "ro" {
		ts.Check(unix.Mount("tmpfs", ts.MkAbs(args[0]), "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		return
	}
	ts.Check(unix.Mount("tmpfs", ts.MkAbs(args[0]), "", unix.MS_REMOUNT, args[1]))
}
