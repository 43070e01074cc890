package namespace

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Ranks says which process of a job this is. Counts are how many there are, indices run from 0. A
// count of 0 stands for 1, so the zero Ranks is a job of one process.
type Ranks struct {
	// Nodes is the number of machines, Node the index of this one. Both are -1 where the launcher
	// does not tell, as Open MPI does not when there are several: nothing that happens on one
	// machine needs them.
	Nodes, Node int
	// Ranks is the number of processes that the launcher started on all machines, Rank the index of
	// this one.
	Ranks, Rank int
	// LocalRanks is the number of ranks on this machine, LocalRank the index of this one among
	// them. LocalRank 0 is the leader of the machine.
	LocalRanks, LocalRank int
	// Workers is the number of processes that each rank starts by itself (a data loader's), Worker
	// the index of this one among those of its rank. No launcher knows them: they are the program's
	// to set.
	Workers, Worker int
}

// WorldFromEnv finds the world of this process in the variables that launchers set: torchrun (and
// what follows its names), Open MPI, MPICH and Intel MPI, Slurm's srun, in this order: the launcher
// that started this process itself comes before the one in whose job it runs, and torchrun and
// mpirun are run inside of Slurm jobs, not the other way round. getenv is [os.Getenv] if nil; an
// empty variable counts as one that is not set.
//
// Without a launcher the world is the zero Ranks. So it is for a process that a Slurm batch script
// or an salloc shell starts without srun: it sees the number of tasks of the allocation, but no
// other task was started beside it.
//
// Workers and Worker are 0.
//
// Settings that are incomplete, no numbers, or contradict each other are an error that names the
// variable and its value.
func WorldFromEnv(getenv func(string) string) (Ranks, error) {
	v, outer := newVars(getenv), newVars(getenv)
	below, launcher := outer.launched()
	w, whole := v.torch(below, launcher)
	if !whole {
		v.errs = append(outer.errs, v.errs...)
	}
	if err := errors.Join(v.errs...); err != nil {
		return Ranks{}, fmt.Errorf("the environment does not tell this process's place in its job: %w", err)
	}
	return w, w.validate()
}

// filled returns the world with its counts of 0 replaced by 1.
func (w Ranks) filled() Ranks {
	for _, n := range []*int{&w.Nodes, &w.Ranks, &w.LocalRanks, &w.Workers} {
		if *n == 0 {
			*n = 1
		}
	}
	return w
}

// validate reports everything that can't be so.
func (w Ranks) validate() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf("World: "+format, a...)) }
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
			bad("%s is %d: give a number from 1 to %d", c.countName, c.count, maxCount)
		case c.index < 0 || c.index >= c.count:
			bad("%s is %d with %s %d: give a number from 0 to %d", c.name, c.index, c.countName, c.count, c.count-1)
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
		bad("LocalRanks is %d and Ranks %d on a single node: they must be equal, or Nodes set", f.LocalRanks, f.Ranks)
	case f.LocalRanks > f.Ranks-(f.Nodes-1):
		bad("Nodes is %d and LocalRanks %d, but Ranks only %d: each node has a rank", f.Nodes, f.LocalRanks, f.Ranks)
	}
	return errors.Join(errs...)
}

// maxCount is far above all real counts and keeps sums of them inside an int32.
const maxCount = 1 << 24

// vars reads numbers from the environment and gathers what is wrong with them.
type vars struct {
	getenv func(string) string
	errs   []error
}

func newVars(getenv func(string) string) *vars {
	if getenv == nil {
		getenv = os.Getenv
	}
	return &vars{getenv: getenv}
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
			v.failf("%s=%q is not a number from 0 to %d: unset it, or set it as the launcher does", name, text,
				maxCount)
			return -1, name
		}
		return n, name
	}
	return -1, names[0]
}

// four are the variables in which most launchers tell a world.
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

// world makes a world of four numbers that are all set. Its nodes are known if there is one.
func (v *vars) world(f four, n [4]int) Ranks {
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

// below checks an index against its count. What is -1 was not set, and is an error of its own.
func (v *vars) below(indexName string, index int, countName string, count int) {
	if index >= 0 && count >= 0 && index >= count {
		v.failf("%s=%d is not below %s=%d", indexName, index, countName, count)
	}
}

// all reports the variables of a launcher that are missing while others of it are set.
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
		v.failf("%s set, but not %s: set them all, as the launcher does, or unset them",
			strings.Join(present, " "), strings.Join(missing, ", "))
	}
	return len(v.errs) == before
}
