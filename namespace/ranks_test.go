package namespace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// environ makes a getenv of lines "NAME=value NAME=value".
func environ(settings ...string) func(string) string {
	m := map[string]string{}
	for _, s := range settings {
		for nv := range strings.FieldsSeq(s) {
			name, value, _ := strings.Cut(nv, "=")
			m[name] = value
		}
	}
	return func(name string) string { return m[name] }
}

const (
	torchEnv = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1 GROUP_WORLD_SIZE=2 ROLE_RANK=5 " +
		"MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 TORCHELASTIC_RUN_ID=none"
	slurmEnv = "SLURM_JOB_ID=77 SLURM_STEP_ID=0 SLURM_PROCID=9 SLURM_NTASKS=11 SLURM_LOCALID=1 " +
		"SLURM_STEP_TASKS_PER_NODE=4(x2),3 SLURM_NNODES=3 SLURM_NODEID=2"
	batchScript = "SLURM_JOB_ID=77 SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NNODES=2 SLURM_TASKS_PER_NODE=4(x2)"
	openMPIEnv  = "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=4"
	hydraEnv    = "PMI_RANK=2 PMI_SIZE=4 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2"
)

func TestRanksFromLauncher(t *testing.T) {
	slurmWorld := Ranks{Nodes: 3, Node: 2, Ranks: 11, Rank: 9, LocalRanks: 3, LocalRank: 1}
	torchWorld := Ranks{Nodes: 2, Node: 1, Ranks: 8, Rank: 5, LocalRanks: 4, LocalRank: 1}
	for name, c := range map[string]struct {
		env  string
		want Ranks
	}{
		"no launcher":               {"", Ranks{}},
		"torchrun":                  {torchEnv, torchWorld},
		"torchrun of unequal nodes": {"RANK=6 WORLD_SIZE=7 LOCAL_RANK=2 LOCAL_WORLD_SIZE=3 GROUP_RANK=1 GROUP_WORLD_SIZE=2", Ranks{Nodes: 2, Node: 1, Ranks: 7, Rank: 6, LocalRanks: 3, LocalRank: 2}},
		"a launcher with NODE_RANK": {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 NODE_RANK=1",
			torchWorld},
		"no index of the node": {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4",
			Ranks{Nodes: -1, Node: -1, Ranks: 8, Rank: 5, LocalRanks: 4, LocalRank: 1}},
		"torchrun on one node": {"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2",
			Ranks{Nodes: 1, Ranks: 2, Rank: 1, LocalRanks: 2, LocalRank: 1}},
		"torchrun inside a Slurm step":        {torchEnv + " " + slurmEnv, torchWorld},
		"torchrun inside a broken Slurm step": {torchEnv + " SLURM_STEP_ID=0 SLURM_PROCID=x", torchWorld},
		"torchrun inside of mpirun":           {torchEnv + " " + openMPIEnv, torchWorld},
		"Open MPI on one node": {openMPIEnv,
			Ranks{Nodes: 1, Ranks: 4, Rank: 3, LocalRanks: 4, LocalRank: 3}},
		"Open MPI on several nodes": {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=6 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2", Ranks{Nodes: -1, Node: -1, Ranks: 6, Rank: 3, LocalRanks: 2, LocalRank: 1}},
		"Open MPI started through srun": {openMPIEnv + " " + slurmEnv,
			Ranks{Nodes: 1, Ranks: 4, Rank: 3, LocalRanks: 4, LocalRank: 3}},
		"MPICH started through srun": {hydraEnv + " " + slurmEnv,
			Ranks{Nodes: -1, Node: -1, Ranks: 4, Rank: 2, LocalRanks: 2, LocalRank: 0}},
		"srun":          {slurmEnv, slurmWorld},
		"srun with PMI": {slurmEnv + " PMI_RANK=9 PMI_SIZE=11", slurmWorld},
		"srun on the first node": {slurmEnv + " SLURM_NODEID=0 SLURM_PROCID=3 SLURM_LOCALID=3",
			Ranks{Nodes: 3, Node: 0, Ranks: 11, Rank: 3, LocalRanks: 4, LocalRank: 3}},
		"a step smaller than its job": {slurmEnv +
			" SLURM_NTASKS=40 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_STEP_NUM_NODES=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2", Ranks{Nodes: 1, Ranks: 2, Rank: 1, LocalRanks: 2, LocalRank: 1}},
		"srun, by tasks per node asked for": {"SLURM_STEP_ID=3 SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1 SLURM_NTASKS_PER_NODE=2 SLURM_NNODES=2 SLURM_NODEID=1", Ranks{Nodes: 2, Node: 1, Ranks: 4, Rank: 3, LocalRanks: 2, LocalRank: 1}},
		"srun with one task on each node":   {"SLURM_STEP_ID=3 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_NNODES=2 SLURM_NODEID=1", Ranks{Nodes: 2, Node: 1, Ranks: 2, Rank: 1, LocalRanks: 1}},
		"srun on a single node":             {"SLURM_STEP_ID=3 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_LOCALID=1 SLURM_NNODES=1", Ranks{Nodes: 1, Ranks: 2, Rank: 1, LocalRanks: 2, LocalRank: 1}},
		"a Slurm batch script":              {batchScript, Ranks{}},
		"the step of a batch script":        {batchScript + " SLURM_STEP_ID=4294967291", Ranks{}},
		"the shell of an salloc":            {batchScript + " SLURM_STEP_ID=4294967290", Ranks{}},
		"tasks that take their rank from Slurm": {slurmEnv +
			" RANK=9 WORLD_SIZE=11 LOCAL_RANK=1 MASTER_ADDR=a MASTER_PORT=1", slurmWorld},
		"a script that sets WORLD_SIZE only": {slurmEnv + " WORLD_SIZE=11", slurmWorld},
		"one rank set by hand":               {"RANK=0 WORLD_SIZE=1", Ranks{}},
		"mpirun in a PBS job": {openMPIEnv + " PBS_JOBID=1.pbs",
			Ranks{Nodes: 1, Ranks: 4, Rank: 3, LocalRanks: 4, LocalRank: 3}},
	} {
		got, err := ranksFromEnv(environ(c.env))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-expected +got):\n%s", name, diff)
		}
	}
}

func TestRanksFromEnvErrors(t *testing.T) {
	for env, want := range map[string]string{
		"RANK=3":                          "RANK=3 set, but not WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE",
		"RANK=0 WORLD_SIZE=8":             "but not LOCAL_RANK, LOCAL_WORLD_SIZE",
		"WORLD_SIZE=8":                    "WORLD_SIZE=8 set, but not RANK",
		"LOCAL_RANK=-1":                   `LOCAL_RANK="-1" is not a number`,
		"RANK=gold":                       `RANK="gold" is not a number`,
		"WORLD_SIZE=99999999999999999999": "WORLD_SIZE=",
		"RANK=8 WORLD_SIZE=8 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4":                                 "RANK=8 is not below WORLD_SIZE=8",
		"RANK=1 WORLD_SIZE=8 LOCAL_RANK=4 LOCAL_WORLD_SIZE=4":                                 "LOCAL_RANK=4 is not below LOCAL_WORLD_SIZE=4",
		"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4":                                 "LOCAL_WORLD_SIZE=4 is more than WORLD_SIZE=2",
		"RANK=0 WORLD_SIZE=0 LOCAL_RANK=0 LOCAL_WORLD_SIZE=0":                                 "RANK=0 is not below WORLD_SIZE=0",
		"RANK=1 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 NODE_RANK=2":                     "NODE_RANK=2 is not below",
		"RANK=1 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 GROUP_WORLD_SIZE=1": "GROUP_WORLD_SIZE=1 contradicts WORLD_SIZE=8",
		"RANK=1 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=0 GROUP_WORLD_SIZE=6": "GROUP_WORLD_SIZE=6 contradicts",
		"RANK=1 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=two":                  `GROUP_RANK="two"`,
		slurmEnv + " RANK=8":                                   "RANK=8, but 9 according to the variables of Slurm",
		slurmEnv + " WORLD_SIZE=8 RANK=9":                      "WORLD_SIZE=8, but 11 according to",
		slurmEnv + " WORLD_SIZE=11 SLURM_PROCID=":              "not SLURM_PROCID",
		slurmEnv + " SLURM_PROCID=11":                          "SLURM_PROCID=11 is not below SLURM_NTASKS=11",
		slurmEnv + " SLURM_LOCALID=3":                          "SLURM_LOCALID=3, but there are 3 tasks on node 2",
		slurmEnv + " SLURM_NTASKS=12":                          `SLURM_NTASKS=12, but SLURM_STEP_TASKS_PER_NODE="4(x2),3" adds up to 11`,
		slurmEnv + " SLURM_NODEID=3":                           "SLURM_NODEID=3 is not below",
		slurmEnv + " SLURM_NODEID=":                            "SLURM_NODEID is not set",
		slurmEnv + " SLURM_STEP_NUM_NODES=2":                   "SLURM_STEP_NUM_NODES=2, but",
		slurmEnv + " SLURM_STEP_TASKS_PER_NODE=4(y2)":          `"4(y2)" is not a number of tasks`,
		slurmEnv + " SLURM_STEP_TASKS_PER_NODE=1(x2000000000)": "not a number of tasks",
		slurmEnv + " SLURM_NTASKS=":                            "SLURM_NTASKS",
		"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=5 SLURM_LOCALID=0 SLURM_NTASKS_PER_NODE=3 SLURM_NNODES=2 SLURM_NODEID=1": "SLURM_NTASKS_PER_NODE=3 does not determine",
		"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=5 SLURM_LOCALID=0":                                                       "neither SLURM_STEP_NUM_NODES nor SLURM_NNODES",
		"OMPI_COMM_WORLD_RANK=1":                     "OMPI_COMM_WORLD_RANK=1 set, but not OMPI_COMM_WORLD_SIZE",
		openMPIEnv + " OMPI_COMM_WORLD_LOCAL_RANK=9": "OMPI_COMM_WORLD_LOCAL_RANK=9 is not below OMPI_COMM_WORLD_LOCAL_SIZE=4",
		"MPI_LOCALRANKID=0":                          "but not PMI_RANK",
	} {
		w, err := ranksFromEnv(environ(env))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; expected %q in the error", env, w, err, want)
		}
	}
}

func TestInvalidRanks(t *testing.T) {
	good := []Ranks{
		{}, {Ranks: 4, Rank: 3, LocalRanks: 4, LocalRank: 3}, {Nodes: 2, Node: 1, Ranks: 3, Rank: 2, LocalRanks: 1},
		{Workers: 4, Worker: 3}, {Nodes: -1, Node: -1, Ranks: 3, LocalRanks: 1},
	}
	for _, w := range good {
		if err := w.validate(); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
	}
	for _, c := range []struct {
		w    Ranks
		want []string
	}{
		{Ranks{Rank: 1, Worker: -1}, []string{"Rank is 1 with Ranks 1", "Worker is -1"}},
		{Ranks{Nodes: -2, Ranks: 1 << 30}, []string{"Nodes is -2", "Ranks is 1073741824"}},
		{Ranks{Nodes: -1, Node: 0}, []string{"Nodes is -1"}},
		{Ranks{Ranks: 8, LocalRanks: 4}, []string{"LocalRanks is 4 and Ranks 8 on a single node"}},
		{Ranks{Nodes: 4, Ranks: 5, LocalRanks: 3}, []string{"each node has a rank"}},
		{Ranks{Nodes: 2, Ranks: 2, LocalRanks: 3}, []string{"more than Ranks"}},
	} {
		err := c.w.validate()
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, expected %q in it", c.w, err, want)
			}
		}
	}
}

func FuzzTasksPerNode(f *testing.F) {
	for _, s := range []string{"4(x2),3", "1", "", "2(x3),", "(x2)", "16777216(x16777216)", "0(x3)"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, text string, node int) {
		here, sum, length, err := tasksPerNode(text, node)
		if err != nil {
			return
		}
		if here < 0 || here > sum || length < 1 || sum > maxCount || length > maxCount {
			t.Fatalf("%q: %d of %d on %d nodes", text, here, sum, length)
		}
		if length < 1000 { // by the long way
			total := 0
			for i := range length {
				n, _, _, _ := tasksPerNode(text, i)
				total += n
			}
			if total != sum {
				t.Fatalf("%q: the nodes have %d together, not %d", text, total, sum)
			}
		}
	})
}
