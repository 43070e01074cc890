package client

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"leat/internal/worker/protocol"
	"leat/worker"
)

// readSecret reads a file that only this user can have written or read. It checks the opened file,
// not its path.
func readSecret(path string) ([]byte, error) {
	// O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", worker.EnvFile, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", worker.EnvFile, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %s is not a regular file", worker.EnvFile, path)
	case !ok || int(st.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s: %s belongs to another user", worker.EnvFile, path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s: %s is accessible to others (mode %04o), expected 0600", worker.EnvFile,
			path, info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, protocol.MaxEndpoint+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", worker.EnvFile, err)
	}
	return b, nil
}
