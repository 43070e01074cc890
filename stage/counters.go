package stage

import "leat/stage/internal/ledger"

// Counters are what happened, since the pool was opened or since the directory was made.
type Counters struct {
	Hits        int64 `json:"hits"`         // served from what was there before it was asked for
	Misses      int64 `json:"misses"`       // copied from their source
	Shared      int64 `json:"shared"`       // waited for a copy that another process made
	ReadThrough int64 `json:"read_through"` // read from the source without being staged
	Evicted     int64 `json:"evicted"`      // removed to make room, or at their last release
	Bytes       int64 `json:"bytes"`        // copied
	Waits       int64 `json:"waits"`        // copies that had to wait for room
	Retries     int64 `json:"retries"`      // requests to sources that were made again
	Reads       int64 `json:"reads"`        // objects whose bytes a source was asked for
	Checks      int64 `json:"checks"`       // staged objects that were compared with their source
	Changed     int64 `json:"changed"`      // of those, ones that had changed, or of which the source tells no version
	Errors      int64 `json:"errors"`       // copies and reads that failed
	NotQueued   int64 `json:"not_queued"`   // prefetches beyond MaxQueue
	TooLarge    int64 `json:"too_large"`    // objects larger than MaxBytes
	DiskFull    int64 `json:"disk_full"`    // copies given up because the disk was full
	Damaged     int64 `json:"damaged"`      // staged objects whose bytes were wrong or could not be read
}

// Numbers of the counters in the ledger.
const (
	countHits = iota
	countMisses
	countShared
	countThrough
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

func countersOf(n [ledger.Counters]int64) Counters {
	return Counters{Hits: n[countHits], Misses: n[countMisses], Shared: n[countShared], ReadThrough: n[countThrough], Evicted: n[countEvicted],
		Bytes: n[countBytes], Waits: n[countWaits], Retries: n[countRetries], Reads: n[countReads], Checks: n[countChecks], Changed: n[countChanged],
		Errors: n[countErrors], NotQueued: n[countNotQueued], TooLarge: n[countTooLarge], DiskFull: n[countDiskFull], Damaged: n[countDamaged]}
}

// Usage is the state of a directory.
type Usage struct {
	Dir       string   `json:"dir"`
	Bytes     int64    `json:"bytes"`     // that objects take on the disk, copies under way included
	Objects   int64    `json:"objects"`   // copies under way included
	Processes int      `json:"processes"` // that use the directory, this one included
	Since     Counters `json:"since"`     // of all processes since the directory was made
}

// Counters returns what this pool did.
func (p *Pool) Counters() Counters {
	if !p.enter() {
		if last := p.last.Load(); last != nil {
			return *last
		}
		return Counters{} // it is just being closed
	}
	defer p.leave()
	return countersOf(p.books.Own())
}

// Usage returns the state of the directory, of all processes together.
func (p *Pool) Usage() (Usage, error) {
	if !p.enter() {
		return Usage{}, ErrClosed
	}
	defer p.leave()
	u := Usage{Dir: p.dir.Path()}
	u.Bytes, u.Objects = p.books.Taken()
	all, n, err := p.books.Counts()
	u.Processes, u.Since = n, countersOf(all)
	return u, err
}
