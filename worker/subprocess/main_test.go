package subprocess

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leat/internal/childproc"
	"leat/internal/proctest"
	"leat/internal/worker/workertest"
	"leat/worker"
)

func TestMain(m *testing.M) {
	proctest.Main(map[string]proctest.Func{"worker": workerProcess, "parent": parentProcess, "sleeper": sleeperProcess})
	workertest.Main()
	goleak.VerifyTestMain(m)
}

var itoa = strconv.Itoa

// hello is what a worker of these tests sends on its first connection.
type hello struct {
	Pid, Group int
	Name       string
	Env        map[string]string
	Args       []string
	Files      map[int]string // what its descriptors are, where there is /proc
	Stdin      int            // bytes
	Grandchild int
}

// workerProcess says hello and does what the lines on its first connection say. It ignores the end
// of its connections: what ends it is what is tested.
func workerProcess([]string) error {
	files := listFiles() // first of all, before Go opens any
	name := os.Getenv("LEAT_WORKER_NAME")
	fds := strings.Split(strings.TrimPrefix(os.Getenv("LEAT_WORKER"), "fds:"), ",")
	first, err := strconv.Atoi(fds[0])
	if err != nil {
		return err
	}
	conn := os.NewFile(uintptr(first), "first connection")
	h := hello{Pid: os.Getpid(), Group: syscall.Getpgrp(), Name: name, Args: os.Args, Files: files,
		Env: map[string]string{}}
	for _, e := range os.Environ() {
		k, v, _ := strings.Cut(e, "=")
		h.Env[k] = v
	}
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	h.Stdin = len(in)
	if os.Getenv("TEST_GRANDCHILD") != "" {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), "LEAT_PROCTEST=sleeper")
		if os.Getenv("TEST_GRANDCHILD") == "away" {
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		c.Stdout = os.Stdout // holds the pipe open
		if err := c.Start(); err != nil {
			return err
		}
		h.Grandchild = c.Process.Pid
	}
	if err := json.NewEncoder(conn).Encode(h); err != nil {
		return err
	}
	if os.Getenv("TEST_IGNORE_TERM") != "" {
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(conn, "ignoring")
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "exit":
			code, _ := strconv.Atoi(rest)
			os.Exit(code)
		case "print":
			fmt.Println(rest)
		case "complain":
			fmt.Fprintln(os.Stderr, rest)
		case "flood":
			n, _ := strconv.Atoi(rest)
			line := strings.Repeat("x", 98) + "\n"
			for range n {
				fmt.Print("y", line)
			}
		}
		fmt.Fprintln(conn, "done", verb)
	}
	return sleeperProcess(nil)
}

func sleeperProcess([]string) error {
	time.Sleep(time.Hour)
	return nil
}

// parentProcess starts two workers and writes their numbers to a file.
func parentProcess(args []string) error {
	c := &connector{}
	_, err := New(&Options{Env: []string{"LEAT_PROCTEST=worker"}}).Start(ctxForever, c.options(2))
	if err != nil {
		return err
	}
	var pids []byte
	for i := range 2 {
		h, _, err := c.hello(i)
		if err != nil {
			return err
		}
		pids = fmt.Appendln(pids, h.Pid)
	}
	if err := os.WriteFile(args[0], pids, 0o600); err != nil {
		return err
	}
	return sleeperProcess(nil)
}

// readPids returns what a parentProcess has written, nil when it is not all there.
func readPids(path string) (pids []int) {
	text, _ := os.ReadFile(path)
	if strings.Count(string(text), "\n") == 2 {
		for _, f := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(f)
			pids = append(pids, pid)
		}
	}
	return pids
}

// connector makes connections and keeps the parent's ends.
type connector struct {
	mu   sync.Mutex
	ends []net.Conn
	gone chan worker.Exit
}

func (c *connector) connect() (*os.File, error) {
	conn, theirs, err := childproc.SocketPair("child's end")
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, conn)
	return theirs, nil
}

func (c *connector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.ends {
		_ = e.Close()
	}
}

func (c *connector) options(workers int) worker.StartOptions {
	c.gone = make(chan worker.Exit, workers)
	exe, _ := os.Executable()
	return worker.StartOptions{Workers: workers, Command: []string{exe, "worker"}, Connect: c.connect,
		OnExit: func(e worker.Exit) { c.gone <- e }}
}

// hello reads what worker i says, in the order of start.
func (c *connector) hello(i int) (hello, *talk, error) {
	conn := c.ends[connections*i]
	t := &talk{conn: conn, lines: bufio.NewReader(conn)}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return hello{}, nil, err
	}
	line, err := t.lines.ReadString('\n')
	if err != nil {
		return hello{}, nil, fmt.Errorf("worker %d says nothing: %w", i, err)
	}
	var h hello
	err = json.Unmarshal([]byte(line), &h)
	return h, t, err
}

// talk is a connection to a worker that has said hello.
type talk struct {
	conn  net.Conn
	lines *bufio.Reader
}

func (t *talk) tell(line string) error {
	_, err := fmt.Fprintln(t.conn, line)
	return err
}

func (t *talk) wait(want string) error {
	line, err := t.lines.ReadString('\n')
	if line = strings.TrimSpace(line); err != nil || line != want {
		return fmt.Errorf("worker says %q, %v; expected %q", line, err, want)
	}
	return nil
}

func (t *talk) do(line string) error {
	verb, _, _ := strings.Cut(line, " ")
	return errors.Join(t.tell(line), t.wait("done "+verb))
}

func listFiles() map[int]string {
	files := map[int]string{}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		// The descriptor that reads the directory is closed by now, and its link leads nowhere.
		if name, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil {
			fd, _ := strconv.Atoi(e.Name())
			files[fd] = name
		}
	}
	return files
}
