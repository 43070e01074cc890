//go:build unix

package namespace

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"leat/internal/lockfile"
)

// MosaicML streaming counts its jobs from 0 and knows nothing of ours, so ours begin where it
// hardly comes. They have six digits.
const (
	firstNumber = 500_000
	maxNumber   = 999_999
)

// shmDir is where other programs have their names of shared memory.
const shmDir = "/dev/shm"

func prefixOf(number int) string { return fmt.Sprintf("%06d", number) }

// numberFiles is over how many files the locks on numbers are spread: the kernel looks through all
// locks of a file.
const numberFiles = 16

// tryNumber locks a number alone, or returns nil where another job has it.
func tryNumber(claimsDir *lockfile.Dir, n int) (*lockfile.Ranges, error) {
	r, err := claimsDir.OpenRanges(fmt.Sprintf("number-%x", n%numberFiles))
	if err != nil {
		return nil, err
	}
	if got, err := r.Try(lockfile.Write, int64(n), 1); err != nil || !got {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// shareNumber adds this process's lock on the number of its job.
func shareNumber(claimsDir *lockfile.Dir, n int) (*lockfile.Ranges, error) {
	r, err := claimsDir.OpenRanges(fmt.Sprintf("number-%x", n%numberFiles))
	if err != nil {
		return nil, err
	}
	got, err := r.Try(lockfile.Read, int64(n), 1)
	if err == nil && !got {
		err = errCollision
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// takeNumber finds a number that no live job has and locks it: firstNumber first, then at random
// among the first 4, 16, 64, …, so that numbers come back and the price grows with the logarithm of
// the live jobs. want, if not negative, is the only one to try.
func takeNumber(root, claimsDir *lockfile.Dir, want int) (int, *lockfile.Ranges, error) {
	var stuck error
	for among := 1; among <= 1<<20; among *= 4 {
		for range 2 {
			n := firstNumber + rand.IntN(min(among, maxNumber-firstNumber+1))
			if want >= 0 {
				n = want
			}
			if streamingNumberTaken(shmDir, n) {
				continue
			}
			r, err := tryNumber(claimsDir, n)
			if err != nil {
				return 0, nil, err
			}
			if r == nil {
				continue
			}
			// What a killed job of this number has left.
			if err := removeThings(root, n); err != nil {
				stuck = errors.Join(err, r.Close())
				continue // something in a directory of that job that can't be removed; others shall not suffer from it
			}
			if _, err = r.Try(lockfile.Read, int64(n), 1); err != nil {
				return 0, nil, errors.Join(err, r.Close())
			}
			return n, r, nil
		}
	}
	if want >= 0 {
		return 0, nil, errors.Join(fmt.Errorf("its number %d was given to another job", want), stuck)
	}
	return 0, nil, errors.Join(errors.New("all numbers of namespaces are taken"), stuck)
}

// removeThings removes what members of the number's job shared by name. The number must be locked.
func removeThings(root *lockfile.Dir, number int) error {
	return root.RemoveAll(prefixOf(number))
}

// reclaim removes what the job of a number left, if no live one has the number; it reports whether
// it did.
func reclaim(root, claimsDir *lockfile.Dir, number int) (bool, error) {
	if !root.Exists(prefixOf(number)) {
		return false, nil
	}
	r, err := tryNumber(claimsDir, number)
	if err != nil || r == nil {
		return false, err
	}
	err = removeThings(root, number)
	return err == nil, errors.Join(err, r.Close())
}
