package worker

// Environment variables of a worker process. They name its endpoint in one of several ways, which
// docs/format/worker.md lists together with variables for job arrays and secret stores.
const (
	// EnvEndpoint holds the text of an Endpoint, or "fds:3,4,5": the descriptors of inherited
	// connections.
	EnvEndpoint = "LEAT_WORKER"
	// EnvFile is the path of a file with the text of an Endpoint: a regular file owned by this
	// user, without permissions for group and others.
	EnvFile = "LEAT_WORKER_FILE"
	// EnvName is the worker's name.
	EnvName = "LEAT_WORKER_NAME"
	// EnvSlots is the number of blocks that the worker computes at once; if not set, the number of
	// usable cores.
	EnvSlots = "LEAT_WORKER_SLOTS"
)
