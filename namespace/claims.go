//go:build unix

package namespace

import (
	"errors"
	"fmt"
	"slices"

	"leat/internal/fault"
	"leat/internal/lockfile"
)

// Claims are locks on numbers made of a directory's device and inode. Each directory has four, one
// for each way of using it: a job reads it (shared) or writes it (exclusive), or reads or writes
// something inside it. A job that claims a directory takes the lock for its own way and then checks
// the locks that exclude it, so of two jobs that claim at the same time, at least one sees the
// other. The check takes no lock. The lock for an exclusive claim is a write lock until all claims
// of the job are granted, and a read lock from then on, to which the other members add theirs. So
// claims end with the last member and not with the first.
//
// The numbers are spread over 64 files, since the kernel scans all locks of a file whenever a
// process takes one.
const (
	claimShared    = 0 // read locks of those who read the directory
	claimExclusive = 1 // write lock while it is being claimed, then read locks of the members of one job
	claimInsideW   = 2 // read locks of those who claim something inside it exclusively
	claimInsideR   = 3 // the same, shared
	claimShards    = 64
)

// wanted is a directory or file that Join has opened to claim it.
type wanted struct {
	claim
	place *place
}

// claims holds the locks of one process.
type claims struct {
	dir   *lockfile.Dir
	files map[int]*lockfile.Ranges
}

// hash spreads device and inode over 64 bits (the finaliser of splitmix64, twice).
func (id dirID) hash() uint64 { return mix(mix(id.Dev) ^ id.Ino) }

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// at returns the locks of a directory: their file and the first of the four numbers.
func (c *claims) at(id dirID) (*lockfile.Ranges, int64, error) {
	h := id.hash()
	shard := int(h % claimShards)
	base := int64(h/claimShards) * 4 // below 2^60
	if r := c.files[shard]; r != nil {
		return r, base, nil
	}
	r, err := c.dir.OpenRanges(fmt.Sprintf("%02x", shard))
	if err != nil {
		return nil, 0, err
	}
	if c.files == nil {
		c.files = map[int]*lockfile.Ranges{}
	}
	c.files[shard] = r
	return r, base, nil
}

// errCollision is returned if a lock of another job excludes a claim.
var errCollision = errors.New("claimed by another")

// take claims all of the places. On errCollision it returns the one that collides, and the caller
// closes c.
func (c *claims) take(places []wanted) (*wanted, error) {
	if w, err := c.lockAll(places, true); err != nil {
		return w, err
	}
	fault.Point("namespace.claimed")
	// Write locks become read locks, each in one step, so that other members of the job can add
	// theirs.
	for _, w := range places {
		if w.Exclusive {
			if err := c.lock(w.place.ID, claimExclusive, false); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// add adds this process's locks to those of its job. The caller then checks that an earlier member
// is still alive.
func (c *claims) add(places []wanted) error {
	_, err := c.lockAll(places, false)
	return err
}

// lockAll takes the locks of all places and their ancestors. On an error it returns the place.
func (c *claims) lockAll(places []wanted, look bool) (*wanted, error) {
	for i := range places {
		w := &places[i]
		own, inside := claimShared, claimInsideR
		if w.Exclusive {
			own, inside = claimExclusive, claimInsideW
		}
		if err := c.lock(w.place.ID, own, look); err != nil {
			return w, err
		}
		for _, up := range w.place.Ancestors {
			if err := c.lock(up, inside, look); err != nil {
				return w, err
			}
		}
	}
	return nil, nil
}

// excluding lists the ways that exclude each way, as runs: the first way and their number.
var excluding = [4][][2]int64{
	claimShared:    {{claimExclusive, 2}},                 // exclusive, and exclusive inside
	claimExclusive: {{claimShared, 1}, {claimInsideW, 2}}, // all
	claimInsideW:   {{claimShared, 2}},                    // shared and exclusive
	claimInsideR:   {{claimExclusive, 1}},
}

// lock takes one lock. With look it then checks those that exclude it.
func (c *claims) lock(id dirID, way int, look bool) error {
	r, base, err := c.at(id)
	if err != nil {
		return err
	}
	mode := lockfile.Read
	if way == claimExclusive && look {
		mode = lockfile.Write
	}
	got, err := r.Try(mode, base+int64(way), 1)
	if err != nil {
		return err
	}
	if !got {
		return errCollision
	}
	if !look {
		return nil
	}
	for _, run := range excluding[way] {
		held, err := r.Probe(base+run[0], run[1])
		if err != nil {
			return err
		}
		if held {
			return errCollision
		}
	}
	return nil
}

// gone reports whether one of the files was removed.
func (c *claims) gone() bool {
	for _, r := range c.files {
		if r.Gone() {
			return true
		}
	}
	return false
}

func (c *claims) close() error {
	var errs []error
	for _, r := range c.files {
		errs = append(errs, r.Close())
	}
	c.files = nil
	return errors.Join(errs...)
}

// collide returns how two places overlap, "" if they do not.
func collide(mine *place, theirs dirID, theirAncestors []dirID) string {
	if mine.ID == theirs {
		return "is"
	}
	if slices.Contains(mine.Ancestors, theirs) {
		return "lies inside"
	}
	if slices.Contains(theirAncestors, mine.ID) {
		return "contains"
	}
	return ""
}
