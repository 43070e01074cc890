package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/internal/config"
)

// commandAt returns a command of a new tree.
func commandAt(t *testing.T, words ...string) *cobra.Command {
	t.Helper()
	c, _, err := rootCommand().Find(words)
	if err != nil || c.CommandPath() != "leat "+strings.Join(words, " ") {
		t.Fatalf("%v: %v", words, err)
	}
	return c
}

func TestSettingsAreOptions(t *testing.T) {
	t.Parallel()
	apply, zonal := commandAt(t, "apply"), commandAt(t, "zonal")
	for _, s := range settings {
		if flagOf(apply, &s) == nil || flagOf(zonal, &s) == nil {
			t.Errorf("%s is not an option of leat apply and leat zonal", s.name)
		}
		if settingOf(s.name).name != s.name {
			t.Errorf("%s stands there twice", s.name)
		}
	}
	for key, words := range map[string][]string{"stage-dir": {"stage", "ls"}, "stage-bytes": {"stage", "get"},
		"endpoint": {"info"}, "memory": {"zonal"}, "retry-for": {"stage", "prefetch"}, "tmpdir": {"apply", "discard"}} {
		c := commandAt(t, words...)
		if flagOf(c, settingOf(key)) == nil || c.Flags().Lookup(profileOption) == nil {
			t.Errorf("%s is not an option of %s", key, c.CommandPath())
		}
	}
	for key, words := range map[string][]string{"workers": {"stage", "get"}, "memory": {"demo"}, "endpoint": {"worker"}} {
		if flagOf(commandAt(t, words...), settingOf(key)) != nil {
			t.Errorf("%s is an option of %v", key, words)
		}
	}
}

// TestSettingsTakeWhatOptionsTake checks that no value passes a setting's check that the option
// refuses.
func TestSettingsTakeWhatOptionsTake(t *testing.T) {
	t.Parallel()
	values := []string{"", "0", "1", "-1", "1.5", "4G", "5%", "1m", "true", "false", "none", "slurm", "/tmp", "tmp",
		"http://127.0.0.1:9000", "http://", "'", "1e3", "T", "99999999999999999999"}
	taken := 0
	for _, s := range settings {
		for _, v := range values {
			if v == "" || s.check != nil && s.check(v) != nil {
				continue
			}
			taken++
			if err := flagOf(commandAt(t, "apply"), &s).Value.Set(v); err != nil {
				t.Errorf("%s = %s: %v", s.name, v, err)
			}
		}
	}
	if taken < len(settings) {
		t.Errorf("%d values were taken, expected at least %d", taken, len(settings))
	}
}

func TestPrecedenceOfSettings(t *testing.T) {
	t.Parallel()
	file, err := config.Parse("f", "memory = 1G\nendpoint = http://file\non = slurm\nstage-dir = none\n[p]\nmemory = 2G\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words, args, env []string
		profile          string
		want             []string // NAME=VALUE
	}{
		{words: []string{"apply"}, want: []string{"memory=1G", "endpoint=http://file", "on=slurm", "stage-dir=none"}},
		{words: []string{"apply"}, profile: "p", want: []string{"memory=2G", "endpoint=http://file"}},
		{words: []string{"apply"}, profile: "p", env: []string{"LEAT_MEMORY=3G"}, want: []string{"memory=3G"}},
		{words: []string{"apply"}, args: []string{"--memory", "4G"}, env: []string{"LEAT_MEMORY=3G"}, want: []string{"memory=4G"}},
		{words: []string{"apply"}, args: []string{"--endpoint", ""}, want: []string{"endpoint="}},
		{words: []string{"apply"}, args: []string{"-j", "2"}, want: []string{"on=", "jobs=2"}},
		{words: []string{"apply"}, args: []string{"--on", "subprocess"}, env: []string{"LEAT_CPUS=2", "LEAT_WORKERS=3"},
			want: []string{"on=subprocess", "cpus=0", "workers=3"}},
		{words: []string{"apply"}, env: []string{"LEAT_CPUS=2", "LEAT_AWS_QUEUE=q"}, want: []string{"cpus=2", "aws-queue="}},
		{words: []string{"apply"}, args: []string{"--on", ""}, env: []string{"LEAT_WORKERS=3"}, want: []string{"on=", "workers=0"}},
		{words: []string{"apply"}, env: []string{"LEAT_ON=awsbatch", "LEAT_AWS_QUEUE=q", "LEAT_AWS_PUBLIC_IP=1"},
			want: []string{"on=awsbatch", "aws-queue=q", "aws-public-ip=true"}},
		{words: []string{"stage", "ls"}, want: []string{"dir="}}, // none is for runs
		{words: []string{"stage", "get"}, env: []string{"LEAT_STAGE_DIR=/s", "LEAT_STAGE_BYTES=5G", "LEAT_WORKERS=3"},
			want: []string{"dir=/s", "max-bytes=5G", "workers=8", "endpoint=http://file"}},
		{words: []string{"info"}, env: []string{"LEAT_ANONYMOUS=true"}, want: []string{"anonymous=true", "endpoint=http://file"}},
	} {
		cmd := commandAt(t, c.words...)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		given := map[string]bool{}
		cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
		cfg := &configuration{file: file, profile: c.profile, getenv: func(name string) string {
			for _, e := range c.env {
				if n, v, _ := strings.Cut(e, "="); n == name {
					return v
				}
			}
			return ""
		}}
		if err := cfg.apply(cmd); err != nil {
			t.Errorf("%v %v: %v", c.words, c.args, err)
			continue
		}
		for _, w := range c.want {
			name, value, _ := strings.Cut(w, "=")
			if got := cmd.Flags().Lookup(name).Value.String(); got != value {
				t.Errorf("%v %v %v %s: %s is %q, expected %q", c.words, c.args, c.env, c.profile, name, got, value)
			}
		}
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if !given[f.Name] {
				t.Errorf("%v: --%s counts as given", c.words, f.Name)
			}
		})
	}
}

func TestVariableNames(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range settings {
		names = append(names, variable(s.name))
	}
	if !slices.Contains(names, "LEAT_STAGE_MIN_FREE") || !slices.Contains(names, "LEAT_ON") {
		t.Error(names)
	}
	for _, name := range append(names, "LEAT_CONFIG", "LEAT_PROFILE") {
		if slices.Contains(plainVariables, name) || strings.HasPrefix(name, "LEAT_WORKER_") || name == "LEAT_WORKER" {
			t.Errorf("%s has two meanings", name)
		}
	}
}
