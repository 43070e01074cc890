package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"leat/worker"
)

// remoteShell starts each worker on a host of its own with ssh.
type remoteShell struct{ hosts []string }

func (l remoteShell) Name() string                      { return "ssh" }
func (l remoteShell) Capabilities() worker.Capabilities { return worker.Capabilities{} }

func (l remoteShell) Check(context.Context) error {
	_, err := exec.LookPath("ssh")
	return err
}

func (l remoteShell) Start(_ context.Context, o worker.StartOptions) (worker.Fleet, error) {
	secret, err := o.Endpoint.MarshalText()
	if err != nil {
		return nil, err
	}
	f := &remoteFleet{}
	for i := range o.Workers {
		name := worker.WorkerName(l.Name(), o.First+i)
		// The secret is sent in the environment, since all users of a host see its command lines.
		c := exec.Command("ssh", append([]string{"-o", "SendEnv=LEAT_WORKER*", l.hosts[i%len(l.hosts)]}, o.Command...)...)
		c.Env = append(os.Environ(), worker.EnvName+"="+name, worker.EnvEndpoint+"="+string(secret))
		if err := c.Start(); err != nil {
			return nil, fmt.Errorf("ssh: %w", errors.Join(err, f.Stop(context.Background())))
		}
		f.commands = append(f.commands, c)
		f.running.Go(func() { o.OnExit(worker.Exit{Name: name, Job: "ssh", Err: c.Wait()}) })
	}
	return f, nil
}

type remoteFleet struct {
	commands []*exec.Cmd
	running  sync.WaitGroup
}

func (f *remoteFleet) Jobs() string { return fmt.Sprintf("%d ssh sessions", len(f.commands)) }

func (f *remoteFleet) Stop(context.Context) error {
	for _, c := range f.commands {
		_ = c.Process.Kill() // it may have ended
	}
	f.running.Wait()
	return nil
}

// ExampleLauncher is a launcher for another system: it has four methods, and its Fleet two.
func ExampleLauncher() {
	var l worker.Launcher = remoteShell{hosts: []string{"node1", "node2"}}
	fmt.Println(l.Name(), worker.WorkerName(l.Name(), 7))
	// Output: ssh ssh-7
}
