//go:build unix

package namespace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"time"

	"leat/internal/backoff"
	"leat/internal/fault"
	"leat/internal/fdio"
	"leat/internal/lockfile"
)

// registration is what a process holds of its job in one runtime directory.
type registration struct {
	root, claimsDir, jobs *lockfile.Dir

	places   []wanted // their descriptors keep the inodes from being reused
	borrowed bool     // places belong to another registration
	claims   *claims
	number   *lockfile.Ranges
	hold     *lockfile.Lock
	locks    *lockfile.Ranges // on slots of members, and on mutexes
	table    *table

	record record
	slot   int // -1 before it is a member
	leader bool

	renewing bool // in a new runtime directory; record is the old one

	unknown seen            // a collision with a process without a record
	warned  map[string]bool // texts of earlier warnings
	refuser Member          // the process that collides
	refused seen
}

// jobFile returns the name of a job's file. Keys are hashed since they may be long and hold any
// character.
func jobFile(key, name string) string {
	sum := sha256.Sum256([]byte(key + "\x00" + name))
	return hex.EncodeToString(sum[:16])
}

// openRegistration opens the directories, and the places to claim unless they are given.
func openRegistration(spec *Spec, places []wanted) (_ *registration, err error) {
	r := &registration{slot: -1}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(false))
		}
	}()
	if r.root, err = lockfile.OpenRoot(lockfile.RootPath(), lockfile.RootVariable); err != nil {
		return nil, err
	}
	if r.claimsDir, err = r.root.MakeSub("claims"); err != nil {
		return nil, err
	}
	if r.jobs, err = r.root.MakeSub("jobs"); err != nil {
		return nil, err
	}
	if places != nil {
		r.places, r.borrowed = places, true
		return r, nil
	}
	if r.places, err = openPlaces(spec); err != nil {
		return nil, err
	}
	return r, nil
}

// openPlaces opens the directories and files of a spec, which must not collide with each other.
func openPlaces(spec *Spec) (list []wanted, err error) {
	defer func() {
		if err != nil {
			closePlaces(list)
			list = nil
		}
	}()
	open := func(path string, file, exclusive bool, remote string) error {
		look := func() (*place, error) { return openPlace(path, true) }
		if file {
			look = func() (*place, error) { return openFilePlace(path) }
		}
		p, err := look()
		if err != nil {
			return err
		}
		w := wanted{claim: claim{Path: p.Path, Remote: remote, File: file, Exclusive: exclusive, Dev: p.ID.Dev,
			Ino: p.ID.Ino}, place: p}
		for _, o := range list {
			if how := collide(p, o.place.ID,
				o.place.Ancestors); how == "is" || how != "" && (exclusive || o.Exclusive) {
				list = append(list, w)
				return fmt.Errorf("%s %s %s, which the job uses too", path, how, o.Path)
			}
		}
		list = append(list, w)
		return nil
	}
	for _, d := range spec.Dirs {
		if err := open(d.Path, false, d.Remote != "", d.Remote); err != nil {
			return list, err
		}
	}
	for _, f := range spec.Files {
		if err := open(f, true, true, ""); err != nil {
			return list, err
		}
	}
	return list, nil
}

func closePlaces(list []wanted) {
	for _, w := range list {
		w.place.Close()
	}
}

// register makes r a member: leader or follower, as mayLead and mayFollow allow. Until ctx is done,
// it waits for a leader, and for killed holders of a claim and an earlier run of the job to end.
func (r *registration) register(ctx context.Context, spec *Spec, w Ranks, mayLead, mayFollow bool) error {
	// Polling this often takes a hundredth of a core.
	pause := backoff.Backoff{Next: 50 * time.Microsecond, Max: 500 * time.Microsecond}
	var last error
	for {
		if mayFollow {
			err := r.follow(spec, w)
			if !isRetry(err) {
				return err
			}
			last = err
		}
		if mayLead {
			err := r.lead(spec, w, mayFollow)
			if !isRetry(err) {
				return err
			}
			last = err
		}
		if _, err := pause.Wait(ctx); err != nil {
			return fmt.Errorf("%w (%w)", noRetry(last), err)
		}
	}
}

// retryError marks an error that may pass.
type retryError struct{ err error }

func (e retryError) Error() string { return e.err.Error() }
func (e retryError) Unwrap() error { return e.err }

func isRetry(err error) bool { return errors.As(err, new(retryError)) }

func noRetry(err error) error {
	if r, ok := err.(retryError); ok {
		return r.err
	}
	return err
}

// lead registers the job: claims, number, then the file by which the other processes find it.
func (r *registration) lead(spec *Spec, w Ranks, mayFollow bool) (err error) {
	defer func() {
		if err != nil {
			err = joinKeeping(err, r.unregister())
		}
	}()
	r.claims = &claims{dir: r.claimsDir}
	if at, err := r.claims.take(r.places); errors.Is(err, errCollision) {
		return r.explainCollision(at, spec, mayFollow)
	} else if err != nil {
		return err
	}
	if err := r.avoidStreaming(spec); err != nil {
		return err
	}
	want := -1
	if r.renewing {
		want = r.record.Number // which is part of the names of members
	}
	number, locked, err := takeNumber(r.root, r.claimsDir, want)
	if err != nil {
		return err
	}
	r.number = locked
	if !r.renewing {
		r.record = newRecord(spec, number)
	}
	r.record.Claims = nil
	for _, p := range r.places {
		r.record.Claims = append(r.record.Claims, p.claim)
	}
	slots := max(minSlots, min(2*w.LocalRanks*(1+w.Workers), maxSlots))
	head, err := encodeRecord(r.record, slots)
	if err != nil {
		return err
	}
	name := jobFile(r.record.Key, r.record.Name)
	// Sweeps what a killed run of this job left, and a few of the leftovers of others.
	if _, err := r.jobs.Sweep(name); err != nil {
		return err
	}
	if err := r.tidy(); err != nil {
		r.warn(spec, "sweeping leftovers failed", err)
	}
	r.hold, err = r.jobs.Publish(name, 0o600, func(fd int) error {
		// Takes the slot before the file has a name, so that a process that finds it finds a live
		// leader.
		if r.locks, err = r.jobs.Ranges(fd, name); err != nil {
			return err
		}
		if got, err := r.locks.Try(lockfile.Write, leaderSlot, 1); err != nil {
			return err
		} else if !got {
			return errCollision
		}
		b := append(head, make([]byte, slots*slotSize)...)
		slot := b[len(head)+leaderSlot*slotSize:]
		putSlot(slot, w)
		binary.LittleEndian.PutUint32(slot[slotState:], slotJoined)
		if err := fdio.WriteFull(fd, b, 0); err != nil {
			return fmt.Errorf("%s has no space for the job's record of %d KiB: %w", r.root.Path(), len(b)>>10, err)
		}
		return nil
	})
	if errors.Is(err, fs.ErrExist) {
		return r.explainExisting(name, mayFollow)
	}
	if err != nil {
		return err
	}
	if r.table, err = mapTable(r.hold.Fd(), len(head), slots, r.locks); err != nil {
		return err
	}
	r.slot, r.leader = leaderSlot, true
	fault.Point("namespace.registered")
	return nil
}

// joinKeeping joins the errors of the cleanup; err stays a retryError if cleanup is nil.
func joinKeeping(err, cleanup error) error {
	if cleanup == nil {
		return err
	}
	return errors.Join(err, cleanup)
}

func newRecord(spec *Spec, number int) record {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	host, err := os.Hostname()
	if err != nil {
		host = "this machine"
	}
	self := procState(os.Getpid())
	command := spec.Command
	if command == "" {
		command = self.Command
	}
	if len(command) > maxCommand {
		command = command[:maxCommand]
	}
	return record{ID: hex.EncodeToString(id[:]), Key: spec.Key, Name: spec.Name, Number: number, Host: host,
		PID: self.PID, Start: self.Start, Since: time.Now().Round(0), Command: command}
}

// tidy sweeps a few of the leftovers of killed jobs.
func (r *registration) tidy() error {
	const few = 4 // each registration leaves at most one, so the leftovers shrink
	_, err := r.jobs.SweepSome(few)
	// The first names in the directory may belong to live jobs, so some registrations sweep random
	// names. Leftovers then grow to about the number of live jobs.
	const seldom = 8
	if mathrand.IntN(seldom) == 0 {
		names, err1 := r.jobs.Names()
		err = errors.Join(err, err1)
		for range min(len(names), few*seldom) {
			_, err1 := r.jobs.Sweep(names[mathrand.IntN(len(names))])
			err = errors.Join(err, err1)
		}
	}
	for range few {
		_, err1 := reclaim(r.root, r.claimsDir, tidyNumber(r.record.Number))
		err = errors.Join(err, err1)
	}
	return err
}

// follow joins a job that another process has registered.
func (r *registration) follow(spec *Spec, w Ranks) (err error) {
	name := jobFile(spec.Key, spec.Name)
	// First without a lock: many processes that lock a dead job's file, each for a moment, would
	// keep its next run from sweeping it.
	if held, err := r.jobs.Probe(name, leaderSlot, 1); err == nil && !held && !r.renewing {
		if f, err := lookUp(r.jobs, name); err == nil && !f.led() {
			return retryError{fmt.Errorf("%w: process %d, which led it, ended", ErrNoLeader, f.record.PID)}
		}
	}
	r.hold, err = r.jobs.LockShared(name, true)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, lockfile.ErrLocked) {
		return retryError{err}
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = joinKeeping(err, r.unregister())
		}
	}()
	rec, offset, slots, err := readRecord(r.hold.Fd())
	if err != nil {
		// It is damaged or foreign: the leader removes it unless it is locked.
		return retryError{fmt.Errorf("%s: %w", r.jobs.FilePath(name), err)}
	}
	if r.renewing && r.record.ID != rec.ID {
		return fmt.Errorf("%w: another run has registered it since %s was removed", ErrInUse, r.root.Path())
	}
	if rec.Renewed && !r.renewing {
		return fmt.Errorf("%w: process %d leads it without its directory %s, which was removed", ErrInUse, rec.PID, r.root.Path())
	}
	if r.locks, err = r.jobs.Ranges(r.hold.Fd(), name); err != nil {
		return err
	}
	if r.table, err = mapTable(r.hold.Fd(), offset, slots, r.locks); errors.Is(err, errRecord) {
		return retryError{fmt.Errorf("%s: %w", r.jobs.FilePath(name), err)}
	} else if err != nil {
		return err
	}
	if alive, err := r.table.leaderAlive(); err != nil {
		return err
	} else if !r.renewing && (!alive || r.table.leaderEnding()) {
		// The next run registers the job once the last of the old members is gone. Following a
		// killed leader, which holds its locks for a while, would delay that.
		return retryError{fmt.Errorf("%w: process %d, which led it, ended", ErrNoLeader, rec.PID)}
	}
	if err := r.compare(rec); err != nil {
		return err
	}
	r.claims = &claims{dir: r.claimsDir}
	err = r.claims.add(r.places)
	if err == nil {
		r.number, err = lockNumber(r.claimsDir, rec.Number, lockfile.Read)
	}
	if errors.Is(err, errCollision) || err == nil && r.number == nil {
		return retryError{fmt.Errorf("%w: its claims ended", ErrNoLeader)}
	} else if err != nil {
		return err
	}
	fault.Point("namespace.added")
	// These locks continue those of the job only if a member of it was there throughout.
	if alive, err := r.table.anyAlive(); err != nil {
		return err
	} else if !alive {
		return retryError{fmt.Errorf("%w: process %d, which led it, ended", ErrNoLeader, rec.PID)}
	}
	if r.slot, err = r.table.takeSlot(w, false); err != nil {
		return err
	}
	// Again, since a process that is being killed appears alive for an instant.
	if !r.renewing && r.table.leaderEnding() {
		return retryError{fmt.Errorf("%w: process %d, which led it, is ending", ErrNoLeader, rec.PID)}
	}
	r.record, r.leader = rec, false
	fault.Point("namespace.followed")
	return nil
}

// compare checks that this process names the same directories as the leader.
func (r *registration) compare(rec record) error {
	same := len(rec.Claims) == len(r.places)
	for i := 0; same && i < len(rec.Claims); i++ {
		a, b := rec.Claims[i], r.places[i].claim
		same = a.Dev == b.Dev && a.Ino == b.Ino && a.Exclusive == b.Exclusive && a.File == b.File &&
			a.Remote == b.Remote
	}
	if same {
		return nil
	}
	mine := make([]claim, len(r.places))
	for i, p := range r.places {
		mine[i] = p.claim
	}
	return fmt.Errorf("%w: directories %s, those of process %d, the leader of job %s, are %s",
		errMismatch, listClaims(mine), rec.PID, rec.Key, listClaims(rec.Claims))
}

func listClaims(list []claim) string {
	text := "["
	for i, c := range list {
		if i > 0 {
			text += ", "
		}
		text += c.Path
		if c.Remote != "" {
			text += " from " + c.Remote
		}
	}
	return text + "]"
}

// readRecord reads the record of an open job file and the position of its table.
func readRecord(fd int) (rec record, offset, slots int, err error) {
	b := make([]byte, tableAlign)
	for {
		n, err := fdio.ReadFull(fd, b, 0)
		if err != nil {
			return rec, 0, 0, err
		}
		if n == len(b) && len(b) < maxRecord {
			if need := recordHead + int(binary.LittleEndian.Uint32(b[8:])); string(b[:8]) == recordMagic &&
				need > len(b) && need <= maxRecord {
				b = make([]byte, need)
				continue
			}
		}
		return decodeRecord(b[:n])
	}
}

// unregister releases what lead or follow took.
func (r *registration) unregister() error {
	var errs []error
	if r.table != nil {
		if r.slot >= 0 {
			r.table.leave(r.slot)
			r.slot = -1
		}
		errs = append(errs, r.table.close())
	}
	if r.locks != nil {
		errs = append(errs, r.locks.Close())
	}
	if r.hold != nil {
		errs = append(errs, r.hold.Release())
	}
	if r.number != nil {
		errs = append(errs, r.number.Close())
	}
	if r.claims != nil {
		errs = append(errs, r.claims.close())
	}
	r.table, r.locks, r.hold, r.number, r.claims = nil, nil, nil, nil, nil
	return errors.Join(errs...)
}

// leave ends the membership; the last member removes the job's file and what its members shared.
func (r *registration) leave() error {
	r.table.leave(r.slot)
	err := r.table.close()
	r.table, r.slot = nil, -1
	err = errors.Join(err, r.locks.Close())
	r.locks = nil
	_, err1 := r.hold.RemoveIfLast(func() error { return r.root.RemoveAll(prefixOf(r.record.Number)) })
	r.hold = nil
	return errors.Join(err, err1)
}

// close releases everything. With leave the process leaves the job first.
func (r *registration) close(leave bool) error {
	var err error
	if leave && r.hold != nil {
		err = r.leave()
	}
	err = errors.Join(err, r.unregister())
	if !r.borrowed {
		closePlaces(r.places)
	}
	r.places = nil
	for _, d := range []*lockfile.Dir{r.jobs, r.claimsDir, r.root} {
		if d != nil {
			err = errors.Join(err, d.Close())
		}
	}
	r.jobs, r.claimsDir, r.root = nil, nil, nil
	return err
}

// gone reports whether part of the runtime directory was removed, so that other jobs do not see all
// claims; whole means that nothing is left that collides with a new registration.
func (r *registration) gone() (some, whole bool) {
	whole = r.claimsDir.Gone() && r.jobs.Gone()
	return whole || r.root.Gone() || r.claimsDir.Gone() || r.jobs.Gone() || r.number.Gone() || r.locks.Gone() ||
		r.claims.gone(), whole
}

// warn logs a warning once: registering is tried many times.
func (r *registration) warn(spec *Spec, msg string, err error) {
	if text := err.Error(); !r.warned[text] {
		if r.warned == nil {
			r.warned = map[string]bool{}
		}
		r.warned[text] = true
		spec.warn(msg, err)
	}
}

func (s *Spec) warn(msg string, err error) { s.Logger.Warn(msg, "error", err) }
