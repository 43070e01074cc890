package client

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

	"leat/internal/worker/protocol"
	"leat/worker"
)

// isWorkerVariable reports whether name is a variable of worker processes.
func isWorkerVariable(name string) bool {
	return name == worker.EnvEndpoint || strings.HasPrefix(name, worker.EnvEndpoint+"_")
}

// Environment is the configuration of a worker process, set by its launcher.
type Environment struct {
	// Name is the name of the worker, and Kind that of its launcher: "slurm-3" and "slurm".
	Name, Kind string
	// Slots is the number of blocks computed at once; 0: the number of usable cores.
	Slots int
	// Endpoint locates the coordinator, unless Connections is set.
	Endpoint worker.Endpoint
	// Connections are inherited: for heartbeats, for leases, and one or more for results. Work
	// closes them.
	Connections []net.Conn
}

// String names the worker and nothing secret.
func (e *Environment) String() string { return "worker " + e.Name }

// VariableError is a mistake in the value of a variable, rather than in what it names.
type VariableError struct{ Err error }

func (e *VariableError) Error() string { return e.Err.Error() }

// Unwrap returns the mistake.
func (e *VariableError) Unwrap() error { return e.Err }

// Started reports whether this process was started as a worker, by the environment (LEAT_WORKER
// and the like).
func Started() bool {
	for _, name := range []string{worker.EnvEndpoint, worker.EnvFile, protocol.EnvSecret} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// FromEnvironment reads the variables of a worker (worker.EnvEndpoint and the others). It unsets
// LEAT_WORKER and all LEAT_WORKER_* variables, so that no child process inherits a secret. It
// returns nil, nil if none is set: the process is not a worker. fetch maps each store that
// EnvSecret may name to a function that returns the text of a secret, with ctx as its context.
func FromEnvironment(ctx context.Context,
	fetch map[string]func(ctx context.Context, name string) (string, error)) (*Environment, error) {
	set := map[string]string{}
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); isWorkerVariable(name) {
			set[name] = value
			if err := os.Unsetenv(name); err != nil {
				return nil, err
			}
		}
	}
	return readEnvironment(ctx, set, os.Getenv, fetch)
}

// readEnvironment builds an Environment from worker variables; getenv looks up other variables.
func readEnvironment(ctx context.Context, set map[string]string, getenv func(string) string,
	fetch map[string]func(context.Context, string) (string, error)) (*Environment, error) {
	if len(set) == 0 {
		return nil, nil
	}
	for name := range set {
		if !slices.Contains([]string{worker.EnvEndpoint, worker.EnvFile, protocol.EnvSecret, worker.EnvName,
			protocol.EnvKind, protocol.EnvIndexFrom, protocol.EnvFirst,
			worker.EnvSlots}, name) {
			return nil, &VariableError{fmt.Errorf("unknown variable %.64q: coordinator and worker may have different versions", name)}
		}
	}
	e := &Environment{}
	if err := e.setName(set, getenv); err != nil {
		return nil, &VariableError{err}
	}
	if s := set[worker.EnvSlots]; s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > protocol.MaxSlots {
			return nil, &VariableError{fmt.Errorf("%s=%.64q is not a number from 1 to %d", worker.EnvSlots, s, protocol.MaxSlots)}
		}
		e.Slots = n
	}
	if err := e.setEndpoint(ctx, set, fetch); err != nil {
		return nil, err
	}
	return e, nil
}

func (e *Environment) setName(set map[string]string, getenv func(string) string) error {
	e.Kind = set[protocol.EnvKind]
	if e.Name = set[worker.EnvName]; e.Name == "" {
		from := set[protocol.EnvIndexFrom]
		if e.Kind == "" && from == "" {
			return fmt.Errorf("%s is not set, expected a name that no other worker of the run has", worker.EnvName)
		}
		if e.Kind == "" || from == "" {
			return fmt.Errorf("neither %s nor both %s and %s are set", worker.EnvName, protocol.EnvKind, protocol.EnvIndexFrom)
		}
		i, err := strconv.ParseUint(getenv(from), 10, 31)
		if err != nil {
			return fmt.Errorf("%s: variable %.64q holds no index", protocol.EnvIndexFrom, from)
		}
		var first uint64
		if s := set[protocol.EnvFirst]; s != "" {
			if first, err = strconv.ParseUint(s, 10, 31); err != nil {
				return fmt.Errorf("%s=%.64q is not a number", protocol.EnvFirst, s)
			}
		}
		e.Name = worker.WorkerName(e.Kind, int(first+i))
	}
	if e.Kind == "" {
		e.Kind = e.Name
		if i := strings.LastIndexByte(e.Name, '-'); i > 0 {
			e.Kind = e.Name[:i]
		}
	}
	for _, s := range []string{e.Name, e.Kind} {
		if !protocol.IsName(s) {
			return fmt.Errorf("%.80q is not a valid worker name: expected letters, digits, '-', '_' and '.', at most %d",
				s, protocol.MaxName)
		}
	}
	return nil
}

func (e *Environment) setEndpoint(ctx context.Context, set map[string]string,
	fetch map[string]func(context.Context, string) (string, error)) error {
	n := 0
	for _, name := range []string{worker.EnvEndpoint, worker.EnvFile, protocol.EnvSecret} {
		if set[name] != "" {
			n++
		}
	}
	if n != 1 {
		return &VariableError{fmt.Errorf("of %s, %s and %s, %d are set, expected exactly one",
			worker.EnvEndpoint, worker.EnvFile, protocol.EnvSecret, n)}
	}
	text, from := set[worker.EnvEndpoint], worker.EnvEndpoint
	if list, ok := strings.CutPrefix(text, "fds:"); ok {
		conns, err := inherit(list)
		e.Connections = conns
		return err
	}
	if path := set[worker.EnvFile]; path != "" {
		b, err := readSecret(path)
		if err != nil {
			return err
		}
		text, from = string(b), "file of "+worker.EnvFile
	}
	if s := set[protocol.EnvSecret]; s != "" {
		store, name, ok := strings.Cut(s, ":")
		f := fetch[store]
		if !ok || f == nil || name == "" {
			return &VariableError{fmt.Errorf("%s=%.128q is not a known secret store and a name in it",
				protocol.EnvSecret, s)}
		}
		var err error
		if text, err = f(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", protocol.EnvSecret, err)
		}
		from = "secret of " + protocol.EnvSecret
	}
	if err := e.Endpoint.UnmarshalText([]byte(text)); err != nil {
		err = fmt.Errorf("%w (in %s)", err, from)
		if from == worker.EnvEndpoint {
			err = &VariableError{err}
		}
		return err
	}
	return nil
}

// parseDescriptors parses "3,4,5".
func parseDescriptors(list string) ([]int, error) {
	var fds []int
	for s := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseUint(s, 10, 20)
		if err != nil || n < 3 || slices.Contains(fds, int(n)) {
			return nil, fmt.Errorf("%s=fds:%.64q: expected distinct descriptors of 3 or more",
				worker.EnvEndpoint, list)
		}
		fds = append(fds, int(n))
	}
	if len(fds) < 3 || len(fds) > protocol.MaxConnections {
		return nil, fmt.Errorf("%s has %d connections, expected 3 to %d", worker.EnvEndpoint, len(fds),
			protocol.MaxConnections)
	}
	return fds, nil
}

// inherit turns inherited descriptors into connections that child processes don't inherit.
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
			return conns, fmt.Errorf("descriptor %d of %s is not open", fd, worker.EnvEndpoint)
		}
		c, err := net.FileConn(f) // a duplicate with close-on-exec
		if err != nil {
			return conns, fmt.Errorf("descriptor %d of %s is not a connection: %w", fd, worker.EnvEndpoint, err)
		}
		if err := f.Close(); err != nil {
			return append(conns, c), fmt.Errorf("descriptor %d of %s: %w", fd, worker.EnvEndpoint, err)
		}
		conns = append(conns, c)
	}
	return conns, nil
}

// cores returns the number of cores that this process may use, by GOMAXPROCS, affinity and control
// group.
func cores() int { return runtime.GOMAXPROCS(0) }
