package pbstest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// killDelay is from SIGTERM to SIGKILL of qdel.
const killDelay = 500 * time.Millisecond

// job is a plain job, or an array with a part for each subjob.
type job struct {
	sequence int
	array    bool
	title    string
	args     []string
	options  map[byte]string
	script   string
	output   string // -o
	vars     []string
	held     bool
	parts    []*part
}

// part is what runs: a plain job, or a subjob.
type part struct {
	index   int
	state   string // Q, R, E, F (X for subjobs)
	process *os.Process
	status  int
	ran     bool
	deleted bool
}

func (p *part) kill() {
	if p.process != nil {
		_ = syscall.Kill(-p.process.Pid, syscall.SIGKILL)
	}
}

// name is the identifier of the job (i < 0), or of a subjob.
func (j *job) name(i int) string {
	switch {
	case !j.array:
		return fmt.Sprintf("%d.%s", j.sequence, Host)
	case i < 0:
		return fmt.Sprintf("%d[].%s", j.sequence, Host)
	}
	return fmt.Sprintf("%d[%d].%s", j.sequence, i, Host)
}

func (j *job) state() string {
	if !j.array {
		if j.held && j.parts[0].state == "Q" {
			return "H"
		}
		return j.parts[0].state
	}
	ended, begun := 0, false
	for _, p := range j.parts {
		if p.state == "X" {
			ended++
		}
		begun = begun || p.state != "Q"
	}
	switch {
	case ended == len(j.parts):
		return "F"
	case j.held:
		return "H"
	case begun:
		return "B"
	}
	return "Q"
}

func (s *Server) qsub(q *request) answer {
	o, operands, err := getopt(q.Args, qsubValues)
	if err != nil || len(operands) > 0 {
		return answer{Stderr: "usage: qsub [-a date_time] [-A account_string] [-c interval]\n", Code: 2}
	}
	if err := directives(o, q); err != nil {
		return answer{Stderr: err.Error() + "\n", Code: 1}
	}
	s.next++
	_, held := o['h']
	j := &job{sequence: s.next - 1, title: "STDIN", args: q.Args, options: o, script: q.Stdin, output: o['o'], held: held || s.set.Hold}
	if n, ok := o['N']; ok {
		j.title = n
	}
	n := 1
	if r, ok := o['J']; ok {
		r, _, _ = strings.Cut(r, "%") // the number that may run at once
		a, b, _ := strings.Cut(r, "-")
		from, err1 := strconv.Atoi(a)
		to, err2 := strconv.Atoi(b)
		if err1 != nil || err2 != nil || from != 0 || to <= from {
			return answer{Stderr: "qsub: illegal -J value\n", Code: 2}
		}
		if o['r'] == "n" {
			return answer{Stderr: "qsub: cannot submit non-rerunable Array Job\n", Code: 1}
		}
		j.array, n = true, to+1
		limit := s.set.MaxArray
		if limit == 0 {
			limit = 10000
		}
		if s.set.QueueMaxArray > 0 {
			limit = min(limit, s.set.QueueMaxArray)
		}
		if n > limit {
			return answer{Stderr: "qsub: Array job exceeds server or queue size limit\n", Code: 13}
		}
	}
	for _, e := range q.Env {
		name, value, _ := strings.Cut(e, "=")
		_, all := o['V']
		for w := range strings.SplitSeq(o['v'], ",") {
			all = all || w == name
		}
		if all {
			j.vars = append(j.vars, name+"="+value)
		}
	}
	for w := range strings.SplitSeq(o['v'], ",") {
		if strings.Contains(w, "=") {
			j.vars = append(j.vars, w)
		}
	}
	j.vars = append(j.vars, "PBS_O_WORKDIR="+q.Dir, "PBS_O_HOST="+Host, "PBS_O_QUEUE=workq", "PBS_O_SYSTEM=Linux")
	for i := range n {
		j.parts = append(j.parts, &part{index: i, state: "Q"})
	}
	s.jobs = append(s.jobs, j)
	s.submitted = append(s.submitted, q.Args)
	s.schedule()
	if _, quiet := o['z']; quiet {
		return answer{}
	}
	return answer{Stdout: j.name(-1) + "\n"}
}

// schedule starts the jobs and subjobs that may run. The caller holds s.mu.
func (s *Server) schedule() {
	if s.closed {
		return
	}
	running := 0
	for _, j := range s.jobs {
		for _, p := range j.parts {
			if p.state == "R" || p.state == "E" {
				running++
			}
		}
	}
	for _, j := range s.jobs {
		if j.held {
			continue
		}
		for _, p := range j.parts {
			if p.state == "Q" && (s.set.Running == 0 || running < s.set.Running) {
				running++
				s.start(j, p)
			}
		}
	}
}

// start runs a script. The caller holds s.mu.
func (s *Server) start(j *job, p *part) {
	name := j.name(p.index)
	path := filepath.Join(s.dir, "spool", name)
	out, err := os.Create(path + ".OU")
	if err == nil {
		err = os.WriteFile(path+".SC", []byte(j.script), 0o700)
	}
	p.state, p.ran = "R", true
	c := exec.Command("/bin/sh", path+".SC")
	c.Dir = filepath.Join(s.dir, "home")
	c.Env = s.environment(j, p)
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		// As when a node can't start a job: an error of PBS itself.
		s.finish(j, p, -2)
		return
	}
	p.process = c.Process
	s.served.Go(func() {
		// The output is a file, so this does not wait for processes that outlive the script.
		_ = c.Wait()
		s.mu.Lock()
		if s.set.MomSays != "" {
			_, _ = out.WriteString(s.set.MomSays + "\n")
		}
		s.mu.Unlock()
		_ = out.Close()
		status := c.ProcessState.ExitCode()
		if w, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
			status = 256 + int(w.Signal())
		}
		s.mu.Lock()
		p.kill() // the rest of its session
		p.process, p.state = nil, "E"
		s.mu.Unlock()
		if j.output != "" && j.output != os.DevNull {
			to := j.output
			if strings.HasSuffix(to, "/") {
				to += name + ".OU"
			}
			if b, err := os.ReadFile(path + ".OU"); err == nil {
				_ = os.WriteFile(to, b, 0o600) // if its directory is gone, the owner gets an email
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for s.set.Exiting && !s.closed {
			s.changed.Wait()
		}
		s.finish(j, p, status)
	})
}

// finish ends a part. The caller holds s.mu.
func (s *Server) finish(j *job, p *part, status int) {
	p.state, p.status = "F", status
	if j.array {
		p.state = "X"
	}
	s.schedule()
}

// environment returns the environment that the daemon of the node sets for a job, which is not that
// of qsub.
func (s *Server) environment(j *job, p *part) []string {
	env := []string{
		"HOME=" + filepath.Join(s.dir, "home"), "PATH=/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/sh", "LANG=C",
		"TZ=UTC",
		"PBS_ENVIRONMENT=PBS_BATCH", "PBS_JOBID=" + j.name(p.index), "PBS_JOBNAME=" + j.title, "PBS_QUEUE=workq",
		"NCPUS=1", "OMP_NUM_THREADS=1",
	}
	if u, err := user.Current(); err == nil {
		env = append(env, "USER="+u.Username, "LOGNAME="+u.Username)
	}
	if j.array {
		env = append(env, "PBS_ARRAY_INDEX="+strconv.Itoa(p.index), "PBS_ARRAY_ID="+j.name(-1))
	}
	return append(env, j.vars...)
}

func (s *Server) qdel(q *request) answer {
	_, names, err := getopt(q.Args, "W")
	if err != nil || len(names) == 0 {
		return answer{Stderr: "usage:\n\tqdel [-W force|suppress_email=X] [-x] job_identifier...\n", Code: 2}
	}
	var a answer
	for _, n := range names {
		j := s.find(n)
		switch {
		case j == nil || j.state() == "F" && s.set.NoHistory:
			a.Stderr += "qdel: Unknown Job Id " + n + "\n"
			a.Code = 15001 % 256
		case j.state() == "F":
			a.Stderr += "qdel: Job has finished " + n + "\n"
			a.Code = 15139 % 256
		default:
			for _, p := range j.parts {
				s.deletePart(j, p)
			}
		}
	}
	return a
}

func (s *Server) deletePart(j *job, p *part) {
	switch {
	case p.state == "Q":
		p.deleted = true
		s.finish(j, p, 0)
	case p.state == "R" && p.process != nil && !p.deleted:
		p.deleted = true
		_ = syscall.Kill(-p.process.Pid, syscall.SIGTERM)
		time.AfterFunc(killDelay, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			p.kill()
		})
	}
}

// find finds a job by its identifier, with or without the server.
func (s *Server) find(name string) *job {
	for _, j := range s.jobs {
		if full := j.name(-1); name == full || name == strings.TrimSuffix(full, "."+Host) {
			return j
		}
	}
	return nil
}
