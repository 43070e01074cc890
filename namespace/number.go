//go:build unix

package namespace

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"leat/internal/lockfile"
)

// MosaicML streaming numbers its jobs from 0 and does not see leat's numbers. So these begin at a
// number that it rarely reaches. They have six digits.
const (
	firstNumber = 500_000
	maxNumber   = 999_999
)

// shmDir is where other programs create their shared memory.
const shmDir = "/dev/shm"

func prefixOf(number int) string { return fmt.Sprintf("%06d", number) }

// numberFiles is the number of files over which the locks on numbers are spread, since the kernel
// scans all locks of a file.
const numberFiles = 16

// lockNumber locks a number, or returns nil if another job has it.
func lockNumber(claimsDir *lockfile.Dir, n int, mode lockfile.Mode) (*lockfile.Ranges, error) {
	r, err := claimsDir.OpenRanges(fmt.Sprintf("number-%x", n%numberFiles))
	if err != nil {
		return nil, err
	}
	if got, err := r.Try(mode, int64(n), 1); err != nil || !got {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// takeNumber finds a number that no live job has and locks it: firstNumber first, then at random
// among the first 4, 16, 64, …. So numbers are reused, and the cost grows with the logarithm of the
// number of live jobs. want, if not negative, is the only one to try.
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
			r, err := lockNumber(claimsDir, n, lockfile.Write)
			if err != nil {
				return 0, nil, err
			}
			if r == nil {
				continue
			}
			// What a killed job of this number has left.
			if err := root.RemoveAll(prefixOf(n)); err != nil {
				stuck = errors.Join(err, r.Close())
				continue // something in a directory of that job can't be removed
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

// reclaimable reports whether reclaim would remove what the job of a number left.
func reclaimable(root, claimsDir *lockfile.Dir, number int) (bool, error) {
	if !root.Exists(prefixOf(number)) {
		return false, nil
	}
	r, err := lockNumber(claimsDir, number, lockfile.Write)
	if err != nil || r == nil {
		return false, err
	}
	return true, r.Close()
}

// reclaim removes what the job of a number left, if no live one has the number; it reports whether
// it did.
func reclaim(root, claimsDir *lockfile.Dir, number int) (bool, error) {
	if !root.Exists(prefixOf(number)) {
		return false, nil
	}
	r, err := lockNumber(claimsDir, number, lockfile.Write)
	if err != nil || r == nil {
		return false, err
	}
	err = root.RemoveAll(prefixOf(number))
	return err == nil, errors.Join(err, r.Close())
}
