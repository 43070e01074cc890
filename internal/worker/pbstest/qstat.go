package pbstest

import (
	"fmt"
	"os/user"
	"strconv"
	"strings"
)

// attribute is an attribute in the output of qstat -f. With members, it is an object.
type attribute struct {
	name    string
	value   string
	number  bool
	members []attribute
}

const usage = "usage: \nqstat [-f] [-J] [-p] [-t] [-x] [-E] [-F format] [ job_identifier... | destination... ]\n"

func (s *Server) qstat(q *request) answer {
	o, names, err := getopt(q.Args, "FDu")
	_, full := o['f']
	if err != nil || !full || o['F'] != "json" {
		return answer{Stderr: usage, Code: 2}
	}
	head := []attribute{{name: "timestamp", value: "1700000000", number: true},
		{name: "pbs_version", value: "23.06.06"}, {name: "pbs_server", value: Host}}
	if _, ok := o['B']; ok {
		attributes := []attribute{{name: "server_state", value: "Active"},
			{name: "total_jobs", value: strconv.Itoa(len(s.jobs)), number: true}}
		if s.set.MaxArray > 0 {
			attributes = append(attributes,
				attribute{name: "max_array_size", value: strconv.Itoa(s.set.MaxArray), number: true})
		}
		return answer{Stdout: s.print(append(head,
			attribute{name: "Server", members: []attribute{{name: Host, members: attributes}}}))}
	}
	_, history := o['x']
	_, subjobs := o['t']
	var (
		a    answer
		jobs []attribute
	)
loop:
	for _, n := range names {
		if history && s.set.NoHistory {
			// The status does not show this error: qstat.c sets it to 0 at its end.
			a.Stderr += "qstat: PBS is not configured to maintain job history " + n + "\n"
			continue
		}
		j := s.find(n)
		switch {
		case j == nil || j.state() == "F" && s.set.NoHistory:
			a.Stderr += "qstat: Unknown Job Id " + n + "\n"
			a.Code = 15001 % 256
		case j.state() == "F" && !history:
			a.Stderr += "qstat: " + n + " Job has finished, use -x or -H to obtain historical job information\n"
			a.Code = 15139 % 256
		default:
			jobs = append(jobs, attribute{name: j.name(-1), members: s.attributes(j, nil)})
			if j.array && subjobs {
				for _, p := range j.parts {
					jobs = append(jobs, attribute{name: j.name(p.index), members: s.attributes(j, p)})
				}
			}
			if s.set.FirstOnly {
				break loop
			}
		}
	}
	if len(jobs) > 0 {
		head = append(head, attribute{name: "Jobs", members: jobs})
	}
	a.Stdout = s.print(head)
	return a
}

// qselect prints the jobs and arrays of a name that have not finished. All belong to the user of
// the test.
func (s *Server) qselect(q *request) answer {
	o, operands, err := getopt(q.Args, "aAchHlNpPqrstuU")
	if err != nil || len(operands) > 0 {
		return answer{Stderr: "usage: qselect [-N name] [-u user_name]\n", Code: 2}
	}
	u, err := user.Current()
	if err != nil {
		return answer{Stderr: "qselect: " + err.Error() + "\n", Code: 1}
	}
	var a answer
	for _, j := range s.jobs {
		name, byName := o['N']
		owner, byUser := o['u']
		if j.state() != "F" && (!byName || name == j.title) && (!byUser || owner == u.Username) {
			a.Stdout += j.name(-1) + "\n"
		}
	}
	return a
}

// attributes returns the attributes of a job, or of a subjob p.
func (s *Server) attributes(j *job, p *part) []attribute {
	state, only := j.state(), p
	if p != nil {
		state = p.state
	} else if !j.array {
		only = j.parts[0]
	}
	a := []attribute{
		{name: "Job_Name", value: j.title}, {name: "Job_Owner", value: "somebody@" + Host},
		{name: "job_state", value: state}, {name: "queue", value: "workq"}, {name: "server", value: Host},
		{name: "Join_Path", value: "oe"}, {name: "Output_Path", value: Host + ":" + j.output},
		{name: "Resource_List", members: []attribute{{name: "ncpus", value: "1", number: true},
			{name: "place", value: "pack"}}},
	}
	var vars []attribute
	for _, v := range j.vars {
		n, v, _ := strings.Cut(v, "=")
		vars = append(vars, attribute{name: n, value: v})
	}
	a = append(a, attribute{name: "Variable_List", members: append(vars, odd(s.set.Old)...)})
	if only != nil && (only.state == "F" || only.state == "X") {
		switch {
		case !only.ran:
			a = append(a, attribute{name: "comment", value: "Not Running: deleted"})
		default:
			a = append(a, attribute{name: "comment",
				value: `Job run at Tue Oct 11 at 08:13 on (node1:ncpus=1) and "finished"`})
			if !s.set.ExitStatusLost {
				a = append(a, attribute{name: "Exit_status", value: strconv.Itoa(only.status), number: true})
			}
		}
	}
	if state == "H" {
		a = append(a, attribute{name: "comment", value: "job held, too many failed attempts to run"})
	}
	a = append(a, attribute{name: "Submit_arguments", value: strings.Join(j.args, " ")})
	switch {
	case p != nil:
		a = append(a, attribute{name: "array_id", value: j.name(-1)},
			attribute{name: "array_index", value: strconv.Itoa(p.index), number: true})
	case j.array:
		a = append(a, attribute{name: "array", value: "True"},
			attribute{name: "array_indices_submitted", value: fmt.Sprintf("0-%d", len(j.parts)-1)})
	}
	return a
}

// odd returns variables that users have in their environment, and that old versions print as
// invalid JSON.
func odd(old bool) []attribute {
	a := []attribute{
		{name: "job_state", value: "F"}, // a variable may have this name
		{name: "Exit_status", value: "7"},
		{name: "MODULES", value: `say "hi" \ there`},
		{name: "comment", value: "of the user"},
	}
	if old {
		a = append(a, attribute{name: "BASH_FUNC_module()", value: "() {  eval `/usr/bin/modulecmd bash \"$*\"`\\n}"},
			attribute{name: "FOO", value: "005", number: true}, attribute{name: "FOO", value: `a\'b\,c`})
	}
	return a
}

func (s *Server) print(a []attribute) string {
	var b strings.Builder
	if s.set.Old {
		printOld(&b, a)
	} else {
		printNew(&b, a, 1)
		b.WriteString("\n")
	}
	return b.String()
}

// printNew prints as cJSON does.
func printNew(b *strings.Builder, a []attribute, depth int) {
	b.WriteString("{\n")
	tabs := strings.Repeat("\t", depth)
	for i, x := range a {
		fmt.Fprintf(b, "%s%s:\t", tabs, strconv.Quote(x.name))
		switch {
		case x.members != nil:
			printNew(b, x.members, depth+1)
		case x.number:
			b.WriteString(x.value)
		default:
			b.WriteString(strconv.Quote(x.value))
		}
		if i < len(a)-1 {
			b.WriteString(",")
		}
		b.WriteString("\n")
	}
	b.WriteString(tabs[1:] + "}")
}

// printOld prints as pbs_json.c of version 14 does: nothing is escaped, and each job opens another
// "Jobs", which is not closed.
func printOld(b *strings.Builder, a []attribute) {
	b.WriteString("{")
	indent, comma := 4, false
	line := func(format string, args ...any) {
		if comma {
			b.WriteString(",")
		}
		b.WriteString("\n" + strings.Repeat(" ", indent))
		fmt.Fprintf(b, format, args...)
		comma = true
	}
	var object func(x attribute)
	object = func(x attribute) {
		if x.members == nil {
			if x.number {
				line(`"%s":%s`, x.name, x.value)
			} else {
				line(`"%s":"%s"`, x.name, x.value)
			}
			return
		}
		line(`"%s":{`, x.name)
		indent, comma = indent+4, false
		for _, m := range x.members {
			object(m)
		}
		indent -= 4
		b.WriteString("\n" + strings.Repeat(" ", indent) + "}")
		comma = true
	}
	for _, x := range a {
		if x.name != "Jobs" {
			object(x)
			continue
		}
		for _, j := range x.members {
			line(`"Jobs":{`)
			indent, comma = indent+4, false
			object(j)
		}
	}
	indent -= 4
	b.WriteString("\n}\n")
}
