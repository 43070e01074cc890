package pbs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"leat/internal/lazyregexp"
)

// job is what qstat prints about a job, an array or a subjob.
type job struct {
	State   scalar `json:"job_state"`
	Exit    scalar `json:"Exit_status"`
	Comment scalar `json:"comment"`
}

// scalar decodes a string or a number: qstat prints values that look like numbers as numbers.
type scalar string

func (s *scalar) UnmarshalJSON(b []byte) error {
	var t string
	if json.Unmarshal(b, &t) != nil {
		t = string(b)
	}
	*s = scalar(t)
	return nil
}

// id is a job's identifier without its server, whose name may be printed in full or short:
// 123.server is {123, plain}, 123[].server {123, array}, 123[4].server {123, 4}.
type id struct {
	sequence int64
	index    int
}

const (
	plain = -1
	array = -2
)

var idForm = lazyregexp.New(`^([0-9]+)(\[([0-9]*)\])?(\.[A-Za-z0-9._-]+)?(@[A-Za-z0-9._-]+)?$`)

func parseID(s string) (id, bool) {
	m := idForm.FindStringSubmatch(s)
	if m == nil {
		return id{}, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return id{}, false
	}
	switch {
	case m[2] == "":
		return id{n, plain}, true
	case m[3] == "":
		return id{n, array}, true
	}
	i, err := strconv.Atoi(m[3])
	return id{n, i}, err == nil
}

// listing is parsed output of qstat -f -F json.
type listing struct {
	jobs     map[id]job
	whole    bool // it is complete
	isServer bool
	maxArray int // of the server; 0: unknown
}

// moved reports whether a job has moved to another server.
func (l *listing) moved() bool {
	for _, j := range l.jobs {
		if j.State == "M" {
			return true
		}
	}
	return false
}

// parse parses output of qstat. Several versions of PBS print invalid JSON: unescaped quotes and
// backslashes in variables, numbers like 005, an unclosed "Jobs" per job, duplicate keys. If the
// JSON parser fails, the output is parsed by lines: all versions print one key per line.
func parse(text []byte) *listing {
	l := &listing{jobs: map[id]job{}}
	var a struct {
		Jobs    map[string]job
		Version *json.RawMessage `json:"pbs_version"` // present even without jobs
		Server  map[string]struct {
			MaxArray scalar `json:"max_array_size"`
		}
	}
	if json.Unmarshal(text, &a) != nil {
		l.lines(text)
		return l
	}
	l.whole = a.Jobs != nil || a.Version != nil
	for k, j := range a.Jobs {
		if i, ok := parseID(k); ok {
			l.jobs[i] = j
		}
	}
	for _, s := range a.Server {
		l.isServer = true
		l.maxArray, _ = strconv.Atoi(string(s.MaxArray))
	}
	return l
}

var (
	known   = lazyregexp.New(`^\s+"(Jobs|pbs_version)":`)
	heading = lazyregexp.New(`^(\s*)"([^"]*)":\s*\{$`)
	member  = lazyregexp.New(`^(\s*)"(job_state|Exit_status|comment|max_array_size)":\s*(.*?),?$`)
)

// lines parses one key per line. Members count only at the indentation of the first line after a
// heading, since a variable of the job may also be called job_state.
func (l *listing) lines(text []byte) {
	var (
		now    id
		inside bool   // in a job
		indent string // of its members; "" before the first
		begun  bool
	)
	sc := bufio.NewScanner(bytes.NewReader(text))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		s := strings.TrimRight(sc.Text(), " \r")
		begun = begun || known.MatchString(s)
		// Everything within the outermost object is indented.
		l.whole = begun && (l.whole || s == "}")
		if h := heading.FindStringSubmatch(s); h != nil {
			if i, ok := parseID(h[2]); ok {
				now, inside, indent = i, true, ""
				l.jobs[i] = job{}
				continue
			}
			l.isServer = l.isServer || h[2] == "Server"
		}
		if inside && indent == "" {
			indent = s[:len(s)-len(strings.TrimLeft(s, " \t"))]
		}
		m := member.FindStringSubmatch(s)
		if m == nil {
			continue
		}
		v := m[3]
		if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
			v = v[1 : len(v)-1]
		}
		if m[2] == "max_array_size" && l.isServer {
			l.maxArray, _ = strconv.Atoi(v)
		}
		if !inside || m[1] != indent {
			continue
		}
		j := l.jobs[now]
		switch m[2] {
		case "job_state":
			j.State = scalar(v)
		case "Exit_status":
			j.Exit = scalar(v)
		case "comment":
			j.Comment = scalar(v)
		}
		l.jobs[now] = j
	}
}

// unreadable returns the error for output that is not a complete listing although the program
// returned 0.
func unreadable(program string, text []byte) error {
	const maxQuoted = 200
	if len(text) > maxQuoted {
		text = append(text[:maxQuoted:maxQuoted], "..."...)
	}
	return fmt.Errorf("%s printed %q, expected a complete listing of jobs", program, text)
}
