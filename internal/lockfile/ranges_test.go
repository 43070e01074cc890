//go:build unix

package lockfile

import (
	"fmt"
	"path/filepath"
	"time"
)

// The child processes of the tests of Ranges, which are for Linux.

// rangesHammer tries to lock the number 7 alone, without end, and prints when it got it.
func rangesHammer(args []string) error {
	d, err := OpenRoot(filepath.Join(args[0], "leat"), "LEAT_RUNTIME_DIR")
	if err != nil {
		return err
	}
	r, err := d.OpenRanges("locks")
	if err != nil {
		return err
	}
	for tries := 0; ; tries++ {
		got, err := r.Try(Write, 7, 1)
		if err != nil {
			return err
		}
		if got {
			return mark(filepath.Join(args[0], "got"))
		}
		if tries == 100 {
			if err := mark(filepath.Join(args[0], "hammering")); err != nil {
				return err
			}
		}
	}
}

// rangesHolder holds the numbers 0 to 9 alone until it is killed.
func rangesHolder(args []string) error {
	d, err := OpenRoot(filepath.Join(args[0], "leat"), "LEAT_RUNTIME_DIR")
	if err != nil {
		return err
	}
	r, err := d.OpenRanges("locks")
	if err != nil {
		return err
	}
	if got, err := r.Try(Write, 0, 10); !got || err != nil {
		return fmt.Errorf("not locked: %w", err)
	}
	if err := mark(filepath.Join(args[0], "ready")); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}
