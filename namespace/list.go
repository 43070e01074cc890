//go:build unix

package namespace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/lockfile"
)

// Job describes a namespace.
type Job struct {
	Key     string    `json:"key"`
	Name    string    `json:"name,omitempty"`
	Number  int       `json:"number"`
	Live    bool      `json:"live"` // false: left by killed processes, until a later registration or GC removes it
	Host    string    `json:"host"`
	PID     int       `json:"pid"` // of the process that registered it
	Since   time.Time `json:"since"`
	Command string    `json:"command"`
	Claims  []Claim   `json:"claims"`
	Members []Member  `json:"members"`
	Shared  []Shared  `json:"shared"` // regions, counters, barriers and directories, by name
}

// Claim is a directory or file that a job uses.
type Claim struct {
	Path      string `json:"path"`
	Remote    string `json:"remote,omitempty"`
	Exclusive bool   `json:"exclusive"`
}

// Shared is an object that members share by name.
type Shared struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"` // 0 for a directory
}

// List returns this user's namespaces on this host, by number. It skips job files that are damaged
// or foreign and returns an error for each. It takes no locks. Without a runtime directory there
// are no namespaces.
func List() (jobs []Job, problems []error) {
	root, dir, err := openJobs()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{err}
	}
	defer root.Close()
	defer dir.Close()
	list, problems := eachJob(dir)
	for _, f := range list {
		j := Job{Key: f.record.Key, Name: f.record.Name, Number: f.record.Number, Host: f.record.Host,
			PID: f.record.PID, Since: f.record.Since, Command: f.record.Command, Members: f.members}
		for _, m := range f.members {
			j.Live = j.Live || m.Alive
		}
		for _, c := range f.record.Claims {
			j.Claims = append(j.Claims, Claim{Path: c.Path, Remote: c.Remote, Exclusive: c.Exclusive})
		}
		if j.Live { // otherwise another job may have its number by now
			j.Shared = sharedObjects(root, j.Number)
		}
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, func(a, b Job) int { return a.Number - b.Number })
	return jobs, problems
}

func openJobs() (root, jobs *lockfile.Dir, err error) {
	path := lockfile.RootPath()
	if _, err := os.Lstat(path); err != nil && filepath.IsAbs(path) {
		return nil, nil, err // OpenRoot would make it
	}
	if root, err = lockfile.OpenRoot(path, lockfile.RootVariable); err != nil {
		return nil, nil, err
	}
	if jobs, err = root.OpenSub("jobs"); err != nil {
		return nil, nil, errors.Join(err, root.Close())
	}
	return root, jobs, nil
}

func sharedObjects(root *lockfile.Dir, number int) []Shared {
	dir, err := root.OpenSub(prefixOf(number))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return nil
	}
	slices.Sort(names)
	var list []Shared
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(dir.Fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		s := Shared{Name: name}
		if st.Mode&unix.S_IFMT == unix.S_IFREG {
			s.Bytes = st.Size
		}
		list = append(list, s)
	}
	return list
}

// Usable returns an error if the runtime directory cannot be used. A missing one can.
func Usable() error {
	root, jobs, err := openJobs()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(jobs.Close(), root.Close())
}

// GC removes what killed jobs left in the runtime directory and returns the paths. It does not
// touch what a live process holds. With dryRun, it returns what it would remove, and removes
// nothing.
func GC(dryRun bool) (removed []string, err error) {
	if dryRun {
		return leftovers((*lockfile.Dir).Unused, reclaimable)
	}
	return leftovers((*lockfile.Dir).Sweep, reclaim)
}

// leftovers returns the paths of the records and of the numbers of jobs for which record and number
// return true.
func leftovers(record func(d *lockfile.Dir, name string) (bool, error),
	number func(root, claims *lockfile.Dir, number int) (bool, error)) (found []string, err error) {
	root, jobs, err := openJobs()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	defer jobs.Close()
	claimsDir, err := root.MakeSub("claims")
	if err != nil {
		return nil, err
	}
	defer claimsDir.Close()
	names, err := jobs.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		gone, err1 := record(jobs, name)
		if gone {
			found = append(found, jobs.FilePath(name))
		}
		err = errors.Join(err, err1)
	}
	names, err1 := root.Names()
	err = errors.Join(err, err1)
	for _, name := range names {
		n, err1 := strconv.Atoi(name)
		if err1 != nil || n < 0 || prefixOf(n) != name {
			continue
		}
		gone, err1 := number(root, claimsDir, n)
		if gone {
			found = append(found, root.FilePath(name))
		}
		err = errors.Join(err, err1)
	}
	return found, err
}
