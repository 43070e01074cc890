//go:build unix

package index

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Each epoch uses all objects of a set. If the set does not fit, the least recently used object is
// the one needed next, and evicting it leads to no hits at all. Evicting the most recently used one
// keeps a part of the set, as Most Recently Used and bimodal insertion in processors do (Qureshi
// and others, Adaptive Insertion Policies, 2007). Objects of an earlier set must still be evicted:
// they are stale, unused for longer than recent intervals between two uses. If a sample has no
// stale object, one of several evictions takes the oldest object.
const (
	// epochSample is the number of objects to compare; the newest of them are evicted. bench/stage
	// measures hit rates.
	epochSample = 64
	// epochOldest is the average number of samples without stale objects per eviction of the oldest
	// object.
	epochOldest = 16
	// epochStale, times the longest recent interval between two uses, is the time after which an
	// unused object is stale.
	epochStale = 2
	// epochDecay is the reciprocal of the fraction by which that interval approaches a shorter one
	// with each use.
	epochDecay = 1024
)

// noteInterval records the time between two uses of an object, in nanoseconds.
func (l *Index) noteInterval(interval int64) {
	longest := l.h.interval.Load()
	next := interval
	if interval < longest {
		next = longest - (longest-interval)/epochDecay
	}
	l.h.interval.CompareAndSwap(longest, next) // of two concurrent updates one is enough
}

// epochCandidates returns unpinned objects of a random sample, in the order in which to evict them.
func (l *Index) epochCandidates() ([]candidate, error) {
	n := l.count()
	if n <= 1 {
		return nil, nil
	}
	inUse, err := l.inUse(n)
	if err != nil {
		return nil, err
	}
	all := l.candidates[:0:cap(l.candidates)]
	seen := map[uint32]bool{}
	for i := range min(n-1, 16*epochSample) {
		j := 1 + i
		if n-1 > 4*epochSample {
			if j = 1 + rand.Uint32N(n-1); seen[j] || len(all) == epochSample {
				continue
			}
			seen[j] = true
		}
		if c, ok := l.candidate(j, inUse); ok {
			all = append(all, c)
		}
	}
	orderForEpochs(all, time.Now().UnixNano(), l.h.interval.Load(), rand.IntN(epochOldest) == 0)
	return all, nil
}

// orderForEpochs puts the stale objects first, then the others, the newest first. If there are no
// stale ones and oldest is set, the oldest comes first.
func orderForEpochs(all []candidate, now, interval int64, oldest bool) {
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.used, b.used) })
	since := int64(0) // stale records have 0
	if interval > 0 {
		since = now - epochStale*interval
	}
	k := 0
	for k < len(all) && all[k].used <= since {
		k++
	}
	if k == 0 && oldest && len(all) > 0 {
		k = 1
	}
	slices.Reverse(all[k:])
}
