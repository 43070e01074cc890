package namespace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// streamingJobs reads the files of MosaicML streaming's jobs in shmDir, ordered by number. It skips
// files that can't be read or are invalid, with a warning for each, and released ones without.
func streamingJobs(shmDir string) (jobs []streamingJob, warnings []error) {
	// Not os.ReadDir, which sorts all names; there may be many others.
	dir, err := os.Open(shmDir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			warnings = append(warnings, fmt.Errorf("MosaicML streaming's jobs: %w", err))
		}
		return nil, warnings
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		warnings = append(warnings, fmt.Errorf("MosaicML streaming's jobs: %w", err))
	}
	slices.Sort(names)
	for _, name := range names {
		n, ok := parseStreamingName(name)
		if !ok {
			continue
		}
		path := filepath.Join(shmDir, name)
		j, err := readStreaming(path, n)
		switch {
		case err == nil:
			jobs = append(jobs, j)
		case errors.Is(err, errReleased), errors.Is(err, fs.ErrNotExist):
		default:
			warnings = append(warnings, fmt.Errorf("%s: not a record of a MosaicML streaming job: %w", path, err))
		}
	}
	slices.SortFunc(jobs, func(a, b streamingJob) int { return a.Number - b.Number })
	return jobs, warnings
}

// readStreaming reads one file. It follows no link and does not wait for a pipe: any user may
// create files in /dev/shm.
func readStreaming(path string, n int) (streamingJob, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return streamingJob{}, errors.New("it is a symbolic link")
	case errors.Is(err, unix.ENXIO):
		return streamingJob{}, errors.New("it is not a regular file")
	case err != nil:
		return streamingJob{}, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return streamingJob{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return streamingJob{}, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, min(st.Size, maxStreamingBytes)))
	if err != nil {
		return streamingJob{}, err
	}
	number, dirs, err := unpackLocals(data, st.Size)
	if err != nil {
		return streamingJob{}, err
	}
	if number != n {
		return streamingJob{}, fmt.Errorf("its number is %d, not that of its name", number)
	}
	return streamingJob{Number: n, Dirs: dirs, Path: path, id: dirID{uint64(st.Dev), st.Ino}}, nil
}

// streamingNumberTaken reports whether a file of this number exists, whatever its content. An
// unreadable one counts.
func streamingNumberTaken(shmDir string, n int) bool {
	var st unix.Stat_t
	err := unix.Lstat(filepath.Join(shmDir, streamingName(n)), &st)
	return err != unix.ENOENT && err != unix.ENOTDIR
}

// mappedBy returns the processes that have the job's file mapped, as all processes of a live job
// do. complete is false if some process could not be read (another user's, or all of them are
// hidden), so that the job may live although no process is found. Processes of other PID namespaces
// are not seen. procDir is /proc.
func (j streamingJob) mappedBy(procDir string) (pids []int, complete bool) {
	entries, err := os.ReadDir(procDir)
	if err != nil {
		return nil, false
	}
	device := fmt.Sprintf("%02x:%02x", unix.Major(j.id.Dev), unix.Minor(j.id.Dev))
	path := j.Path
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	complete, first := true, false
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		first = first || pid == 1
		has, err := mapsHave(filepath.Join(procDir, e.Name(), "maps"), j.id, device, path)
		switch {
		case has:
			pids = append(pids, pid)
		case err != nil && !gone(err):
			complete = false
		}
	}
	slices.Sort(pids)
	// Where /proc hides the processes of others it hides the first one too, which always exists.
	return pids, complete && first
}

// initialPIDNamespace is the inode of the machine's first PID namespace (PROC_PID_INIT_INO of the
// kernel).
const initialPIDNamespace = 0xeffffffc

// seesAllProcesses reports whether procDir shows the processes of all PID namespaces, as that of
// the first one does.
func seesAllProcesses(procDir string) bool {
	var st unix.Stat_t
	return unix.Stat(filepath.Join(procDir, "self/ns/pid"), &st) == nil && st.Ino == initialPIDNamespace
}

// mapsHave looks for a file in one maps file.
func mapsHave(maps string, id dirID, device, path string) (bool, error) {
	f, err := os.Open(maps)
	if err != nil {
		return false, err
	}
	defer f.Close()
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := r.ReadSlice('\n') // a line longer than any path does not name the file
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		if mapsFile(string(line), id, device, path) {
			return true, nil
		}
		switch {
		case err == io.EOF:
			return false, nil
		case err != nil && err != bufio.ErrBufferFull:
			return false, err
		}
	}
}
