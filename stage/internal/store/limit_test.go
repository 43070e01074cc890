//go:build linux

package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"leat/internal/proctest"
)

// underLimit works where a file may have 2.5 MiB: a write beyond it would be a signal.
func underLimit(args []string) error {
	const limit = 5 << 19
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	s, err := openAt(filepath.Join(args[0], "stage"), numbersFrom(1))
	if err != nil {
		return err
	}
	if _, err := s.Create(limit+1, ""); !errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("a file that is too long: %w", err)
	}
	d, err := s.Create(-1, "")
	if err != nil {
		return err
	}
	if _, err := d.WriteAt(make([]byte, 2), limit-1); !errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("a write beyond the limit: %w", err)
	}
	if err := d.Close(); err != nil {
		return err
	}
	var all []Place
	for i := range 10 {
		d, err := store(s, object(uint64(i), PackBelow-1), "")
		if err != nil {
			return err
		}
		if err := d.Close(); err != nil {
			return err
		}
		all = append(all, d.Place())
	}
	for i, p := range all {
		if err := check(s, p, object(uint64(i), PackBelow-1)); err != nil {
			return err
		}
	}
	return s.Close()
}

func TestFileLimit(t *testing.T) {
	awaitEnd(t, proctest.New("file limit", t.TempDir()).Start(t))
}
