//go:build !linux

package namespace

import (
	"errors"
	"fmt"
	"syscall"
)

// Directories can be claimed on Linux only; Join returns the error of openPlace.

func openPlace(path string, create bool) (*place, error) {
	return nil, fmt.Errorf("%s: claiming a directory: %w", path, errors.ErrUnsupported)
}

func openFilePlace(path string) (*place, error) { return openPlace(path, false) }

// Close does nothing: there are no places here.
func (p *place) Close() error { return nil }

// procState finds only whether a process exists.
func procState(pid int) procInfo {
	p := procInfo{PID: pid}
	if pid > 0 {
		err := syscall.Kill(pid, 0)
		p.Exists = err == nil || errors.Is(err, syscall.EPERM)
	}
	return p
}

// streamingJobs finds none where there is no /dev/shm.
func streamingJobs(string) ([]streamingJob, []error) { return nil, nil }

func streamingNumberTaken(string, int) bool { return false }

func (j streamingJob) mappedBy(string) (pids []int, complete bool) { return nil, true }

func seesAllProcesses(string) bool { return false }
