package timing

import (
	"slices"
	"sync"
	"time"

	"leat/internal/sysmem"
)

// Limits of what a Recorder keeps.
const (
	maxSample    = 8192    // durations of each stage, for the quartiles: 64 KiB
	maxIntervals = 1 << 16 // intervals for the trace: 2 MiB
	maxPoints    = 4096    // points of each gauge: 64 KiB
)

// NoBlock is the block number of an interval that belongs to no block.
const NoBlock = -1

// Recorder collects intervals and gauges. Its methods may be called concurrently. On a nil Recorder
// they do nothing, so that a program can run without timing.
type Recorder struct {
	begin    time.Time
	beginCPU time.Duration

	mu        sync.Mutex
	stages    []*stage
	stageOf   map[string]*stage
	lanes     []string
	laneOf    map[string]int32
	gauges    []*gauge
	gaugeOf   map[string]*gauge
	intervals []interval
	// thin selects the blocks of the trace: those whose number has none of these low bits set.
	thin uint64

	forward func(stage, lane string, block int, start time.Time, length time.Duration)
}

type stage struct {
	name            string
	index           int32
	n               int64
	total, min, max int64 // ns
	sample          []int64
	random          uint64
}

type interval struct {
	start, length int64 // ns since begin, ns
	block         int64
	key           uint64 // the block, or the count of its stage; thin selects by it
	stage, lane   int32
}

// New returns a Recorder whose wall clock starts now.
func New() *Recorder {
	return &Recorder{
		begin:    time.Now(),
		beginCPU: sysmem.ProcessorTime(),
		stageOf:  map[string]*stage{},
		laneOf:   map[string]int32{},
		gaugeOf:  map[string]*gauge{},
	}
}

// Forward returns a Recorder that keeps nothing and calls f for each interval as it ends, for a
// process whose intervals another process records. f may be called concurrently. Gauges are
// dropped.
func Forward(f func(stage, lane string, block int, start time.Time, length time.Duration)) *Recorder {
	r := New()
	r.forward = f
	return r
}

// Declare sets the order in which stages are reported. Other stages follow in the order of their
// first interval. Stages without an interval are not reported.
func (r *Recorder) Declare(stages ...string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range stages {
		r.stage(s)
	}
}

// Interval is a running interval, which [Interval.Stop] ends. It allocates no memory.
type Interval struct {
	r           *Recorder
	stage, lane string
	block       int
	start       time.Duration
}

// Start begins an interval of a stage ("reading") in a lane, which does one thing at a time
// ("worker 1"), for a block or NoBlock. Stop records it. With
//
//	defer rec.Start("reading", "reader 1", n).Stop()
//
// the interval also counts if the function fails or panics.
func (r *Recorder) Start(stage, lane string, block int) Interval {
	if r == nil {
		return Interval{}
	}
	return Interval{r, stage, lane, block, time.Since(r.begin)}
}

// Stop ends the interval and returns its length. Call it once: each call records the interval.
func (i Interval) Stop() time.Duration {
	if i.r == nil {
		return 0
	}
	d := time.Since(i.r.begin) - i.start
	i.r.record(i.stage, i.lane, i.block, i.start, d)
	return d
}

// Record adds an interval that was measured elsewhere. A negative length counts as 0.
func (r *Recorder) Record(stage, lane string, block int, start time.Time, length time.Duration) {
	if r == nil {
		return
	}
	r.record(stage, lane, block, start.Sub(r.begin), length)
}

func (r *Recorder) record(name, lane string, block int, start, length time.Duration) {
	length = max(length, 0)
	if r.forward != nil {
		r.forward(name, lane, block, r.begin.Add(start), length)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stage(name)
	key := uint64(s.n)
	if block >= 0 {
		key = uint64(block)
	}
	s.add(int64(length))
	r.keep(interval{int64(start), int64(length), int64(block), key, s.index, r.lane(lane)})
}

// keep keeps an interval for the trace if its block is selected. r.mu is held.
func (r *Recorder) keep(i interval) {
	for len(r.intervals) >= maxIntervals && i.key&r.thin == 0 {
		if !r.thinOut() {
			return
		}
	}
	if i.key&r.thin == 0 {
		r.intervals = append(r.intervals, i)
	}
}

// thinTo drops the blocks that thin does not select. r.mu is held.
func (r *Recorder) thinTo(thin uint64) {
	if thin <= r.thin {
		return
	}
	r.thin = thin
	r.intervals = slices.DeleteFunc(r.intervals, func(i interval) bool { return i.key&thin != 0 })
}

// thinOut drops every second of the kept blocks. It returns false if there is nothing to drop,
// which happens only if all intervals belong to the same few blocks. r.mu is held.
func (r *Recorder) thinOut() bool {
	for before := len(r.intervals); r.thin>>62 == 0; {
		if r.thinTo(r.thin<<1 | 1); len(r.intervals) < before {
			return true
		}
	}
	return false
}

// stage returns the stage of a name and creates it if it is new. r.mu is held.
func (r *Recorder) stage(name string) *stage {
	s := r.stageOf[name]
	if s == nil {
		s = &stage{name: name, index: int32(len(r.stages)), random: 0x9e3779b97f4a7c15}
		r.stages = append(r.stages, s)
		r.stageOf[name] = s
	}
	return s
}

func (r *Recorder) lane(name string) int32 {
	l, ok := r.laneOf[name]
	if !ok {
		l = int32(len(r.lanes))
		r.lanes = append(r.lanes, name)
		r.laneOf[name] = l
	}
	return l
}

// add counts a duration. Beyond maxSample it may replace a random one of the sample, so that all
// durations are in it with the same probability (Vitter's algorithm R).
func (s *stage) add(d int64) {
	if s.n == 0 || d < s.min {
		s.min = d
	}
	s.max = max(s.max, d)
	s.total += d
	s.n++
	if len(s.sample) < maxSample {
		s.sample = append(s.sample, d)
		return
	}
	if i := s.next() % uint64(s.n); i < maxSample {
		s.sample[i] = d
	}
}

// next returns a pseudorandom number (xorshift).
func (s *stage) next() uint64 {
	s.random ^= s.random << 13
	s.random ^= s.random >> 7
	s.random ^= s.random << 17
	return s.random
}
