package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"leat/internal/config"
	"leat/internal/suggest"
	"leat/internal/units"
)

// setting is an option whose value may also come from the environment (variable) or from the
// configuration file (name). None of them changes what an output contains.
type setting struct {
	name  string
	check func(value string) error // nil: any text
	dir   bool                     // a directory: ~ is expanded in the file
}

// settings in the order of leat config show.
var settings = []setting{
	{name: "endpoint", check: checkEndpoint},
	{name: "region"},
	{name: "anonymous", check: checkBool},
	{name: "retry-for", check: func(s string) error { _, err := parseAge(s); return err }},
	{name: "stage-dir", check: func(s string) error {
		if s == noStage {
			return nil
		}
		return checkDir(s)
	}, dir: true},
	{name: "stage-bytes", check: checkSize},
	{name: "stage-min-free", check: func(s string) error { _, err := parsePart(s); return err }},
	{name: "tmpdir", check: checkDir, dir: true},
	{name: "memory", check: checkSize},
	{name: "jobs", check: checkCount},
	{name: "readers", check: checkCount},
	{name: "on", check: func(s string) error {
		if !slices.Contains(kinds, s) {
			return didYouMean(fmt.Errorf("expected %s", orList(kinds)), s, kinds)
		}
		return nil
	}},
	{name: "workers", check: checkCount},
	{name: "shared-temp", check: checkDir, dir: true},
	{name: "listen"},
	{name: "cpus", check: checkCount},
	{name: "batch-options"},
	{name: "batch-init"},
	{name: "batch-prefix"},
	{name: "batch-suffix"},
	{name: "aws-queue"},
	{name: "aws-definition"},
	{name: "aws-image"},
	{name: "aws-program"},
	{name: "aws-secret"},
	{name: "aws-vcpus", check: func(s string) error {
		if v, err := strconv.ParseFloat(s, 64); err != nil || !(v > 0) {
			return errors.New("expected a number above 0")
		}
		return nil
	}},
	{name: "aws-memory", check: checkCount},
	{name: "aws-job-role"},
	{name: "aws-execution-role"},
	{name: "aws-public-ip", check: checkBool},
	{name: "aws-endpoint", check: checkEndpoint},
}

func checkBool(s string) error {
	if _, err := strconv.ParseBool(s); err != nil {
		return errors.New("expected true or false")
	}
	return nil
}

func checkSize(s string) error { _, err := units.ParseSize(s); return err }

func checkCount(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 {
		return errors.New("expected a whole number of 1 or more")
	}
	return nil
}

// checkDir refuses relative paths, which would be another directory wherever leat is started.
func checkDir(s string) error {
	if !filepath.IsAbs(s) {
		return errors.New("expected an absolute path")
	}
	return nil
}

func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("expected a URL with http or https, such as http://127.0.0.1:9000")
	}
	if u.User != nil {
		return errors.New("expected a URL without a user and a password")
	}
	return nil
}

// settingNames returns the keys of the configuration file.
func settingNames() []string {
	var names []string
	for _, s := range settings {
		names = append(names, s.name)
	}
	return names
}

// variable returns the name of the variable of an option: LEAT_ and the option's name.
func variable(option string) string {
	return "LEAT_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

// expand replaces ~/ by the home directory: there is no shell that does it in a file.
func (s *setting) expand(value, home string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok && s.dir && home != "" {
		return filepath.Join(home, rest)
	}
	return value
}

// configuration is where values come from that are not given as options.
type configuration struct {
	path    string       // of the file, "" without a home directory
	file    *config.File // nil: there is none
	profile string       // "" for none
	by      string       // --profile or LEAT_PROFILE
	getenv  func(string) string
}

// readConfiguration reads the file and checks all of it. profile is the value of --profile.
func readConfiguration(profile string, getenv func(string) string) (*configuration, error) {
	c, err := openConfiguration(profile, getenv)
	if err != nil {
		return nil, seeError{err, "leat config --help; leat config path prints where the file is"}
	}
	return c, nil
}

func openConfiguration(profile string, getenv func(string) string) (*configuration, error) {
	c := &configuration{profile: profile, by: "--profile", getenv: getenv}
	if profile == "" {
		c.profile, c.by = getenv("LEAT_PROFILE"), "LEAT_PROFILE"
	}
	if c.profile == "" {
		c.by = ""
	}
	var named bool
	c.path, named = config.Path(getenv)
	var err error
	if c.path != "" {
		c.file, err = config.Read(c.path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
	case err != nil && named && errors.As(err, new(*fs.PathError)):
		return nil, usagef("LEAT_CONFIG=%s: %w", c.path, cause(err))
	case errors.As(err, new(*fs.PathError)):
		return nil, usagef("the configuration file %s can't be read: %w", c.path, cause(err))
	case err != nil:
		return nil, asUsage(err)
	}
	if c.file != nil {
		home := getenv("HOME")
		err := c.file.Check(settingNames(), func(key, value string) error {
			s := settingOf(key)
			if s.check == nil {
				return nil
			}
			return s.check(s.expand(value, home))
		})
		if err != nil {
			return nil, asUsage(err)
		}
	}
	return c, c.checkProfile()
}

// settingOf returns the setting of a name, or nil.
func settingOf(name string) *setting {
	for i := range settings {
		if settings[i].name == name {
			return &settings[i]
		}
	}
	return nil
}

// checkProfile returns an error if the profile is not in the file.
func (c *configuration) checkProfile() error {
	if c.profile == "" {
		return nil
	}
	var names []string
	if c.file != nil {
		names = c.file.Profiles()
	}
	switch {
	case slices.Contains(names, c.profile):
		return nil
	case c.path == "":
		return usagef("%s %s: there is no configuration file, as there is no home directory", c.by, c.profile)
	case c.file == nil:
		return usagef("%s %s: there is no configuration file %s", c.by, c.profile, c.path)
	}
	text := ""
	if meant := suggest.Closest(c.profile, names); meant != "" {
		text = "; did you mean " + meant + "?"
	} else if len(names) > 0 {
		text = "; it has " + strings.Join(names, ", ")
	}
	return usagef("%s %s: %s has no such profile%s", c.by, c.profile, c.path, text)
}

// Sources of a value.
const (
	fromOption      = "option"
	fromEnvironment = "environment"
	fromFile        = "file"
	fromDefault     = "default"
)

// lookup returns the value of a setting from the environment or the file, its source, and where it
// stands there: LEAT_MEMORY or FILE:LINE.
func (c *configuration) lookup(s *setting) (value, source, where string, err error) {
	if name := variable(s.name); c.getenv(name) != "" {
		value := c.getenv(name)
		if s.check != nil {
			if err := s.check(value); err != nil {
				return "", "", "", usagef("%s=%s: %w", name, redact(value), err)
			}
		}
		return value, fromEnvironment, name, nil
	}
	if c.file != nil {
		if e, ok := c.file.Lookup(c.profile, s.name); ok {
			return s.expand(e.Value, c.getenv("HOME")), fromFile, e.Position(), nil
		}
	}
	return "", fromDefault, "", nil
}

// stageOptions are the options of leat stage that mean the same as others of leat apply.
var stageOptions = map[string]string{"stage-dir": "dir", "stage-bytes": "max-bytes", "stage-min-free": "min-free"}

// flagOf returns the option of a command that a setting is about, or nil.
func flagOf(c *cobra.Command, s *setting) *pflag.Flag {
	switch words := strings.Fields(c.CommandPath()); {
	case len(words) < 2:
		return nil
	case words[1] == "stage":
		if s.name == "workers" { // another thing there
			return nil
		}
		return c.Flags().Lookup(cmp.Or(stageOptions[s.name], s.name))
	case words[1] == "apply" || words[1] == "zonal" || words[1] == "info":
		return c.Flags().Lookup(s.name)
	}
	return nil
}

// profileOption is the name of the option that selects a profile.
const profileOption = "profile"

// addProfile adds --profile to a command and those below it, where a setting is an option.
func addProfile(c *cobra.Command) {
	if slices.ContainsFunc(settings, func(s setting) bool { return flagOf(c, &s) != nil }) {
		c.Flags().String(profileOption, "",
			"`NAME`: profile of the configuration file whose values hold where no option or variable gives one (see leat config)")
		if !c.Flags().SortFlags {
			group(c.Flags(), profileOption, "Configuration")
		}
	}
	for _, sub := range c.Commands() {
		addProfile(sub)
	}
}

// configure gives the options of a command that are not given the values of the environment and of
// the file. They do not count as given: those that do not suit the others are left out.
func configure(cmd *cobra.Command, _ []string) error {
	option := cmd.Flags().Lookup(profileOption)
	if option == nil || strings.HasPrefix(cmd.CommandPath(), "leat config") {
		return nil
	}
	c, err := readConfiguration(option.Value.String(), os.Getenv)
	if err != nil {
		return err
	}
	if err := c.apply(cmd); err != nil {
		return seeError{err, "leat help environment"}
	}
	return nil
}

func (c *configuration) apply(cmd *cobra.Command) error {
	var errs []error
	values := map[string]string{}
	for i := range settings {
		s := &settings[i]
		f := flagOf(cmd, s)
		if f == nil {
			continue
		}
		value, source, _, err := c.lookup(s)
		errs = append(errs, err)
		if !f.Changed && source != fromDefault {
			values[s.name] = value
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	dropUnsuited(cmd.Flags(), values)
	for name, value := range values {
		// Not by Flags().Set, which would mark it as given.
		if err := flagOf(cmd, settingOf(name)).Value.Set(value); err != nil {
			return usagef("%s: %w", name, err)
		}
	}
	return nil
}

// dropUnsuited removes values that do not suit the kind of workers, which an option would be
// refused for, and values that an option rules out.
func dropUnsuited(fl *pflag.FlagSet, values map[string]string) {
	if jobs := fl.Lookup("jobs"); jobs != nil && jobs.Changed {
		delete(values, "on") // -j is for workers of this process
	}
	if values["stage-dir"] == noStage && fl.Lookup("stage-dir") == nil {
		delete(values, "stage-dir") // leat stage needs one
	}
	kind := values["on"]
	if on := fl.Lookup("on"); on != nil && on.Changed {
		kind = on.Value.String()
	}
	for name := range values {
		of, some := only[name]
		if some && !slices.Contains(of, kind) || name == "workers" && kind == "" ||
			strings.HasPrefix(name, "aws-") && kind != "awsbatch" {
			delete(values, name)
		}
	}
}
