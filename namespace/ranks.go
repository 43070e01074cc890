package namespace

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Ranks is the place of a process in its job. Indices run from 0; a count of 0 stands for 1, so
// Ranks{Ranks: 1} is a job of one process.
type Ranks struct {
	// Nodes is the number of hosts, Node the index of this one. Both are -1 if the launcher does
	// not set them, as Open MPI does not on several hosts; nothing within one host needs them.
	Nodes, Node int
	// Ranks is the number of processes that the launcher started on all hosts, Rank the index of
	// this one.
	Ranks, Rank int
	// LocalRanks is the number of ranks on this host, LocalRank the index of this one among them.
	// LocalRank 0 is the leader of the host.
	LocalRanks, LocalRank int
	// Workers is the number of processes that each rank starts itself (those of a data loader),
	// Worker the index of this one among those of its rank. Launchers do not know them: the program
	// sets them.
	Workers, Worker int
}

// ranksFromEnv returns the ranks in the environment variables of the launcher. torchrun and mpirun
// come before srun, since they run inside Slurm jobs and not the other way round. Without a
// launcher it returns the zero Ranks, even for a process of a Slurm batch script that srun did not
// start.
func ranksFromEnv(getenv func(string) string) (Ranks, error) {
	v, outer := &vars{getenv: getenv}, &vars{getenv: getenv}
	below, launcher := outer.launched()
	w, whole := v.torch(below, launcher)
	if !whole {
		v.errs = append(outer.errs, v.errs...)
	}
	if err := errors.Join(v.errs...); err != nil {
		return Ranks{}, fmt.Errorf("ranks from the environment: %w", err)
	}
	return w, w.validate()
}

// ranksOf returns the given ranks, or those of the environment if all but the workers are zero.
func ranksOf(given Ranks) (Ranks, error) {
	if given != (Ranks{Workers: given.Workers, Worker: given.Worker}) {
		given = given.filled()
		return given, given.validate()
	}
	w, err := ranksFromEnv(os.Getenv)
	if err != nil {
		return Ranks{}, err
	}
	w.Workers, w.Worker = given.Workers, given.Worker
	return w, w.validate()
}

// filled returns w with its counts of 0 replaced by 1.
func (w Ranks) filled() Ranks {
	for _, n := range []*int{&w.Nodes, &w.Ranks, &w.LocalRanks, &w.Workers} {
		if *n == 0 {
			*n = 1
		}
	}
	return w
}

// validate returns an error that names all wrong fields.
func (w Ranks) validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("Ranks: "+format, a...)) }
	f := w.filled()
	unknown := f.Nodes == -1 && f.Node == -1
	for _, c := range []struct {
		countName, name string
		count, index    int
	}{
		{"Nodes", "Node", f.Nodes, f.Node},
		{"Ranks", "Rank", f.Ranks, f.Rank},
		{"LocalRanks", "LocalRank", f.LocalRanks, f.LocalRank},
		{"Workers", "Worker", f.Workers, f.Worker},
	} {
		switch {
		case c.countName == "Nodes" && unknown:
		case c.count < 0 || c.count > maxCount:
			bad("%s is %d, expected 1 to %d", c.countName, c.count, maxCount)
		case c.index < 0 || c.index >= c.count:
			bad("%s is %d with %s %d, expected 0 to %d", c.name, c.index, c.countName, c.count, c.count-1)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	switch {
	case f.LocalRanks > f.Ranks:
		bad("LocalRanks is %d, more than Ranks, %d", f.LocalRanks, f.Ranks)
	case unknown:
	case f.Nodes == 1 && f.LocalRanks != f.Ranks:
		bad("LocalRanks is %d and Ranks %d on a single node, expected equal numbers", f.LocalRanks, f.Ranks)
	case f.LocalRanks > f.Ranks-(f.Nodes-1):
		bad("Nodes is %d and LocalRanks %d, but Ranks only %d: each node has a rank", f.Nodes, f.LocalRanks, f.Ranks)
	}
	return errors.Join(errs...)
}

// maxCount exceeds all real counts, and sums of them fit into an int32.
const maxCount = 1 << 24

// vars reads numbers from the environment and collects errors.
type vars struct {
	getenv func(string) string
	errs   []error
}

func (v *vars) failf(format string, a ...any) { v.errs = append(v.errs, fmt.Errorf(format, a...)) }

// number returns the first of the named variables that is set, and its name; -1 if none is.
func (v *vars) number(names ...string) (int, string) {
	for _, name := range names {
		text := v.getenv(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > maxCount {
			v.failf("%s=%q is not a number from 0 to %d", name, text, maxCount)
			return -1, name
		}
		return n, name
	}
	return -1, names[0]
}

// four names the variables of most launchers.
type four struct {
	rank, ranks, localRank, localRanks string
}

func (f four) names() [4]string { return [4]string{f.rank, f.ranks, f.localRank, f.localRanks} }

// read returns the four numbers in the order of names, -1 for those not set.
func (v *vars) read(f four) (n [4]int, set int) {
	for i, name := range f.names() {
		n[i], _ = v.number(name)
		if v.getenv(name) != "" {
			set++
		}
	}
	return n, set
}

// ranks returns the Ranks of four numbers that are all set. Nodes is known only if it is 1.
func (v *vars) ranks(f four, n [4]int) Ranks {
	v.below(f.rank, n[0], f.ranks, n[1])
	v.below(f.localRank, n[2], f.localRanks, n[3])
	if n[3] > n[1] {
		v.failf("%s=%d is more than %s=%d", f.localRanks, n[3], f.ranks, n[1])
	}
	w := Ranks{Nodes: -1, Node: -1, Rank: n[0], Ranks: n[1], LocalRank: n[2], LocalRanks: n[3]}
	if n[3] == n[1] {
		w.Nodes, w.Node = 1, 0
	}
	return w
}

// below records an error for an index that is not below its count. -1 is unset, another error.
func (v *vars) below(indexName string, index int, countName string, count int) {
	if index >= 0 && count >= 0 && index >= count {
		v.failf("%s=%d is not below %s=%d", indexName, index, countName, count)
	}
}

// all reports whether all variables of a launcher are set and valid, and records the missing ones.
func (v *vars) all(f four, n [4]int) bool {
	before := len(v.errs)
	var present, missing []string
	for i, name := range f.names() {
		if v.getenv(name) == "" {
			missing = append(missing, name)
		} else {
			present = append(present, name+"="+v.getenv(name))
		}
		if n[i] < 0 && v.getenv(name) != "" {
			return false // reported when it was read
		}
	}
	if len(missing) > 0 {
		v.failf("%s set, but not %s",
			strings.Join(present, " "), strings.Join(missing, ", "))
	}
	return len(v.errs) == before
}
