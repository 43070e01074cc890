package namespace

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxKeyBytes = 256

// keyFromEnv returns the key of the job, and the variables that it comes from. Both are "" if no
// variable identifies a job: the process is then a job of its own.
//
// The launcher that started this process takes precedence over the batch job around it. The batch
// job counts only if a launcher has given this process a rank: two commands of one batch script are
// two jobs.
func keyFromEnv(getenv func(string) string) (key, source string) {
	if job := getenv("LEAT_JOB"); job != "" {
		return job, "LEAT_JOB"
	}
	master := ""
	if addr, port := getenv("MASTER_ADDR"), getenv("MASTER_PORT"); addr != "" && port != "" {
		master = addr + ":" + port
	}
	if run := getenv("TORCHELASTIC_RUN_ID"); run != "" && getenv("RANK") != "" {
		// The id alone is not enough: it is "none" unless the user gives one, and then often the
		// same for all of their jobs. torchrun itself sets an address; another agent may not.
		switch {
		case run == "none" && master != "":
			return "torchrun:" + master, "MASTER_ADDR and MASTER_PORT"
		case run != "none" && master != "":
			return "torchrun:" + run + "@" + master, "TORCHELASTIC_RUN_ID, MASTER_ADDR and MASTER_PORT"
		case run != "none":
			return "torchrun:" + run, "TORCHELASTIC_RUN_ID"
		}
	}
	batch, batchSource := batchJob(getenv)
	if getenv(openMPI.rank) != "" || getenv(hydra.localRank) != "" {
		for _, name := range []string{"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"} {
			id := getenv(name)
			switch {
			case id != "" && batch != "":
				return "mpi:" + id + "@" + batch, name + " and " + batchSource
			case id != "":
				return "mpi:" + id, name
			}
		}
	} else if job, jobName := slurmJob(getenv); job != "" {
		if step := slurmStep(getenv); step != "" {
			return "slurm:" + job + "." + step, jobName + " and SLURM_STEP_ID"
		}
	}
	switch {
	case !ranked(getenv):
		return "", ""
	case batch != "":
		return batch, batchSource
	case master != "":
		return "master:" + master, "MASTER_ADDR and MASTER_PORT"
	}
	return "", ""
}

// batchJob returns the id of the batch job around this process. Each child of an array job has an
// id of its own in all of them: Slurm gives it a number, PBS writes 12[3], AWS Batch adds :3
// (AWS_BATCH_JOB_ARRAY_INDEX says it once more).
func batchJob(getenv func(string) string) (id, source string) {
	if job, name := slurmJob(getenv); job != "" {
		return "slurm:" + job, name
	}
	if job := getenv("PBS_JOBID"); job != "" {
		return "pbs:" + job, "PBS_JOBID"
	}
	if job := getenv("AWS_BATCH_JOB_ID"); job != "" {
		return "awsbatch:" + job, "AWS_BATCH_JOB_ID"
	}
	return "", ""
}

func slurmJob(getenv func(string) string) (id, name string) {
	for _, name := range []string{"SLURM_JOB_ID", "SLURM_JOBID"} {
		if id := getenv(name); id != "" {
			return id, name
		}
	}
	return "", ""
}

// ranked reports whether a launcher has given this process a rank.
func ranked(getenv func(string) string) bool {
	for _, name := range []string{torchVars.rank, torchVars.localRank, openMPI.rank, hydra.localRank} {
		if getenv(name) != "" {
			return true
		}
	}
	return slurmStep(getenv) != ""
}

// validateKey returns an error for a key that cannot be shown or stored. source is where it comes
// from.
func validateKey(key, source string) error {
	switch {
	case strings.TrimSpace(key) == "":
		return fmt.Errorf("job key of %s is blank", source)
	case len(key) > maxKeyBytes:
		return fmt.Errorf("job key of %s has %d bytes, expected at most %d", source, len(key), maxKeyBytes)
	case !utf8.ValidString(key):
		return fmt.Errorf("job key of %s is not UTF-8: %q", source, key)
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("job key of %s has the unprintable character %U: %q", source, r, key)
		}
	}
	return nil
}
