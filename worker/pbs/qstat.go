package pbs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// job is what qstat tells of a job, an array or a subjob.
type job struct {
	State   scalar `json:"job_state"`
	Exit    scalar `json:"Exit_status"`
	Comment scalar `json:"comment"`
}

// scalar takes a string or a number alike: qstat prints each value that looks like a number as one.
type scalar string

func (s *scalar) UnmarshalJSON(b []byte) error {
	var t string
	if json.Unmarshal(b, &t) != nil {
		t = string(b)
	}
	*s = scalar(t)
	return nil
}

// id is a job's identifier without its server: 123.server is {123, plain}, 123[].server {123, array}, 123[4].server {123, 4}. The name of the
// server is printed in full here and short there.
type id struct {
	sequence int64
	index    int
}

const (
	plain = -1
	array = -2
)

var idForm = regexp.MustCompile(`^([0-9]+)(\[([0-9]*)\])?(\.[A-Za-z0-9._-]+)?(@[A-Za-z0-9._-]+)?$`)

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

// listing is an answer of qstat -f -F json.
type listing struct {
	jobs     map[id]job
	whole    bool // it is a listing, from its beginning to its end
	isServer bool
	maxArray int // of the server; 0: it does not say
}

// moved tells whether a job has gone to another server.
func (l *listing) moved() bool {
	for _, j := range l.jobs {
		if j.State == "M" {
			return true
		}
	}
	return false
}

// parse reads an answer of qstat. What several versions of PBS print is no JSON: variables whose quotes and backslashes are not escaped, numbers like 005, a "Jobs"
// for each job without an end, a key twice. So what the parser refuses is read by lines, on which all versions put one key each.
func parse(text []byte) *listing {
	l := &listing{jobs: map[id]job{}}
	var a struct {
		Jobs    map[string]job
		Version *json.RawMessage `json:"pbs_version"` // which stands there also when there are no jobs
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
	known   = regexp.MustCompile(`^\s+"(Jobs|pbs_version)":`)
	heading = regexp.MustCompile(`^(\s*)"([^"]*)":\s*\{$`)
	member  = regexp.MustCompile(`^(\s*)"(job_state|Exit_status|comment|max_array_size)":\s*(.*?),?$`)
)

// lines reads one key a line. Members count at the indentation of the first line after a heading only: a variable of the job may be called job_state.
func (l *listing) lines(text []byte) {
	var (
		now    id
		inside bool   // a job
		indent string // of its members; "" before the first
		begun  bool
	)
	sc := bufio.NewScanner(bytes.NewReader(text))
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		s := strings.TrimRight(sc.Text(), " \r")
		begun = begun || known.MatchString(s)
		// What is within the outermost object is indented.
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

// unreadable is the error of an answer that is no listing, though qstat returned 0.
func unreadable(program string, text []byte) error {
	const most = 200
	if len(text) > most {
		text = append(text[:most:most], "..."...)
	}
	return fmt.Errorf("%s answered %q, which is no complete listing of jobs", program, text)
}
