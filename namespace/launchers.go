package namespace

import (
	"fmt"
	"strconv"
	"strings"
)

var (
	torchVars = four{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}
	openMPI   = four{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE"}
	// hydra starts the ranks of MPICH and Intel MPI. srun sets the first two as well, but not the
	// local ones.
	hydra = four{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}
)

// launched returns the ranks of a launcher other than torchrun, and its name, "" if there is none.
func (v *vars) launched() (Ranks, string) {
	if n, set := v.read(openMPI); set > 0 {
		if !v.all(openMPI, n) {
			return Ranks{}, "Open MPI"
		}
		return v.ranks(openMPI, n), "Open MPI"
	}
	if v.getenv(hydra.localRank) != "" {
		n, _ := v.read(hydra)
		if !v.all(hydra, n) {
			return Ranks{}, "MPI"
		}
		return v.ranks(hydra, n), "MPI"
	}
	if step := slurmStep(v.getenv); step != "" {
		return v.slurm(), "Slurm"
	}
	return Ranks{}, ""
}

// torch returns the ranks of torchrun's variables; whole reports whether all are set. Job scripts
// set some of them by hand (WORLD_SIZE for all tasks, RANK by each task from SLURM_PROCID): then it
// returns those of the launcher below, which must agree with the ones that are set.
func (v *vars) torch(below Ranks, launcher string) (w Ranks, whole bool) {
	n, set := v.read(torchVars)
	if len(v.errs) > 0 || set == 0 {
		return below, false
	}
	if set < len(n) {
		v.agree(below.filled(), launcher, n)
		return below, false
	}
	w = v.ranks(torchVars, n)
	node, nodeName := v.number("GROUP_RANK", "NODE_RANK")
	nodes, nodesName := v.number("GROUP_WORLD_SIZE")
	ranks, localRanks := n[1], n[3]
	switch {
	case len(v.errs) > 0:
	case nodes >= 0 && (nodes == 1) != (localRanks == ranks), nodes > 1 && localRanks > ranks-(nodes-1):
		v.failf("%s=%d contradicts %s=%d and %s=%d", nodesName, nodes, torchVars.ranks, ranks, torchVars.localRanks,
			localRanks)
	case nodes < 0 && ranks%localRanks == 0: // launchers without it start equally many ranks on each node
		nodes, nodesName = ranks/localRanks, "WORLD_SIZE/LOCAL_WORLD_SIZE"
	}
	v.below(nodeName, node, nodesName, nodes)
	if node >= 0 && nodes >= 0 {
		w.Nodes, w.Node = nodes, node
	}
	return w, true
}

// agree records an error if those of torchrun's variables that are set contradict the launcher
// below.
func (v *vars) agree(below Ranks, launcher string, n [4]int) {
	for i, want := range [4]int{below.Rank, below.Ranks, below.LocalRank, below.LocalRanks} {
		names := torchVars.names()
		switch {
		case n[i] < 0 || n[i] == want:
		case launcher == "":
			v.all(torchVars, n)
			return
		default:
			v.failf("%s=%d, but %d according to the variables of %s; either none or all of %s must be set", names[i], n[i], want, launcher,
				strings.Join(names[:], ", "))
		}
	}
}

// slurm returns the ranks of a task that srun started. The variables of the step come before those
// of the allocation, which may be larger and which srun does not change in an interactive step.
func (v *vars) slurm() Ranks {
	const local, id, list = "SLURM_LOCALID", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE"
	rank, _ := v.number(id)
	localRank, _ := v.number(local)
	ranks, ranksName := v.number("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")
	nodes, nodesName := v.number("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
	node, _ := v.number("SLURM_NODEID")
	perNode, _ := v.number("SLURM_NTASKS_PER_NODE")
	for _, name := range []string{id, local, ranksName} {
		if v.getenv(name) == "" {
			if name == ranksName {
				name = "SLURM_NTASKS"
			}
			v.failf("SLURM_STEP_ID=%s is set, but not %s", slurmStep(v.getenv), name)
		}
	}
	if len(v.errs) > 0 {
		return Ranks{}
	}
	localRanks := -1
	if text := v.getenv(list); text != "" {
		here, sum, length, err := tasksPerNode(text, max(node, 0))
		if err != nil {
			v.failf("%s=%q: %w", list, text, err)
			return Ranks{}
		}
		if nodesName == "SLURM_STEP_NUM_NODES" && nodes != length {
			v.failf("%s=%d, but %s=%q lists %d nodes", nodesName, nodes, list, text, length)
		}
		if sum != ranks {
			v.failf("%s=%d, but %s=%q adds up to %d tasks", ranksName, ranks, list, text, sum)
		}
		nodes, nodesName, localRanks = length, list, here
	}
	if nodes < 0 {
		v.failf("SLURM_STEP_ID=%s is set, but neither SLURM_STEP_NUM_NODES nor SLURM_NNODES",
			slurmStep(v.getenv))
		return Ranks{}
	}
	switch {
	case node < 0 && nodes == 1:
		node = 0
	case node < 0:
		v.failf("%s=%s, but SLURM_NODEID is not set", nodesName, v.getenv(nodesName))
		return Ranks{}
	case node >= nodes:
		v.failf("SLURM_NODEID=%d is not below the number of nodes, %d, of %s=%s", node, nodes, nodesName,
			v.getenv(nodesName))
		return Ranks{}
	}
	if localRanks < 0 {
		switch { // SLURM_NTASKS_PER_NODE is a maximum, so it counts only if it adds up
		case nodes == 1:
			localRanks = ranks
		case perNode > 0 && int64(perNode)*int64(nodes) == int64(ranks):
			localRanks = perNode
		case nodes == ranks:
			localRanks = 1
		default:
			v.failf("%s=%d tasks on %s=%d nodes, but %s is not set and SLURM_NTASKS_PER_NODE=%s does not determine those of this one",
				ranksName, ranks, nodesName, nodes, list, v.getenv("SLURM_NTASKS_PER_NODE"))
			return Ranks{}
		}
	}
	v.below(id, rank, ranksName, ranks)
	if localRank >= localRanks {
		v.failf("%s=%d, but there are %d tasks on node %d", local, localRank, localRanks, node)
	}
	return Ranks{Nodes: nodes, Node: node, Ranks: ranks, Rank: rank, LocalRanks: localRanks, LocalRank: localRank}
}

// slurmStep returns the step that srun started this process in, or "". Numbers from 0xfffffff0 are
// Slurm's own: the batch script, the shell of an salloc, and others without parallel tasks.
func slurmStep(getenv func(string) string) string {
	for _, name := range []string{"SLURM_STEP_ID", "SLURM_STEPID"} {
		text := getenv(name)
		if text == "" {
			continue
		}
		if n, err := strconv.ParseUint(text, 10, 32); err == nil && n >= 0xfffffff0 {
			return ""
		}
		return text
	}
	return ""
}

// tasksPerNode parses Slurm's list of tasks on each node, such as "4(x2),3" for 4, 4, 3. It returns
// the entry of a node (0 if the list is shorter), the sum and the length.
func tasksPerNode(text string, node int) (here, sum, length int, err error) {
	for entry := range strings.SplitSeq(text, ",") {
		times := 1
		tasks, rest, repeated := strings.Cut(entry, "(x")
		if repeated {
			n, ok := strings.CutSuffix(rest, ")")
			if times, err = strconv.Atoi(n); !ok || err != nil || times < 1 || times > maxCount {
				return 0, 0, 0, fmt.Errorf("%q is not a number of tasks and a repeat, such as 4(x2)", entry)
			}
		}
		n, err := strconv.Atoi(tasks)
		if err != nil || n < 0 || n > maxCount {
			return 0, 0, 0, fmt.Errorf("%q is not a number of tasks and a repeat, such as 4(x2)", entry)
		}
		if node >= length && node < length+times {
			here = n
		}
		if length += times; length > maxCount || int64(sum)+int64(n)*int64(times) > maxCount {
			return 0, 0, 0, fmt.Errorf("more than %d tasks or nodes", maxCount)
		}
		sum += n * times
	}
	return here, sum, length, nil
}
