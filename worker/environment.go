package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Variables by which a kind tells a worker process what it is. Exactly one of the first three leads it to its channel.
const (
	// EnvInvitation holds the text of an Invitation, or "fds:3,4,5": the numbers of connections that the process has inherited.
	EnvInvitation = "LEAT_WORKER"
	// EnvFile is the path of a file that holds the text of an Invitation: a regular file of this user, of a mode without bits for group and others.
	EnvFile = "LEAT_WORKER_FILE"
	// EnvSecret names a store and a secret in it that holds the text of an Invitation: "secretsmanager:NAME", "ssm:NAME".
	EnvSecret = "LEAT_WORKER_SECRET"
	// EnvName is the worker's name.
	EnvName = "LEAT_WORKER_NAME"
	// EnvKind and EnvIndexFrom make the name where all workers of a job array share one environment: EnvIndexFrom names the variable
	// that holds the worker's index in the array, and EnvFirst is added to that (0 when it is not set).
	EnvKind      = "LEAT_WORKER_KIND"
	EnvIndexFrom = "LEAT_WORKER_INDEX_FROM"
	EnvFirst     = "LEAT_WORKER_FIRST"
	// EnvSlots is how many blocks the worker computes at once; when it is not set, as many as it may use cores.
	EnvSlots = "LEAT_WORKER_SLOTS"
)

// isOurs tells whether a variable is one of a worker's.
func isOurs(name string) bool {
	return name == EnvInvitation || strings.HasPrefix(name, EnvInvitation+"_")
}

// Bounds of a worker's description.
const (
	maxSlots       = 2048
	maxConnections = 64 // inherited
	maxName        = 64
)

// Environment is what a worker process was told by those who started it.
type Environment struct {
	// Name and Kind are the worker's: "slurm-3" and "slurm".
	Name, Kind string
	// Slots are the blocks that it computes at once; 0: as many as it may use cores.
	Slots int
	// Invitation leads to the channel, unless there are Connections.
	Invitation Invitation
	// Connections are inherited: for heartbeats, for leases, and one or more for results. Work closes them.
	Connections []net.Conn
}

// String names the worker and nothing secret.
func (e *Environment) String() string { return "worker " + e.Name }

// FromEnvironment reads the variables above, and unsets every LEAT_WORKER and LEAT_WORKER_*, so that no child of this process inherits a secret. It returns nil, nil when there
// are none: the process is no worker. fetch has a function for each store that EnvSecret may name, which returns the text of a secret; ctx
// bounds that.
func FromEnvironment(ctx context.Context, fetch map[string]func(ctx context.Context, name string) (string, error)) (*Environment, error) {
	set := map[string]string{}
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); isOurs(name) {
			set[name] = value
			if err := os.Unsetenv(name); err != nil {
				return nil, fmt.Errorf("worker: %w", err)
			}
		}
	}
	return readEnvironment(ctx, set, os.Getenv, fetch)
}

// readEnvironment does the work of FromEnvironment on the variables of workers; getenv finds others.
func readEnvironment(ctx context.Context, set map[string]string, getenv func(string) string, fetch map[string]func(context.Context, string) (string, error)) (*Environment, error) {
	if len(set) == 0 {
		return nil, nil
	}
	for name := range set {
		if !slices.Contains([]string{EnvInvitation, EnvFile, EnvSecret, EnvName, EnvKind, EnvIndexFrom, EnvFirst, EnvSlots}, name) {
			return nil, fmt.Errorf("worker: there is no variable %.64q: the run and its workers are of different versions", name)
		}
	}
	e := &Environment{}
	if err := e.nameFrom(set, getenv); err != nil {
		return nil, err
	}
	if s := set[EnvSlots]; s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxSlots {
			return nil, fmt.Errorf("worker: %s=%.64q is not a number from 1 to %d", EnvSlots, s, maxSlots)
		}
		e.Slots = n
	}
	if err := e.channelFrom(ctx, set, fetch); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Environment) nameFrom(set map[string]string, getenv func(string) string) error {
	e.Kind = set[EnvKind]
	if e.Name = set[EnvName]; e.Name == "" {
		from := set[EnvIndexFrom]
		if e.Kind == "" || from == "" {
			return fmt.Errorf("worker: neither %s is set, nor %s and %s", EnvName, EnvKind, EnvIndexFrom)
		}
		i, err := strconv.ParseUint(getenv(from), 10, 31)
		if err != nil {
			return fmt.Errorf("worker: %s names the variable %.64q, which holds no index", EnvIndexFrom, from)
		}
		var first uint64
		if s := set[EnvFirst]; s != "" {
			if first, err = strconv.ParseUint(s, 10, 31); err != nil {
				return fmt.Errorf("worker: %s=%.64q is not a number", EnvFirst, s)
			}
		}
		e.Name = WorkerName(e.Kind, int(first+i))
	}
	if e.Kind == "" {
		e.Kind = e.Name
		if i := strings.LastIndexByte(e.Name, '-'); i > 0 {
			e.Kind = e.Name[:i]
		}
	}
	for _, s := range []string{e.Name, e.Kind} {
		if !isName(s) {
			return fmt.Errorf("worker: %.80q can't be a worker's name: letters, digits, '-', '_' and '.', at most %d", s, maxName)
		}
	}
	return nil
}

func (e *Environment) channelFrom(ctx context.Context, set map[string]string, fetch map[string]func(context.Context, string) (string, error)) error {
	n := 0
	for _, name := range []string{EnvInvitation, EnvFile, EnvSecret} {
		if set[name] != "" {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("worker: of %s, %s and %s, %d are set; exactly one leads a worker to its channel", EnvInvitation, EnvFile, EnvSecret, n)
	}
	text, from := set[EnvInvitation], EnvInvitation
	if list, ok := strings.CutPrefix(text, "fds:"); ok {
		conns, err := inherit(list)
		e.Connections = conns
		return err
	}
	if path := set[EnvFile]; path != "" {
		b, err := readSecret(path)
		if err != nil {
			return err
		}
		text, from = string(b), "the file of "+EnvFile
	}
	if s := set[EnvSecret]; s != "" {
		store, name, ok := strings.Cut(s, ":")
		f := fetch[store]
		if !ok || f == nil || name == "" {
			return fmt.Errorf("worker: %s=%.128q names no store of secrets that this program knows, and a secret in it", EnvSecret, s)
		}
		var err error
		if text, err = f(ctx, name); err != nil {
			return fmt.Errorf("worker: %s: %w", EnvSecret, err)
		}
		from = "the secret of " + EnvSecret
	}
	if err := e.Invitation.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%w (in %s)", err, from)
	}
	return nil
}

// parseDescriptors reads "3,4,5".
func parseDescriptors(list string) ([]int, error) {
	var fds []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(s, 10, 20)
		if err != nil || n < 3 || slices.Contains(fds, int(n)) {
			return nil, fmt.Errorf("worker: %s=fds:%.64q: not numbers of descriptors from 3 on, each once", EnvInvitation, list)
		}
		fds = append(fds, int(n))
	}
	if len(fds) < 3 || len(fds) > maxConnections {
		return nil, fmt.Errorf("worker: %s has %d connections; there are 3 to %d", EnvInvitation, len(fds), maxConnections)
	}
	return fds, nil
}

// inherit makes connections of inherited descriptors, which no child of this process inherits any more.
func inherit(list string) (conns []net.Conn, err error) {
	fds, err := parseDescriptors(list)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, c := range conns {
				err = errors.Join(err, c.Close())
			}
			conns = nil
		}
	}()
	for _, fd := range fds {
		f := os.NewFile(uintptr(fd), "connection")
		if f == nil {
			return conns, fmt.Errorf("worker: descriptor %d of %s is not open", fd, EnvInvitation)
		}
		c, err := net.FileConn(f) // a duplicate, closed by exec
		if err != nil {
			return conns, fmt.Errorf("worker: descriptor %d of %s is not a connection: %w", fd, EnvInvitation, err)
		}
		if err := f.Close(); err != nil {
			return append(conns, c), fmt.Errorf("worker: descriptor %d of %s: %w", fd, EnvInvitation, err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// cores are those this process may use: of its affinity and its control group.
func cores() int { return runtime.GOMAXPROCS(0) }
