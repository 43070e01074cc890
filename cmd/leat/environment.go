package main

import (
	"fmt"
	"strings"
)

// environment lists the environment variables that the program reads; those of the options in
// settings are added to it.
var environment = []struct {
	title     string
	variables [][2]string
}{
	{"Directories", [][2]string{
		{"LEAT_CACHE_DIR", "where copies of remote inputs and caches without a name are kept"},
		{"LEAT_TEMP_FOLDER", "where shared arrays are kept that do not lie in memory"},
		{"LEAT_RUNTIME_DIR", "where the jobs of this machine are registered"},
		{"XDG_CACHE_HOME", "the user's cache directory, where LEAT_CACHE_DIR is not set"},
		{"XDG_CONFIG_HOME", "the user's directory of configuration files"},
		{"HOME", "the user's directory, where the two before are not set"},
		{"SLURM_TMPDIR", "a local directory of a Slurm job"},
		{"TMPDIR", "the directory for temporary files"},
	}},
	{"Configuration", [][2]string{
		{"LEAT_CONFIG", "the configuration file"},
		{"LEAT_PROFILE", "its profile, where --profile is not given"},
	}},
	{"GDAL", [][2]string{
		{"LEAT_GDAL_LIBRARY", "the file of GDAL's library"},
		{"LD_LIBRARY_PATH", "where the system looks for libraries before its own directories"},
		{"CONDA_PREFIX", "where a conda environment has GDAL's library"},
		{"GDAL_CACHEMAX", "GDAL's cache of blocks; else leat sets it from --memory"},
	}},
	{"Jobs and ranks", [][2]string{
		{"LEAT_JOB", "the key of the job that processes share"},
		{"SLURM_JOB_ID", "and other SLURM_ variables: the job and the rank in which leat runs"},
		{"PBS_JOBID", "the same of PBS"},
		{"AWS_BATCH_JOB_ID", "the same of AWS Batch"},
		{"SLURM_STEP_TASKS_PER_NODE", "the ranks of a Slurm job"},
		{"SLURM_NTASKS_PER_NODE", "the same"},
		{"MASTER_ADDR", "the address of a run of torchrun"},
		{"MASTER_PORT", "its port"},
		{"TORCHELASTIC_RUN_ID", "its name"},
		{"RANK", "with LOCAL_RANK, WORLD_SIZE and the like of mpirun: the rank in a job"},
	}},
	{"Workers", [][2]string{
		{"LEAT_WORKER", "the run's endpoint, for leat worker"},
		{"LEAT_WORKER_FILE", "a file that holds it"},
		{"LEAT_WORKER_SECRET", "the name of a secret that holds it"},
		{"LEAT_WORKER_NAME", "what the run calls the worker"},
		{"LEAT_WORKER_SLOTS", "blocks to compute at once"},
	}},
	{"Stores", [][2]string{
		{"AWS_ACCESS_KEY_ID", "and other AWS_ variables: as for the aws command"},
		{"GOOGLE_APPLICATION_CREDENTIALS", "as for gcloud"},
		{"STORAGE_EMULATOR_HOST", "a server that stands in for Google Cloud Storage"},
		{"AZURE_STORAGE_ACCOUNT", "the account of azblob:// URLs"},
		{"AZURE_STORAGE_KEY", "its key"},
		{"AZURE_STORAGE_CONNECTION_STRING", "account, key and server in one text"},
		{"AZURE_STORAGEBLOB_CONNECTIONSTRING", "the same"},
		{"HTTP_PROXY", "with HTTPS_PROXY and NO_PROXY: the proxy for requests"},
		{"SSL_CERT_FILE", "certificates of authorities besides the system's"},
	}},
	{"Others", [][2]string{
		{"LEAT_SERVE_TOKEN", "the token of the page that --serve shows"},
		{"TERM", "dumb: progress in lines"},
		{"LC_ALL", "the character set: unless it is UTF-8, the progress bar is made of # and -"},
		{"LC_CTYPE", "the same where LC_ALL is not set"},
		{"LANG", "the same where neither is set"},
		{"GOMEMLIMIT", "a limit of the heap that may be lower than --memory"},
	}},
}

func environmentTopic() string {
	var b strings.Builder
	b.WriteString("The environment variables that leat reads. An option goes before its variable.\n")
	b.WriteString("\nOptions of leat apply, leat stage and leat cache, where they are not given:\n")
	for _, s := range settings {
		fmt.Fprintf(&b, "  %-34s --%s\n", variable(s.name), s.name)
	}
	for _, group := range environment {
		fmt.Fprintf(&b, "\n%s:\n", group.title)
		for _, v := range group.variables {
			fmt.Fprintf(&b, "  %-34s %s\n", v[0], v[1])
		}
	}
	return strings.TrimRight(b.String(), "\n")
}
