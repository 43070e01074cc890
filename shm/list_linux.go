package shm

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"leat/internal/procfile"
)

// listProcesses adds the memfds of this user's processes to the list, and to each entry the
// processes that have it mapped. It skips processes that end meanwhile or may not be inspected.
func listProcesses(list []Info) ([]Info, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	known := map[fileID]int{}
	for i, info := range list {
		known[fileID{info.dev, info.ino}] = i
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Stat("/proc/"+e.Name(), &st) == nil && int(st.Uid) == os.Geteuid() {
			pids = append(pids, pid)
		}
	}
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range fds {
			target, err := os.Readlink(dir + e.Name())
			if err != nil || !strings.HasPrefix(target, "/memfd:"+memfdName) {
				continue
			}
			fd, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			info, ok := lookAtMemfd(pid, fd)
			k := fileID{info.dev, info.ino}
			// Other processes have it open only while they attach it.
			if _, seen := known[k]; ok && !seen {
				known[k] = len(list)
				list = append(list, info)
			}
		}
	}
	for _, pid := range pids {
		mapped, err := mappedFiles(pid)
		if err != nil {
			return nil, err
		}
		for _, m := range mapped {
			if i, ok := known[m]; ok && !slices.Contains(list[i].PIDs, pid) {
				list[i].PIDs = append(list[i].PIDs, pid)
			}
		}
	}
	return list, nil
}

func lookAtMemfd(pid, fd int) (Info, bool) {
	f, err := procfile.OpenFD(pid, fd)
	if err != nil {
		return Info{}, false
	}
	defer f.Close()
	if !strings.HasPrefix(f.Name, "/memfd:"+memfdName) {
		return Info{}, false
	}
	own, err := f.Open(unix.O_RDONLY)
	if err != nil {
		return Info{}, false
	}
	defer unix.Close(own)
	info, ok := describe(own)
	info.Name, info.Maker, info.Held = "/proc/"+strconv.Itoa(pid)+"/fd/"+strconv.Itoa(fd), pid, true
	return info, ok
}

// fileID identifies a file, whatever its names.
type fileID struct{ dev, ino uint64 }

// mappedFiles returns the files that a process has mapped.
func mappedFiles(pid int) ([]fileID, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/maps")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	defer f.Close()
	var out []fileID
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<16)
	for lines.Scan() {
		// start-end rights offset major:minor inode path. The path is useless: a file that got its
		// name after it was mapped is listed as deleted.
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[4] == "0" {
			continue
		}
		major, minor, _ := strings.Cut(fields[3], ":")
		a, err1 := strconv.ParseUint(major, 16, 32)
		b, err2 := strconv.ParseUint(minor, 16, 32)
		ino, err3 := strconv.ParseUint(fields[4], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			out = append(out, fileID{unix.Mkdev(uint32(a), uint32(b)), ino})
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	return out, nil
}
