package worker

// Environment variables of a worker process. Exactly one of the first three is set and holds or
// locates the endpoint.
const (
	// EnvEndpoint holds the text of an Endpoint, or "fds:3,4,5": the descriptors of inherited
	// connections.
	EnvEndpoint = "LEAT_WORKER"
	// EnvFile is the path of a file with the text of an Endpoint: a regular file owned by this
	// user, without permissions for group and others.
	EnvFile = "LEAT_WORKER_FILE"
	// EnvSecret names a secret store and a secret with the text of an Endpoint:
	// "secretsmanager:NAME", "ssm:NAME".
	EnvSecret = "LEAT_WORKER_SECRET"
	// EnvName is the worker's name.
	EnvName = "LEAT_WORKER_NAME"
	// EnvKind and EnvIndexFrom make the name when all workers of a job array share one environment:
	// EnvIndexFrom names the variable with the worker's array index, to which EnvFirst is added (0
	// if not set).
	EnvKind      = "LEAT_WORKER_KIND"
	EnvIndexFrom = "LEAT_WORKER_INDEX_FROM"
	EnvFirst     = "LEAT_WORKER_FIRST"
	// EnvSlots is the number of blocks that the worker computes at once; if not set, the number of
	// usable cores.
	EnvSlots = "LEAT_WORKER_SLOTS"
)
