package namespace

import (
	"strings"
	"testing"
)

func TestKeyOfInnermostLauncher(t *testing.T) {
	const pbs, awsbatch, master = "PBS_JOBID=12[3].pbs", "AWS_BATCH_JOB_ID=uuid:3 AWS_BATCH_JOB_ARRAY_INDEX=3",
		"MASTER_ADDR=10.0.0.1 MASTER_PORT=29500"
	for name, c := range map[string]struct{ env, key, source string }{
		"nothing":                {"", "", ""},
		"LEAT_JOB":               {"LEAT_JOB=mine " + torchEnv + " " + slurmEnv, "mine", "LEAT_JOB"},
		"torchrun without an id": {torchEnv, "torchrun:10.0.0.1:29500", "MASTER_ADDR and MASTER_PORT"},
		"torchrun with an id": {torchEnv + " TORCHELASTIC_RUN_ID=100", "torchrun:100@10.0.0.1:29500",
			"TORCHELASTIC_RUN_ID, MASTER_ADDR and MASTER_PORT"},
		"another agent with an id": {"RANK=0 TORCHELASTIC_RUN_ID=100", "torchrun:100", "TORCHELASTIC_RUN_ID"},
		"torchrun in a Slurm step": {torchEnv + " " + slurmEnv, "torchrun:10.0.0.1:29500",
			"MASTER_ADDR and MASTER_PORT"},
		"srun":                 {slurmEnv, "slurm:77.0", "SLURM_JOB_ID and SLURM_STEP_ID"},
		"srun under old names": {"SLURM_JOBID=77 SLURM_STEPID=2", "slurm:77.2", "SLURM_JOBID and SLURM_STEP_ID"},
		"srun, with a master's address from the batch script": {slurmEnv + " " + master, "slurm:77.0",
			"SLURM_JOB_ID and SLURM_STEP_ID"},
		"srun with PMIx": {slurmEnv + " PMIX_NAMESPACE=slurm.pmix.77.0", "slurm:77.0",
			"SLURM_JOB_ID and SLURM_STEP_ID"},
		"a Slurm batch script":              {batchScript, "", ""},
		"the same with its own step":        {batchScript + " SLURM_STEP_ID=4294967291", "", ""},
		"the shell of an salloc":            {batchScript + " SLURM_STEP_ID=4294967290", "", ""},
		"a batch script that sets a master": {batchScript + " " + master, "", ""},
		"a PBS script":                      {pbs, "", ""},
		"a PBS script that sets a master":   {pbs + " " + master, "", ""},
		"an AWS Batch container":            {awsbatch, "", ""},
		"a login shell with a master":       {master, "", ""},
		"Open MPI":                          {openMPIEnv, "", ""},
		"Open MPI with a namespace":         {openMPIEnv + " PMIX_NAMESPACE=123", "mpi:123", "PMIX_NAMESPACE"},
		"Open MPI in a PBS job":             {openMPIEnv + " " + pbs, "pbs:12[3].pbs", "PBS_JOBID"},
		"one of several mpiruns of a PBS job": {openMPIEnv + " PMIX_NAMESPACE=123 " + pbs, "mpi:123@pbs:12[3].pbs",
			"PMIX_NAMESPACE and PBS_JOBID"},
		"an old Open MPI in a Slurm job": {openMPIEnv + " OMPI_MCA_ess_base_jobid=9 " + batchScript,
			"mpi:9@slurm:77", "OMPI_MCA_ess_base_jobid and SLURM_JOB_ID"},
		"MPICH in a Slurm job":  {hydraEnv + " " + batchScript, "slurm:77", "SLURM_JOB_ID"},
		"Open MPI in AWS Batch": {openMPIEnv + " " + awsbatch, "awsbatch:uuid:3", "AWS_BATCH_JOB_ID"},
		"ranks given by hand": {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 " + master,
			"master:10.0.0.1:29500", "MASTER_ADDR and MASTER_PORT"},
		"ranks given by hand in a PBS job": {"RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 " + pbs,
			"pbs:12[3].pbs", "PBS_JOBID"},
		"a master without a port": {"RANK=0 MASTER_ADDR=a", "", ""},
	} {
		key, source := keyFromEnv(environ(c.env))
		if key != c.key || source != c.source {
			t.Errorf("%s: %q of %q, expected %q of %q", name, key, source, c.key, c.source)
		}
		if key != "" {
			if err := validateKey(key, source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestInvalidKeys(t *testing.T) {
	for key, want := range map[string]string{
		"":                       "blank",
		" \t":                    "blank",
		"a\nb":                   "U+000A",
		"a\x1b[31m":              "U+001B",
		"a\u202eb":               "U+202E",
		"a\xff":                  "not UTF-8",
		strings.Repeat("ü", 129): "258 bytes",
	} {
		if err := validateKey(key, "LEAT_JOB"); err == nil || !strings.Contains(err.Error(),
			want) || !strings.Contains(err.Error(), "LEAT_JOB") {
			t.Errorf("%q: %v, expected %q in it", key, err, want)
		}
	}
	for _, key := range []string{"größe 7", strings.Repeat("ü", 128), "slurm:7.0"} {
		if err := validateKey(key, "LEAT_JOB"); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}
