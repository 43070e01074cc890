package pbstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// socketVariable names the server's socket for the simulated programs.
const socketVariable = "PBSTEST_SOCKET"

var programs = []string{"qsub", "qstat", "qdel", "qselect"}

type request struct {
	Program string
	Args    []string
	Stdin   string
	Env     []string
	Dir     string
}

type answer = Answer

// Main runs qsub, qstat, qdel or qselect and ends the process if it was started under one of these
// names by a test with a [Server]. A test binary calls it first in TestMain.
func Main() {
	program := filepath.Base(os.Args[0])
	socket := os.Getenv(socketVariable)
	if socket == "" || !slices.Contains(programs, program) {
		return
	}
	code, err := client(program, socket)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: cannot connect to server pbstest (errno=15010): %v\n", program, err)
		code = 1
	}
	os.Exit(code)
}

func client(program, socket string) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	q := request{Program: program, Args: os.Args[1:], Env: os.Environ(), Dir: dir}
	if program == "qsub" {
		b, err := io.ReadAll(os.Stdin)
		if err != nil {
			return 0, err
		}
		q.Stdin = string(b)
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(q); err != nil {
		return 0, err
	}
	var a answer
	if err := json.NewDecoder(c).Decode(&a); err != nil {
		return 0, err
	}
	if a.Kill {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	fmt.Fprint(os.Stdout, a.Stdout)
	fmt.Fprint(os.Stderr, a.Stderr)
	return a.Code, nil
}
