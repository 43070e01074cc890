package pytest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
)

//go:embed server.py
var serverScript string

// A server is a Python process that runs scripts in children, which inherit the modules that it has
// imported. Starting Python and importing GDAL and NumPy takes longer than most scripts.
type server struct {
	address string
	stdin   *os.File // the server ends when this end is closed, by the end of the test process at the latest
	process *exec.Cmd
}

var servers struct {
	sync.Mutex
	of      map[string]*server // by interpreter
	started int
}

// serverOf returns the server of an interpreter, which it starts first if need be.
func serverOf(python string) (*server, error) {
	servers.Lock()
	defer servers.Unlock()
	if s := servers.of[python]; s != nil {
		return s, nil
	}
	servers.started++
	name := fmt.Sprintf("leat-pytest-%d-%d", os.Getpid(), servers.started)
	cmd := exec.Command(python, "-c", serverScript, name)
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	ready, report, err := os.Pipe()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer ready.Close()
	// Files of this process, so that no goroutine copies; its messages are those of the test.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, report, os.Stderr
	cmd.Dir = os.TempDir()
	err = cmd.Start()
	report.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	if line, err := bufio.NewReader(ready).ReadString('\n'); err != nil {
		ours.Close()
		return nil, fmt.Errorf("server of %s printed %q: %w", python, line, err)
	}
	s := &server{address: "@" + name, stdin: ours, process: cmd}
	if servers.of == nil {
		servers.of = map[string]*server{}
	}
	servers.of[python] = s
	return s, nil
}

// forget waits for a server that is gone and returns how it ended. The next script starts another
// one.
func (s *server) forget(python string) *os.ProcessState {
	servers.Lock()
	defer servers.Unlock()
	if servers.of[python] == s {
		delete(servers.of, python)
		s.stdin.Close()
		_ = s.process.Wait() // how it ended is in ProcessState
	}
	return s.process.ProcessState
}

// run runs a script, and returns what it printed to standard output and standard error.
func (s *server) run(modules []string, script string, stdin []byte) (output []byte, stderr string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, "", err
	}
	request, err := json.Marshal(map[string]any{"modules": modules, "script": script, "stdin": string(stdin),
		"dir": dir, "env": os.Environ()})
	if err != nil {
		return nil, "", err
	}
	c, err := net.Dial("unix", s.address)
	if err != nil {
		return nil, "", err
	}
	defer c.Close()
	if _, err := c.Write(append(request, '\n')); err != nil {
		return nil, "", err
	}
	answer := bufio.NewReader(c)
	line, err := answer.ReadBytes('\n')
	if err == io.EOF {
		return nil, "", fmt.Errorf("the process ended without a result")
	}
	if err != nil {
		return nil, "", err
	}
	var head struct {
		Code   int    `json:"code"`
		Stderr string `json:"stderr"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, "", err
	}
	if output, err = io.ReadAll(answer); err == nil && head.Code != 0 {
		err = fmt.Errorf("exit status %d", head.Code)
	}
	return output, head.Stderr, err
}
