//go:build unix && !linux

package shm

import (
	"errors"
	"fmt"
)

// Elsewhere arrays are named files.

func createMemfd(int64, int) (*segment, error) { return nil, errNoMemfd }

func (seg *segment) seal() error { return errNoMemfd }

func (seg *segment) exclude() (fd int, ok bool, err error) { return -1, false, errNoMemfd }

func openMemfd(int, int, bool) (got int, size int64, err error) {
	return -1, 0, fmt.Errorf("%w: %w", ErrForeign, errNoMemfd)
}

func openFile(string, []string) (fd int, path string, err error) {
	return -1, "", fmt.Errorf("a user's own file: %w", errors.ErrUnsupported)
}

func populateWrite([]byte) error { return nil }

func sealedMemfd(int) bool { return false }

func leadsTo(int, int, uint64, uint64) bool { return false }

// listProcesses knows no mappings on other systems.
func listProcesses(list []Info) ([]Info, error) { return list, nil }
