//go:build unix

package namespace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// walkerMain is a process of its own that joins and leaves by itself.
//
//	once KEY DIR                   one job that holds DIR for a moment
//	shared things UNTIL DIR KEY    job after job, each checking that what it shares stays its own
//	claims UNTIL ROOT SEED LOG     random claims below ROOT, see [walkClaims]
func walkerMain(args []string) error {
	ctx := context.Background()
	if args[0] == "once" {
		n, err := Join(ctx, Spec{Key: args[1], Dirs: []Dir{{args[2], "s3://bucket"}}})
		if err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
		return n.Close()
	}
	nanos, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	until := time.Unix(0, nanos)
	if args[0] == "claims" {
		return walkClaims(ctx, until, args[2:])
	}
	rounds := 0
	for ; time.Now().Before(until); rounds++ {
		if err := shareThings(ctx, args[2], fmt.Sprint(args[3], "-", rounds), rounds); err != nil {
			return fmt.Errorf("round %d: %w", rounds, err)
		}
	}
	fmt.Println(rounds, "jobs")
	return nil
}

// shareThings is one job of two members.
func shareThings(ctx context.Context, dir, key string, round int) (err error) {
	spec := Spec{Key: key, Dirs: []Dir{{dir, "s3://bucket"}}}
	a, err := Join(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	c, err := a.Counter("c")
	if err != nil {
		return err
	}
	c.Store(int64(round))
	shared, err := a.Dir("d")
	if err != nil {
		return err
	}
	file := filepath.Join(shared, "file")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		return err
	}
	time.Sleep(rand.N(3 * time.Millisecond))
	b, err := Join(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if b.Leader() || b.Number() != a.Number() {
		return fmt.Errorf("the second member leads, or has number %d and not %d", b.Number(), a.Number())
	}
	again, err := b.Counter("c")
	if err != nil {
		return err
	}
	if v := again.Load(); v != int64(round) {
		return fmt.Errorf("the second member sees %d, not %d", v, round)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if string(text) != key {
		return fmt.Errorf("the file holds %q", text)
	}
	return nil
}

// gcMain cleans up, again and again: UNTIL.
func gcMain(args []string) error {
	nanos, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	rounds, removed := 0, 0
	for ; time.Now().Before(time.Unix(0, nanos)); rounds++ {
		names, err := GC(false)
		if err != nil {
			return err
		}
		removed += len(names)
	}
	fmt.Println(rounds, "rounds of GC removed", removed)
	return nil
}

// A claim of the random tests is written as a letter, x for exclusive or s for shared, and a path:
// "x /base/0/1". It covers what lies inside.

type claimsRandom struct{ *rand.Rand }

func newClaimsRandom(seed uint64) claimsRandom { return claimsRandom{rand.New(rand.NewPCG(seed, 1))} }

// places are one to three claims of one job that don't exclude each other, in a tree of three
// directories in each of three, three levels deep.
func (r claimsRandom) places(base string) []string {
	var list []string
next:
	for range 1 + r.IntN(3) {
		path := base
		for range r.IntN(4) {
			path += "/" + strconv.Itoa(r.IntN(3))
		}
		p := "s " + path
		if r.IntN(2) == 0 && path != base {
			p = "x " + path
		}
		for _, o := range list {
			if o[2:] == path || excludes(p, o) {
				continue next
			}
		}
		list = append(list, p)
	}
	return list
}

func claimsSpec(places []string) (s Spec) {
	for _, p := range places {
		l := Dir{Path: p[2:]}
		if p[0] == 'x' {
			l.Remote = "s3://bucket"
		}
		s.Dirs = append(s.Dirs, l)
	}
	return s
}

// excludes reports whether two claims of different jobs may not hold at the same time.
func excludes(a, b string) bool {
	if a[0] == 's' && b[0] == 's' {
		return false
	}
	x, y := a[2:]+"/", b[2:]+"/"
	return strings.HasPrefix(x, y) || strings.HasPrefix(y, x)
}

// heldClaim is a set of claims that a process surely had between two moments.
type heldClaim struct {
	who         int
	from, until int64
	places      []string
}

// walkClaims joins with random claims, holds them for a moment and writes down from when to when.
// Half of the jobs have a second member, which outlives the first.
func walkClaims(ctx context.Context, until time.Time, args []string) error {
	base, seedText, log := args[0], args[1], args[2]
	seed, err := strconv.ParseUint(seedText, 10, 64)
	if err != nil {
		return err
	}
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer f.Close()
	random := newClaimsRandom(seed)
	for round := 0; time.Now().Before(until); round++ {
		places := random.places(base)
		spec := claimsSpec(places)
		spec.Key = fmt.Sprintf("walker %s round %d", seedText, round)
		n, err := Join(ctx, spec)
		var claimed *ClaimedError
		if errors.As(err, &claimed) {
			fmt.Fprintln(f, "refused")
			continue
		}
		if err != nil {
			return err
		}
		from := time.Now().UnixNano()
		long := 2 * time.Millisecond
		if random.IntN(8) == 0 { // others are refused, rather than wait for it
			long = 4 * surelyAlive
		}
		time.Sleep(time.Duration(random.Int64N(int64(long))))
		if random.IntN(2) == 0 {
			second, err := Join(ctx, spec)
			if err != nil {
				return fmt.Errorf("second member: %w", err)
			}
			if err := n.Close(); err != nil {
				return err
			}
			time.Sleep(time.Duration(random.IntN(2000)) * time.Microsecond)
			n = second
		}
		fmt.Fprintf(f, "%d %d %s\n", from, time.Now().UnixNano(), strings.Join(places, "|"))
		if err := n.Close(); err != nil {
			return err
		}
	}
	return nil
}

func readHeld(t testing.TB, log string, who int) (list []heldClaim, refused int) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "refused" {
			refused++
			continue
		}
		h := heldClaim{who: who}
		f := strings.SplitN(line, " ", 3)
		var err1, err2 error
		h.from, err1 = strconv.ParseInt(f[0], 10, 64)
		h.until, err2 = strconv.ParseInt(f[1], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		h.places = strings.Split(f[2], "|")
		list = append(list, h)
	}
	return list, refused
}
