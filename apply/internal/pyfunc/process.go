package pyfunc

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"leat/internal/childproc"
	"leat/python"
)

// bootstrap imports the modules whose sources come first over the connection, and serves it.
const bootstrap = `import gc, sys
gc.disable()  # until main enables it: the objects of imports stay
if sys.path and sys.path[0] == "":  # the working directory, whose modules must not hide Python's own
    del sys.path[0]
import importlib.util, json, socket, struct  # importlib.abc imports twenty modules that NumPy doesn't need
fd = int(sys.argv[1])
s = socket.socket(fileno=fd)
def read(n):
    data = b""
    while len(data) < n:
        part = s.recv(n - len(data))
        if not part:
            sys.exit(1)
        data += part
    return data
sources = json.loads(read(struct.unpack("<I", read(4))[0]))
s.detach()
def installed():  # the compiled modules of the package leat, if it has the same sources
    code = {}
    try:
        (directory,) = importlib.util.find_spec("leat").submodule_search_locations
        for name, source in sources.items():
            path = directory + "/" + name + ".py"
            with open(path, encoding="utf-8", newline="") as f:
                if f.read() != source:
                    return {}
            code[name] = importlib.util.spec_from_file_location(name, path).loader.get_code(name)
    except Exception:  # damaged .pyc files raise many kinds
        return {}
    return code
code = installed() or {name: compile(text, "<leat>/" + name + ".py", "exec") for name, text in sources.items()}
class Modules:
    def find_spec(self, name, path, target=None):
        if name == "_leat" or name.startswith("_leat.") and name[6:] in code:
            return importlib.util.spec_from_loader(name, self, is_package=name == "_leat")
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        if module.__name__ == "_leat":
            return
        module.__file__ = code[module.__name__[6:]].co_filename
        exec(code[module.__name__[6:]], module.__dict__)
sys.meta_path.insert(0, Modules())
from _leat._worker import main
main(fd)
`

// endGrace is how long a process may take to end after its connection has ended.
const endGrace = 5 * time.Second

// tailLines is the number of last output lines that an error includes.
const tailLines = 20

// process is a Python process. It serves one connection, or is a forkServer.
type process struct {
	pid    int
	conn   *conn
	lines  *lines
	exited chan struct{} // closed when the process has ended and its group was killed
	how    error         // how it ended; nil: successfully. Set before exited is closed
	// awaitEnd waits for the end of the process without freeing its ID, and returns false if that
	// is impossible. reap waits for it, frees the ID and returns the status.
	awaitEnd func() bool
	reap     func() (syscall.WaitStatus, error)
	released func() // called when it has ended, before exited is closed; may be nil

	mu   sync.Mutex
	gone bool // its process ID may be reused
}

// startPython starts Python with additional arguments. The lines that it prints go to out.
func startPython(executable string, out io.Writer, arguments ...string) (_ *process, err error) {
	here, there, err := childproc.SocketPair("function")
	if err != nil {
		return nil, err
	}
	defer there.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, here.Close())
	}
	defer writer.Close()
	cmd := exec.Command(executable, append([]string{"-c", bootstrap, "3"}, arguments...)...)
	cmd.ExtraFiles = []*os.File{there}
	cmd.Stdout, cmd.Stderr = writer, writer
	cmd.SysProcAttr = childproc.Attributes()
	cmd.Env = environment(os.Environ())
	p := newProcess(here)
	started := make(chan error)
	go func() {
		// Linux kills the process when the thread that started it ends: this one waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid, p.lines = cmd.Process.Pid, readLines(reader, out)
			p.awaitEnd = func() bool { return childproc.AwaitEnd(p.pid) }
			p.reap = func() (syscall.WaitStatus, error) { return waitStatus(cmd) }
		}
		started <- err
		if err == nil {
			p.wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(fmt.Errorf("starting Python: %w", err), reader.Close(), here.Close())
	}
	modules, err := python.Modules()
	var sources []byte
	if err == nil {
		sources, err = json.Marshal(modules)
	}
	if err == nil {
		_, err = p.conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(sources))), sources...))
	}
	if err != nil {
		err = p.explain(ended(err))
		p.kill()
		p.end()
		return nil, err
	}
	return p, nil
}

func newProcess(here *net.UnixConn) *process {
	p := &process{exited: make(chan struct{})}
	p.conn = &conn{UnixConn: here, cancel: p.kill, explain: p.explain}
	return p
}

// waitStatus waits for a command and returns its status.
func waitStatus(cmd *exec.Cmd) (syscall.WaitStatus, error) {
	_ = cmd.Wait()
	if cmd.ProcessState == nil {
		return 0, errNotSeen
	}
	return cmd.ProcessState.Sys().(syscall.WaitStatus), nil
}

// environment returns the variables of a process. Libraries for linear algebra use one thread
// unless the user asks for more: leat computes on all cores already.
func environment(list []string) []string {
	for _, name := range []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"} {
		if _, ok := os.LookupEnv(name); !ok {
			list = append(list, name+"=1")
		}
	}
	return list
}

// wait waits for the process and kills the rest of its group.
func (p *process) wait() {
	var status syscall.WaitStatus
	var err error
	ended := p.awaitEnd()
	if !ended {
		status, err = p.reap()
	}
	p.mu.Lock()
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	p.gone = true
	p.mu.Unlock()
	if ended {
		status, err = p.reap()
	}
	// A process that left the group may keep the connection and the pipe open.
	_ = p.conn.SetReadDeadline(time.Now().Add(time.Second))
	p.lines.await()
	if p.how = err; err == nil {
		p.how = inWords(status)
	}
	if p.released != nil {
		p.released()
	}
	close(p.exited)
}

var errNotSeen = errors.New("its status is unknown")

// inWords returns how a process ended as an error, or nil after success.
func inWords(s syscall.WaitStatus) error {
	switch {
	case s.Signaled():
		name := unix.SignalName(s.Signal())
		if name == "" {
			name = fmt.Sprintf("signal %d", int(s.Signal()))
		}
		return errors.New("killed by " + name)
	case s.ExitStatus() != 0:
		return fmt.Errorf("exit status %d", s.ExitStatus())
	}
	return nil
}

// hasEnded reports whether the process has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// kill ends the process and its group at once.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	}
}

// end closes the connection, so that the process ends, and waits for it.
func (p *process) end() {
	_ = p.conn.Close()
	t := time.AfterFunc(endGrace, p.kill)
	<-p.exited
	t.Stop()
}

// explain returns the error of an exchange, which says how the process ended if it has.
func (p *process) explain(err error) error {
	if !errors.Is(err, errEnded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	t := time.AfterFunc(endGrace, p.kill)
	<-p.exited
	t.Stop()
	how := "its process ended without an error"
	if p.how != nil {
		how = "its process ended: " + p.how.Error()
	}
	return &EndedError{How: how, Lines: p.lines.last()}
}

// EndedError is returned when a Python process has ended unexpectedly.
type EndedError struct {
	How   string
	Lines []string // the last ones that it wrote
}

func (e *EndedError) Error() string { return "the Python function failed: " + e.How }

// Stack returns the last lines of the process.
func (e *EndedError) Stack() []byte {
	if len(e.Lines) == 0 {
		return nil
	}
	return []byte("Its last lines:\n" + strings.Join(e.Lines, "\n") + "\n")
}
