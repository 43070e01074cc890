package slurmtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long the daemons may take to start on a loaded machine.
const patience = 2 * time.Minute

// Start runs a cluster until the test ends, or skips the test with a reason if there can't be one.
func Start(t testing.TB) *Cluster {
	t.Helper()
	skip(t)
	return startAmong(t, func(*Cluster) {})
}

// startAmong is Start with a function that is called between choosing the ports and starting the
// daemons.
func startAmong(t testing.TB, meanwhile func(*Cluster)) *Cluster {
	t.Helper()
	for tries := 1; ; tries++ {
		c, err := start(t, meanwhile)
		if err == nil {
			return c
		}
		if tries == 3 || !errors.Is(err, errTaken) {
			t.Fatal(err)
		}
	}
}

// errTaken means that another process took a port between its choice and the daemon's start.
var errTaken = errors.New("a port is taken")

func start(t testing.TB, meanwhile func(*Cluster)) (*Cluster, error) {
	// Not t.TempDir: the name of a test may be too long for a socket's path.
	dir, err := os.MkdirTemp("", "slurmtest-")
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &Cluster{Dir: dir, Env: []string{"SLURM_CONF=" + filepath.Join(dir, "slurm.conf")}}
	if c.controller, err = freePort(0); err == nil {
		c.node, err = freePort(c.controller)
	}
	if err == nil {
		err = c.configure()
	}
	if err != nil {
		return nil, err
	}
	meanwhile(c)
	end, err := c.daemons()
	if err != nil {
		return nil, err
	}
	if err := c.await(); err != nil {
		err = fmt.Errorf("the cluster does not start: %w\n%s", err, c.logs())
		end()
		return nil, err
	}
	t.Cleanup(end)
	return c, nil
}

// freePort returns a free port of loopback, below the range of ephemeral ports.
func freePort(but int) (int, error) {
	for range 100 {
		port := 10000 + mrand.IntN(20000)
		if port == but {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no port of 127.0.0.1 is free")
}

// configure creates the directories and the configuration. Batch jobs are scheduled every second
// instead of every three.
func (c *Cluster) configure() error {
	for _, d := range []string{"state", "spool", "munge"} {
		if err := os.Mkdir(filepath.Join(c.Dir, d), 0o700); err != nil {
			return err
		}
	}
	key := make([]byte, 128)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "munge", "key"), key, 0o400); err != nil {
		return err
	}
	conf := strings.NewReplacer("DIR", c.Dir, "CONTROLLER", fmt.Sprint(c.controller), "NODE", fmt.Sprint(c.node),
		"CPUS", fmt.Sprint(CPUs)).Replace(`
ClusterName=leat
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=CONTROLLER
SlurmdPort=NODE
CommunicationParameters=NoInAddrAny
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=DIR/munge/socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd.pid
SlurmctldLogFile=DIR/slurmctld.log
SlurmdLogFile=DIR/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 CPUs=CPUS RealMemory=1000 State=UNKNOWN
PartitionName=leat Nodes=node1 Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=node1 MaxTime=1 State=UP
PartitionName=down Nodes=node1 MaxTime=INFINITE State=DOWN
`)
	return os.WriteFile(filepath.Join(c.Dir, "slurm.conf"), []byte(conf), 0o600)
}

// script starts the daemons and waits until its standard input ends, at the latest with this
// process. Then it kills everything started for this cluster: jobs are not descendants of slurmd,
// but have the configuration's path in their environment. If the script is killed, the daemons die
// too.
const script = `
cd "$1"
umask 022
setpriv --pdeathsig KILL "$2" --foreground --force --num-threads=2 --key-file="$1/munge/key" --socket="$1/munge/socket" \
	--pid-file="$1/munge/pid" --log-file="$1/munge/log" --seed-file="$1/munge/seed" &
munged=$!
i=0
while [ ! -S munge/socket ] && [ $i -lt 3000 ]; do sleep 0.02; i=$((i+1)); done
setpriv --pdeathsig KILL env SLURM_CONF="$1/slurm.conf" "$3" -D -c &
slurmctld=$!
setpriv --pdeathsig KILL env SLURM_CONF="$1/slurm.conf" "$4" -D -N node1 &
slurmd=$!
cat >/dev/null
SLURM_CONF="$1/slurm.conf" timeout 5 scancel --user=root
i=0
while [ $i -lt 20 ] && [ -n "$(SLURM_CONF="$1/slurm.conf" timeout 5 squeue --noheader --format=%i)" ]; do sleep 0.1; i=$((i+1)); done
kill -KILL $munged $slurmctld $slurmd
wait
i=0
while [ $i -lt 200 ]; do
	found=$(grep -lzxF "SLURM_CONF=$1/slurm.conf" /proc/[0-9]*/environ 2>/dev/null)
	[ -n "$found" ] || break
	for p in $found; do
		p=${p#/proc/}
		kill -KILL "${p%/environ}" 2>/dev/null
	done
	sleep 0.05
	i=$((i+1))
done
cd /
rm -rf "$1"
`

// daemons starts the daemons. They, the jobs and the directory are removed when end is called or
// this process ends.
func (c *Cluster) daemons() (end func(), err error) {
	args := []string{"-c", script, "slurmtest", c.Dir}
	for _, p := range []string{"munged", "slurmctld", "slurmd"} {
		path, err := find(p)
		if err != nil {
			return nil, err
		}
		args = append(args, path)
	}
	out, err := os.Create(filepath.Join(c.Dir, "daemons.log"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command("sh", args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "SLURM") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Stdout, cmd.Stderr = out, out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Not in reach of the terminal's ^C, which ends this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	}, nil
}

// await waits until the node accepts jobs.
func (c *Cluster) await() error {
	begun := time.Now()
	for {
		// Slurm's programs would wait for a long time for a controller that does not listen yet.
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", c.controller)); err == nil {
			_ = conn.Close()
			out, err := c.command("sinfo", "--noheader", "--partition="+Default, "--format=%t").CombinedOutput()
			if err == nil && strings.TrimSpace(string(out)) == "idle" {
				return nil
			}
		}
		for _, name := range []string{"slurmctld.log", "slurmd.log"} {
			if text, _ := os.ReadFile(filepath.Join(c.Dir, name)); strings.Contains(string(text),
				"Address already in use") {
				return errTaken
			}
		}
		time.Sleep(50 * time.Millisecond)
		if time.Since(begun) > patience {
			return fmt.Errorf("the node is not idle after %v", patience)
		}
	}
}

// logs returns the ends of the daemons' logs.
func (c *Cluster) logs() string {
	var b strings.Builder
	for _, name := range []string{"daemons.log", "munge/log", "slurmctld.log", "slurmd.log"} {
		text, err := os.ReadFile(filepath.Join(c.Dir, name))
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "-- %s\n%s\n", name, text[max(0, len(text)-2000):])
	}
	return b.String()
}
