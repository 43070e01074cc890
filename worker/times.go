package worker

import "time"

// Times are how long the channel and its workers wait for each other. A zero field is its default. No time bounds the work on a block:
// it may take hours as long as the worker's heart beats.
type Times struct {
	// Heartbeat is the pause between two heartbeats of a worker. 2 s.
	Heartbeat time.Duration
	// Silence of a worker, or of a channel, is its death: a worker that was not heard of for so long is lost, and one that has heard nothing from its channel ends. A body that
	// comes in must make progress in this time too. 10 s.
	Silence time.Duration
	// Rejoin is how long a worker may be without any connection. 2 s.
	Rejoin time.Duration
	// Poll is the longest that the channel keeps a worker that asks for blocks waiting for its answer. 20 s.
	Poll time.Duration
	// Word is how long an error waits for word of the kind about how a lost worker has ended. 5 s.
	Word time.Duration
	// Stranger is how long a connection that has shown no token is safe from being closed in favour of others that wait for room. 1 s.
	Stranger time.Duration
	// Farewell is how long a worker that ends waits for its functions, and a run that ends for its workers. 1 s.
	Farewell time.Duration
}

// DefaultTimes are those of a run.
var defaultTimes = Times{
	Heartbeat: 2 * time.Second,
	Silence:   10 * time.Second,
	Rejoin:    2 * time.Second,
	Poll:      20 * time.Second,
	Word:      5 * time.Second,
	Stranger:  time.Second,
	Farewell:  time.Second,
}

func (t Times) orDefaults() Times {
	d := defaultTimes
	for _, p := range []struct{ to, from *time.Duration }{
		{&d.Heartbeat, &t.Heartbeat}, {&d.Silence, &t.Silence}, {&d.Rejoin, &t.Rejoin}, {&d.Poll, &t.Poll},
		{&d.Word, &t.Word}, {&d.Stranger, &t.Stranger}, {&d.Farewell, &t.Farewell},
	} {
		if *p.from > 0 {
			*p.to = *p.from
		}
	}
	return d
}
