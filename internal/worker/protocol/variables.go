package protocol

// Environment variables of a worker process that the launchers of worker/awsbatch and worker/pbs
// set, besides those of package worker.
const (
	// EnvSecret names a secret store and a secret with the text of an Endpoint:
	// "secretsmanager:NAME", "ssm:NAME". It replaces worker.EnvEndpoint.
	EnvSecret = "LEAT_WORKER_SECRET"
	// EnvKind and EnvIndexFrom make the name when all workers of a job array share one environment:
	// EnvIndexFrom names the variable with the worker's array index, to which EnvFirst is added (0
	// if not set).
	EnvKind      = "LEAT_WORKER_KIND"
	EnvIndexFrom = "LEAT_WORKER_INDEX_FROM"
	EnvFirst     = "LEAT_WORKER_FIRST"
)
