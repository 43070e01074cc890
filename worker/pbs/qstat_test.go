package pbs

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"leat/internal/worker/workertest"
)

func TestIdentifiers(t *testing.T) {
	for s, want := range map[string]id{
		"123.server":             {123, plain},
		"123":                    {123, plain},
		"123[].server":           {123, array},
		"123[4].pbs-01.site.org": {123, 4},
		"123[0]":                 {123, 0},
		"7.a@b.c":                {7, plain},
	} {
		if got, ok := parseID(s); !ok || got != want {
			t.Errorf("%s is %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "x", "12.5 hours", "123[", "123[a].s", "[1].s", "99999999999999999999.s",
		"1[99999999999999999999].s", "Jobs"} {
		if got, ok := parseID(s); ok {
			t.Errorf("%q is %v", s, got)
		}
	}
}

// Texts as servers print them, but for the attributes that don't matter.
func TestParseQstat(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[id]job
	}{
		{"version 23, numbers and strings", `{
	"timestamp":	1729000000,
	"pbs_version":	"23.06.06",
	"pbs_server":	"head",
	"Jobs":	{
		"12[].head":	{
			"Job_Name":	"leat",
			"job_state":	"B",
			"array":	"True",
			"array_state_count":	"Queued:0 Running:1 Exiting:0 Expired:1 "
		},
		"12[0].head":	{
			"job_state":	"X",
			"Variable_List":	{
				"job_state":	"R",
				"PBS_O_SYSTEM":	"Linux"
			},
			"comment":	"Subjob finished",
			"Exit_status":	271,
			"array_index":	0
		},
		"12[1].head":	{
			"job_state":	"R"
		}
	}
}
`, map[id]job{{12, array}: {State: "B"}, {12, 0}: {State: "X", Exit: "271", Comment: "Subjob finished"},
			{12, 1}: {State: "R"}}},
		{"a number that JSON has not, of a variable", `{
    "timestamp":1566224170,
    "Jobs":{
        "53.testpbs":{
            "Job_Name":"STDIN",
            "job_state":"F",
            "Variable_List":{
                "job_state":"Q",
                "foo":005,
                "PBS_O_HOST":"x"
            },
            "Exit_status":0,
            "Submit_arguments":"-v foo=005 -h -- /usr/bin/sleep 100"
        }
    }
}
`, map[id]job{{53, plain}: {State: "F", Exit: "0"}}},
		{"quotes and backslashes as they are", `{
    "Jobs":{
        "4.scheduler":{
            "job_state":"R",
            "Variable_List":{
                "BASH_FUNC_module()":"() {  eval ` + "`/usr/bin/modulecmd bash \"$*\"`" + `\n}",
                "MYVAR":"\'\"asads\"\'",
                "_":"/bin/qsub"
            },
            "comment":"by "somebody" said"
        }
    }
}
`, map[id]job{{4, plain}: {State: "R", Comment: `by "somebody" said`}}},
		{"Jobs anew for each job, without an end", `{
    "timestamp":1520000000,
    "Jobs":{
        "1.head":{
            "job_state":"R",
            "comment":"x"
        },
        "Jobs":{
            "2.head":{
                "job_state":"X",
                "Exit_status":-3
            }
    }
}
`, map[id]job{{1, plain}: {State: "R", Comment: "x"}, {2, plain}: {State: "X", Exit: "-3"}}},
		{"a key twice", `{"Jobs":{"1.head":{"job_state":"Q","job_state":"R"}},"Jobs":{"2.head":{"job_state":"H"}}}`,
			map[id]job{{1, plain}: {State: "R"}, {2, plain}: {State: "H"}}},
		{"nothing", "", map[id]job{}},
		{"something else", "Job id  Name\n------ ----\n", map[id]job{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parse([]byte(c.text))
			if d := cmp.Diff(c.want, got.jobs, cmp.AllowUnexported(id{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"Jobs":{"1.head":{"job_state":"Q"}}}`))
	f.Add([]byte("{\n    \"Jobs\":{\n        \"1.head\":{\n            \"job_state\":\"Q\",\n            \"FOO\":005\n"))
	f.Add([]byte("\"Server\":{\n\"max_array_size\":05"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for i := range parse(text).jobs {
			if i.sequence < 0 || i.index < array {
				t.Errorf("%v", i)
			}
		}
	})
}

func TestExitStatuses(t *testing.T) {
	for status, want := range map[string]string{
		"3": "ended with status 3", "127": "ended with status 127", "143": "signal 15", "255": "ended with status 255",
		"271": "ended by signal 15", "265": "ended by signal 9",
		"-1": "PBS could not run the job: exit status -1", "": "no exit status",
		"x": "no exit status",
	} {
		workertest.WantError(t, exitError(status, ""), want)
	}
	for _, status := range []string{"", "-1"} {
		workertest.WantError(t, exitError(status, "no node"), "(PBS says: no node)")
	}
	if err := exitError("0", "Job finished"); err != nil {
		t.Error(err)
	}
}

func TestMovedJob(t *testing.T) {
	l := parse([]byte(`{"Jobs":{"1.head":{"job_state":"M"}}}`))
	if !l.moved() || (&job{State: "M"}).over() {
		t.Error("it is not")
	}
}
