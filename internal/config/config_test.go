package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = "\ufeff# comment\r\nmemory = 4G\n\n[minio]\r\n  endpoint=http://127.0.0.1:9000/?a=b#c \n; comment\nmemory = 8G\n" +
	"[other]\nbatch-options = -p short --comment='a b'\n"

func TestParse(t *testing.T) {
	t.Parallel()
	f, err := Parse("f", sample)
	if err != nil {
		t.Fatal(err)
	}
	want := []Entry{{"", "memory", "4G", "f", 2}, {"minio", "endpoint", "http://127.0.0.1:9000/?a=b#c", "f", 5},
		{"minio", "memory", "8G", "f", 7}, {"other", "batch-options", "-p short --comment='a b'", "f", 9}}
	if d := cmp.Diff(want, f.Entries()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"minio", "other"}, f.Profiles()); d != "" {
		t.Error(d)
	}
	for _, c := range []struct {
		profile, key, value string
	}{{"", "memory", "4G"}, {"minio", "memory", "8G"}, {"other", "memory", "4G"}, {"", "endpoint", ""},
		{"other", "endpoint", ""}, {"unknown", "memory", "4G"}} {
		if e, ok := f.Lookup(c.profile, c.key); e.Value != c.value || ok != (c.value != "") {
			t.Errorf("%s %s: %q %t, expected %q", c.profile, c.key, e.Value, ok, c.value)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"memory":                         "f:1: expected KEY = VALUE",
		"a b = c":                        "f:1: expected KEY = VALUE",
		"= c":                            "f:1: expected KEY = VALUE",
		"\nmemory =":                     "f:2: memory: no value",
		"memory = 4G # half":             "f:1: memory: a comment needs a line of its own",
		"memory = 4G ; half":             "f:1: memory: a comment needs a line of its own",
		"memory = # half":                "f:1: memory: a comment needs a line of its own",
		`memory = "4G"`:                  "f:1: memory: quotes would be part",
		"memory = '4G'":                  "f:1: memory: quotes would be part",
		"memory = 4G\nmemory = 4G":       "f:2: memory: given a second time, first in line 1",
		"[a]\n[b]\n[a]":                  "f:3: profile a begins a second time, first in line 1",
		"[a":                             "f:1: expected [PROFILE]: no ]",
		"[a b]":                          "f:1: expected a profile's name",
		"[]":                             "f:1: expected a profile's name",
		"[Default]":                      "f:1: no profile can have this name",
		"memory = 4\x00G":                "f:1: control characters",
		"memory = 4\xffG":                "f:1: control characters",
		"memory = \x1b[31m":              "f:1: control characters",
		"a = 1\nb\nc = 2\nd\n":           "f:2: expected KEY = VALUE, [PROFILE] or a comment that begins with #\nf:4:",
		"secret_key\nsecret_key=\"AKI\"": "f:1: expected",
	} {
		f, err := Parse("f", text)
		if err == nil || !strings.HasPrefix(err.Error(), want) || f != nil {
			t.Errorf("%q: %v, expected %s", text, err, want)
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Path != "f" || e.Line < 1 || strings.Contains(err.Error(), "AKI") {
			t.Errorf("%q: %#v", text, e)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	keys := []string{"memory", "stage-dir", "aws-secret"}
	f, err := Parse("f", "memory = x\n[p]\nstage_dir = /a\naws-secret = ssm:a\nsecret_access_key = AKI\nAWS_ACCESS_KEY_ID = AKI\ncolour = a\n")
	if err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("no size")
	err = f.Check(keys, func(key, value string) error {
		if key == "memory" && value == "x" {
			return wrong
		}
		return nil
	})
	want := "f:1: memory: no size\nf:3: stage_dir: unknown key; did you mean stage-dir?\nf:5: secret_access_key: " + ErrSecret.Error() +
		"\nf:6: AWS_ACCESS_KEY_ID: " + ErrSecret.Error() + "\nf:7: colour: unknown key"
	if err == nil || err.Error() != want || !errors.Is(err, ErrSecret) || !errors.Is(err, ErrUnknownKey) ||
		!errors.Is(err, wrong) {
		t.Errorf("%v, expected\n%s", err, want)
	}
	for _, key := range []string{"password", "session-token", "azure_storage_account_key", "AZURE_STORAGE_CONNECTION_STRING",
		"google_application_credentials", "s3.secret", "azure_storage_key"} {
		f, err := Parse("f", key+" = a")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Check(keys, nil); !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env   map[string]string
		path  string
		named bool
	}{
		{nil, "", false},
		{map[string]string{"HOME": "/h"}, "/h/.config/leat/config", false},
		{map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/leat/config", false},
		{map[string]string{"HOME": "/h", "XDG_CONFIG_HOME": "x"}, "/h/.config/leat/config", false},
		{map[string]string{"HOME": "h"}, "", false},
		{map[string]string{"HOME": "/h", "LEAT_CONFIG": "c"}, "c", true},
	} {
		path, named := Path(func(name string) string { return c.env[name] })
		if path != c.path || named != c.named {
			t.Errorf("%v: %q %t, expected %q %t", c.env, path, named, c.path, c.named)
		}
	}
}

func TestReadLimits(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "config")
	if _, err := Read(name); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for size, ok := range map[int]bool{maxBytes: true, maxBytes + 1: false} {
		if err := os.WriteFile(name, []byte(strings.Repeat("\n", size)), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(name); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// FuzzParse checks that what was read can be written and read again, and that errors name lines.
func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add("[a\n]\n= \n\"\n#")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("f", text)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Line < 1 || e.Line > strings.Count(text, "\n")+1 {
				t.Fatalf("%v", err)
			}
			return
		}
		var b strings.Builder
		entries := file.Entries()
		for _, e := range entries {
			if e.Profile == "" {
				b.WriteString(e.Key + " = " + e.Value + "\n")
			}
		}
		for _, p := range file.Profiles() {
			b.WriteString("[" + p + "]\n")
			for _, e := range entries {
				if e.Profile == p {
					b.WriteString(e.Key + " = " + e.Value + "\n")
				}
			}
		}
		again, err := Parse("f", b.String())
		if err != nil {
			t.Fatalf("%q: %v", b.String(), err)
		}
		if d := cmp.Diff(file.Profiles(), again.Profiles()); d != "" {
			t.Fatal(d)
		}
		for _, e := range entries {
			got, ok := again.Lookup(e.Profile, e.Key)
			if !ok || got.Value != e.Value || got.Profile != e.Profile {
				t.Fatalf("%+v became %+v", e, got)
			}
		}
	})
}
