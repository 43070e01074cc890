// Package pbstest simulates OpenPBS for tests: programs qsub, qstat, qdel and qselect in a PATH for
// the test, and a server within the test that runs the scripts as child processes.
//
//	func TestMain(m *testing.M) {
//		pbstest.Main()
//		...
//	}
//
//	func TestX(t *testing.T) {
//		s := pbstest.New(t) // the test and its children now run the simulated qsub
//		...
//	}
//
// It follows the manual pages and the source of OpenPBS: identifiers 123.server, 123[].server and
// 123[4].server; states Q, R, E, F and B, X for arrays; exit statuses of 256 and more for signals;
// qstat of finished jobs needs -x and a server with history; error texts and exit codes; and, on
// request, output that claims to be JSON and is not. It has one host, one queue and the options
// that leat uses.
package pbstest

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Host is the name of the server in identifiers.
const Host = "pbstest"

// Settings configures a server. The zero value is OpenPBS 23.06 that keeps a history of jobs.
type Settings struct {
	// NoHistory is a server with default settings (job_history_enable unset): finished jobs are
	// unknown, and qstat -x says so on stderr, prints a listing without "Jobs", and returns 0.
	NoHistory bool
	// MaxArray is the server's attribute max_array_size; 0: not set, as by default, which means
	// 10000.
	MaxArray int
	// QueueMaxArray is a smaller limit of the queue, which the server's attributes omit.
	QueueMaxArray int
	// Running is how many jobs and subjobs run at once; the others stay queued. 0: all.
	Running int
	// Hold makes the server hold each job, as when it could not be started 20 times.
	Hold bool
	// Old prints as versions 14 to 19 do: indented by four, variables not escaped, numbers like
	// 005, a "Jobs" for each job.
	Old bool
	// FirstOnly prints only the first of several jobs in JSON, as some builds do.
	FirstOnly bool
	// Before is called before each command. If it returns an answer, the command prints that. It
	// may block, and is called concurrently.
	Before func(program string, args []string) *Answer
	// After is called after the server has executed a command, with the server's answer, and
	// returns the answer to print.
	After func(program string, a Answer) Answer
	// ExitStatusLost omits Exit_status, as old versions do for subjobs.
	ExitStatusLost bool
	// Exiting keeps jobs that have run in state E, as an epilogue that does not end.
	Exiting bool
	// MomSays is a line that the daemon of the node adds to the output of each job, as when it has
	// killed one.
	MomSays string
}

// Answer is what a program prints and returns.
type Answer struct {
	Stdout, Stderr string
	Code           int
	Kill           bool // the program is killed instead
}

// Server is the batch system of one test.
type Server struct {
	dir      string
	listener net.Listener
	served   sync.WaitGroup // connections and jobs

	mu        sync.Mutex
	set       Settings
	changed   sync.Cond // of set and closed
	closed    bool
	next      int
	jobs      []*job
	submitted [][]string
}

// New starts a server and puts its programs first in PATH, until the test ends. All processes of
// its jobs end with the test.
func New(t testing.TB, s Settings) *Server {
	t.Helper()
	// Not t.TempDir: the path of a socket must be short.
	dir, err := os.MkdirTemp("", "pbs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"bin", "spool", "home"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range programs {
		if err := os.Symlink(self, filepath.Join(dir, "bin", p)); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "socket")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &Server{dir: dir, listener: l, set: s, next: 100}
	srv.changed.L = &srv.mu
	srv.served.Go(srv.serve)
	t.Cleanup(srv.close)
	t.Setenv(socketVariable, socket)
	// The race detector waits a second at the end of each process otherwise.
	t.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return srv
}

func (s *Server) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	for _, j := range s.jobs {
		for _, p := range j.parts {
			p.kill()
		}
	}
	s.mu.Unlock()
	s.served.Wait()
}

// Set changes the settings.
func (s *Server) Set(change func(*Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.set)
	s.changed.Broadcast()
	s.schedule()
}

// Submitted returns the arguments of all calls of qsub that the server has accepted.
func (s *Server) Submitted() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]string(nil), s.submitted...)
}

// Left returns the identifiers of jobs that have not finished.
func (s *Server) Left() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, j := range s.jobs {
		if j.state() != "F" {
			ids = append(ids, j.name(-1))
		}
	}
	return ids
}

// Script returns what the job of this sequence number runs; the first is 100.
func (s *Server) Script(sequence int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[sequence-100].script
}

// Option returns the value of an option of qsub for a job, from the command line or a directive.
func (s *Server) Option(sequence int, option byte) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[sequence-100].options[option]
}

// Kill ends part i of a job (0 for a plain one) with SIGKILL, as a node that is out of memory does.
// It returns false if the part is not running.
func (s *Server) Kill(sequence, i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.sequence == sequence && i < len(j.parts) && j.parts[i].state == "R" && j.parts[i].process != nil {
			j.parts[i].kill()
			return true
		}
	}
	return false
}

func (s *Server) serve() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.served.Go(func() {
			defer c.Close()
			var q request
			if err := json.NewDecoder(c).Decode(&q); err != nil {
				return
			}
			_ = json.NewEncoder(c).Encode(s.answer(&q))
		})
	}
}

var errUsage = errors.New("usage")

func (s *Server) answer(q *request) answer {
	s.mu.Lock()
	before, after := s.set.Before, s.set.After
	s.mu.Unlock()
	if before != nil {
		if a := before(q.Program, q.Args); a != nil {
			return *a
		}
	}
	a := s.do(q)
	if after != nil {
		return after(q.Program, a)
	}
	return a
}

func (s *Server) do(q *request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch q.Program {
	case "qsub":
		return s.qsub(q)
	case "qstat":
		return s.qstat(q)
	case "qselect":
		return s.qselect(q)
	}
	return s.qdel(q)
}

// getopt reads arguments as the programs of PBS do.
func getopt(args []string, takesValue string) (options map[byte]string, operands []string, err error) {
	options = map[byte]string{}
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' {
			operands = append(operands, a)
			continue
		}
		for j := 1; j < len(a); j++ {
			options[a[j]] = ""
			if strings.IndexByte(takesValue, a[j]) < 0 {
				continue
			}
			v := a[j+1:]
			if v == "" {
				if i++; i == len(args) {
					return nil, nil, errUsage
				}
				v = args[i]
			}
			options[a[j]] = v
			break
		}
	}
	return options, operands, nil
}
