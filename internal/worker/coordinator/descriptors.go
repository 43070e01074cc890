package coordinator

import (
	"fmt"

	"golang.org/x/sys/unix"

	"leat/worker"
)

const (
	// remoteDescriptors counts a worker's connections: for heartbeats, leases and results.
	remoteDescriptors = 3
	// localDescriptors counts a child's connections, its output pipe, its process handle, and the
	// memory for its results.
	localDescriptors = 6
	// otherDescriptors is for inputs, outputs, and connections that have not sent the token.
	otherDescriptors   = 256
	maxUnauthenticated = 512
)

// CheckDescriptors returns an error if this process can't open the files that n workers need. It
// raises the soft limit (RLIMIT_NOFILE) to the hard limit if necessary.
func CheckDescriptors(f worker.Capabilities, n int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return nil // the limit is unknown
	}
	return raiseDescriptors(f, n, l, func(l *unix.Rlimit) error { return unix.Setrlimit(unix.RLIMIT_NOFILE, l) })
}

func raiseDescriptors(f worker.Capabilities, n int, l unix.Rlimit, set func(*unix.Rlimit) error) error {
	each := remoteDescriptors
	if f.Local {
		each = localDescriptors
	}
	need := uint64(n)*uint64(each) + otherDescriptors
	if need <= l.Cur {
		return nil
	}
	if need > l.Max {
		return fmt.Errorf("%d workers need %d open files (%d each and %d others), the limit is %d (RLIMIT_NOFILE): at most %d workers",
			n, need, each, otherDescriptors, l.Max, (max(l.Max, otherDescriptors)-otherDescriptors)/uint64(each))
	}
	l.Cur = l.Max
	if err := set(&l); err != nil {
		return fmt.Errorf("raising the limit of open files (RLIMIT_NOFILE) to %d: %w", l.Max, err)
	}
	return nil
}

// defaultUnauthenticated returns a limit that leaves most of the open files to workers.
func defaultUnauthenticated() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return maxUnauthenticated
	}
	return int(min(maxUnauthenticated, max(16, l.Cur/8)))
}
