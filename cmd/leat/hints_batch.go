package main

import (
	"strings"

	"leat/internal/terminal"
	"leat/internal/worker/runerror"
	"leat/worker"
)

// batchHint returns what the user can do about an error of a batch system.
func batchHint(e *worker.BatchError) string {
	if options, ok := slurmOptions[e.Code]; ok && e.Kind == "slurm" {
		return "give another " + options + " in --batch-options"
	}
	switch {
	case e.Kind != "slurm":
	case strings.Contains(strings.ToLower(e.Code), "held"):
		return "release it by `scontrol release JOB`"
	case e.Code == "Options.Dir":
		return fieldHint("Concurrency.SharedTemp", "")
	}
	return batchHints[e.Kind+" "+e.Code]
}

// slurmOptions maps states and reasons of Slurm's jobs to options of sbatch.
var slurmOptions = map[string]string{
	"TIMEOUT":                  "--time",
	"DEADLINE":                 "--deadline",
	"OUT_OF_MEMORY":            "--mem or --mem-per-cpu",
	"PartitionTimeLimit":       "--time or --partition",
	"PartitionNodeLimit":       "--partition, --nodes or --cpus-per-task",
	"PartitionConfig":          "--partition, --nodes or --cpus-per-task",
	"PartitionDown":            "--partition",
	"PartitionInactive":        "--partition",
	"BadConstraints":           "--constraint, --mem or --gres",
	"AccountNotAllowed":        "--account or --partition",
	"InvalidAccount":           "--account or --partition",
	"AssociationNotAllowed":    "--account or --partition",
	"QOSNotAllowed":            "--qos or --partition",
	"InvalidQOS":               "--qos or --partition",
	"DependencyNeverSatisfied": "--dependency",
}

// batchHints maps kinds and codes of [worker.BatchError] to hints.
var batchHints = map[string]string{
	"slurm program": "install Slurm's client programs (Debian: slurm-client)",
	"slurm server":  "check that slurmctld runs, and that SLURM_CONF names its configuration",
	"pbs program":   "install PBS's client programs",
	"pbs server":    "check that the server is OpenPBS or PBS Professional 14 or newer and runs; Torque and Grid Engine do not work",

	"awsbatch Options.Region":        "use --region, or set AWS_REGION",
	"awsbatch Options.Queue":         "use --aws-queue to select another job queue",
	"awsbatch Options.Definition":    "use --aws-definition to select another job definition, or --aws-image",
	"awsbatch Options.ExecutionRole": "use --aws-execution-role to give one",
	"awsbatch Options.VCPUs":         "use a lower --aws-vcpus, or raise maxvCpus of the compute environment",
	"awsbatch Options.Secret":        "use --aws-secret to name a secret that the run may write and the jobs' role may read",
	"awsbatch DISABLED":              "enable the queue by `aws batch update-job-queue --job-queue NAME --state ENABLED`",
	"awsbatch ResourceNotFoundException": "create it, with any content: " +
		"`aws secretsmanager create-secret --name NAME --secret-string leat`",
	"awsbatch InvalidRequestException": "use --aws-secret to name another, " +
		"or restore it by `aws secretsmanager restore-secret --secret-id NAME`",
}

// exitsHint returns the hint of the latest exit that has one.
func exitsHint(e *worker.LostError) string {
	hint := ""
	for _, x := range e.Exits {
		if x.Err != nil {
			if text := hintOf(x.Err); text != "" {
				hint = text
			}
		}
	}
	return hint
}

// withLeftHint adds to a hint the commands that end what a run may have left in a batch system.
func withLeftHint(hint string, err error) string {
	var commands []string
	force := false
	for _, left := range runerror.LeftErrors(err) {
		for _, c := range left.Commands {
			commands = append(commands, "`"+terminal.Text(c)+"`")
			force = force || strings.HasPrefix(c, "qdel ")
		}
	}
	if len(commands) == 0 {
		return hint
	}
	text := "to end what may be left, run " + strings.Join(commands, " and ")
	if force {
		text += "; if a node is lost, `qdel -W force`"
	}
	if hint != "" {
		text = hint + "; " + text
	}
	return text
}
