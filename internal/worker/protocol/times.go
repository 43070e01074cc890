package protocol

import "time"

// Times holds the timeouts of the coordinator and its workers. A zero field is its default. The
// time spent on a block has no limit as long as the worker sends heartbeats.
type Times struct {
	// Heartbeat is the interval between heartbeats of a worker. Default 2 s.
	Heartbeat time.Duration
	// HeartbeatTimeout is the time without a message after which a worker is lost, and without an
	// answer after which a worker ends. The body of a result must make progress within it too.
	// Default 10 s.
	HeartbeatTimeout time.Duration
	// Rejoin is how long a worker may be without a connection. Default 2 s.
	Rejoin time.Duration
	// Poll is the longest wait for blocks before a lease request is answered. Default 20 s.
	Poll time.Duration
	// ExitReportWait is how long an error waits for the launcher's report of how a lost worker
	// ended. Default 5 s.
	ExitReportWait time.Duration
	// TokenTimeout is the limit for a connection's handshake, and again for sending the token.
	// Default 10 s.
	TokenTimeout time.Duration
	// QueryFailureTimeout is how long a run without workers continues when the launcher can't query
	// the jobs of those that have not joined. Default 10 min.
	QueryFailureTimeout time.Duration
	// ShutdownGrace is how long an ending worker waits for its functions, and an ending run for its
	// workers. Default 1 s.
	ShutdownGrace time.Duration
}

// defaultTimes holds the defaults of Times.
var defaultTimes = Times{
	Heartbeat:           2 * time.Second,
	HeartbeatTimeout:    10 * time.Second,
	Rejoin:              2 * time.Second,
	Poll:                20 * time.Second,
	ExitReportWait:      5 * time.Second,
	TokenTimeout:        10 * time.Second,
	QueryFailureTimeout: 10 * time.Minute,
	ShutdownGrace:       time.Second,
}

// OrDefaults returns t with the default for each field that is not positive.
func (t Times) OrDefaults() Times {
	d := defaultTimes
	for _, p := range []struct{ to, from *time.Duration }{
		{&d.Heartbeat, &t.Heartbeat}, {&d.HeartbeatTimeout, &t.HeartbeatTimeout}, {&d.Rejoin, &t.Rejoin},
		{&d.Poll, &t.Poll},
		{&d.ExitReportWait, &t.ExitReportWait}, {&d.TokenTimeout, &t.TokenTimeout},
		{&d.QueryFailureTimeout, &t.QueryFailureTimeout},
		{&d.ShutdownGrace, &t.ShutdownGrace},
	} {
		if *p.from > 0 {
			*p.to = *p.from
		}
	}
	return d
}
