package stage

import "leat/stage/internal/index"

// Counters counts events, since the pool was opened or since the directory was created.
type Counters struct {
	Hits        int64 `json:"hits"`             // objects staged before they were requested
	Misses      int64 `json:"misses"`           // objects copied from their source
	Shared      int64 `json:"copied_elsewhere"` // objects that another process copied while this one waited
	ReadThrough int64 `json:"read_through"`     // objects read from the source without being staged
	Evicted     int64 `json:"evicted"`          // objects removed to make space, or at their last release
	Bytes       int64 `json:"bytes"`            // bytes copied
	Waits       int64 `json:"waits"`            // copies that waited for space
	Retries     int64 `json:"retries"`          // repeated requests to sources
	Reads       int64 `json:"reads"`            // objects read from a source
	Checks      int64 `json:"checks"`           // staged objects compared with their source
	Changed     int64 `json:"changed"`          // of those, objects that changed or whose source gives no version
	Errors      int64 `json:"errors"`           // copies and reads that failed
	NotQueued   int64 `json:"not_queued"`       // prefetches beyond MaxQueue
	TooLarge    int64 `json:"too_large"`        // objects larger than MaxBytes
	DiskFull    int64 `json:"disk_full"`        // copies cancelled by a full disk
	Damaged     int64 `json:"damaged"`          // staged objects with wrong or unreadable bytes
}

// Numbers of the counters in the index.
const (
	countHits = iota
	countMisses
	countShared
	countReadThrough
	countEvicted
	countBytes
	countWaits
	countRetries
	countReads
	countChecks
	countChanged
	countErrors
	countNotQueued
	countTooLarge
	countDiskFull
	countDamaged
)

func countersOf(n [index.Counters]int64) Counters {
	return Counters{Hits: n[countHits], Misses: n[countMisses], Shared: n[countShared],
		ReadThrough: n[countReadThrough], Evicted: n[countEvicted], Bytes: n[countBytes],
		Waits: n[countWaits], Retries: n[countRetries], Reads: n[countReads], Checks: n[countChecks],
		Changed: n[countChanged], Errors: n[countErrors], NotQueued: n[countNotQueued],
		TooLarge: n[countTooLarge], DiskFull: n[countDiskFull],
		Damaged: n[countDamaged]}
}

// Usage is the state of a directory.
type Usage struct {
	Dir       string   `json:"dir"`
	Bytes     int64    `json:"bytes"`     // disk space of the objects, including copies in progress
	Objects   int64    `json:"objects"`   // including copies in progress
	Processes int      `json:"processes"` // that use the directory, including this one
	Since     Counters `json:"counters"`  // of all processes since the directory was created
}

// Counters returns the counters of this pool. They stay available after Close.
func (p *Pool) Counters() Counters {
	if !p.enter() {
		if last := p.last.Load(); last != nil {
			return *last
		}
		return Counters{} // Close is running
	}
	defer p.leave()
	return p.ownCounters()
}

func (p *Pool) ownCounters() Counters {
	if p.stages() {
		return countersOf(p.index.Own())
	}
	var n [index.Counters]int64
	for i := range n {
		n[i] = p.direct[i].Load()
	}
	return countersOf(n)
}

// Usage returns the state of the directory, summed over all processes. After Close the error is
// ErrClosed.
func (p *Pool) Usage() (Usage, error) {
	if !p.enter() {
		return Usage{}, ErrClosed
	}
	defer p.leave()
	if !p.stages() {
		return Usage{Processes: 1, Since: p.ownCounters()}, nil
	}
	u := Usage{Dir: p.dir.Path()}
	u.Bytes, u.Objects = p.index.Taken()
	all, n, err := p.index.Counts()
	u.Processes, u.Since = n, countersOf(all)
	return u, err
}
