package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"leat/internal/listen"
	"leat/internal/stagedir"
	"leat/internal/units"
	"leat/stage"
)

// stageFlags are what the commands of leat stage take; each has some of them.
type stageFlags struct {
	dir, maxBytes, minFree, maxAge    string
	retryFor, evict                   string
	workers                           int
	endpoint, region, metrics         string
	anonymous, json, recursive, force bool
	canRead                           bool // the command can do without a stage, if the disk has no space for it
}

func (f *stageFlags) addDir(c *cobra.Command) {
	c.Flags().StringVar(&f.dir, "dir", "",
		"`DIR`: the directory, on a local disk; the objects lie in its directory stage (default: $LEAT_CACHE_DIR, else leat below the user's cache directory)")
}

func (f *stageFlags) addJSON(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&f.json, "json", false, usage)
}

func (f *stageFlags) addSource(c *cobra.Command) {
	f.addDir(c)
	c.Flags().StringVar(&f.maxBytes, "max-bytes", "1T",
		"`SIZE`: most space that all objects of the directory take, whichever process uses them, such as 200G (default: 1T)")
	c.Flags().StringVar(&f.minFree, "min-free", "5%",
		"`PART`: part of the disk that is left free for others, such as 10% or 0% (default: 5%)")
	c.Flags().StringVar(&f.evict, "evict", "lru",
		"`lru|epochs`: which objects are evicted for others: the least recently used (lru, default), or those that suit objects which are all read again and again and exceed the space (epochs)")
	c.Flags().IntVar(&f.workers, "workers", 8, "`N`: objects that are copied at the same time, 1 to 512 (default: 8)")
	c.Flags().StringVar(&f.maxAge, "max-age", "0",
		"`TIME`: take what was compared with its source so long ago, such as 30m, 12h or 7d, without asking again; never: what is there is not compared (default: 0, each command compares)")
	c.Flags().StringVar(&f.endpoint, "endpoint", "",
		"`URL`: a server that speaks a provider's protocol, such as http://127.0.0.1:9000")
	c.Flags().StringVar(&f.region, "region", "", "`NAME`: region of s3 buckets")
	c.Flags().BoolVar(&f.anonymous, "anonymous", false, "send no credentials, for public data")
	addRetryFor(c.Flags(), &f.retryFor)
	c.Flags().StringVar(&f.metrics, "metrics", "",
		"`ADDR`: serve metrics for Prometheus at this port of the loopback, such as 9100, or at an address and port, while the command runs")
	group(c.Flags(), "endpoint", "Stores")
	group(c.Flags(), "metrics", "Seeing it")
}

// evictions are what --evict takes.
var evictions = []string{"lru", "epochs"}

// options checks the options of a command with addSource.
func (f *stageFlags) options() (*stage.Options, error) {
	o := &stage.Options{Workers: f.workers}
	var errs []error
	var err error
	if o.MaxBytes, err = units.ParseSize(f.maxBytes); err != nil {
		errs = append(errs, usagef("--max-bytes %s: %w", f.maxBytes, err))
	}
	if o.MinFree, err = parsePart(f.minFree); err != nil {
		errs = append(errs, usagef("--min-free %s: %w", f.minFree, err))
	}
	switch f.evict {
	case "lru":
	case "epochs":
		o.Keep = stage.Epochs
	default:
		errs = append(errs, usagef("--evict %s: %w", f.evict, unknownWord(f.evict, evictions)))
	}
	if f.workers < 1 || f.workers > 512 {
		errs = append(errs, usagef("--workers %d: give 1 to 512", f.workers))
	}
	if o.Retry, err = parseRetryFor(f.retryFor); err != nil {
		errs = append(errs, err)
	}
	if f.maxAge == "never" {
		o.MaxAge = -1
	} else if o.MaxAge, err = parseAge(f.maxAge); err != nil {
		errs = append(errs, usagef("--max-age %s: %w, or never", f.maxAge, err))
	}
	if f.endpoint != "" {
		// Not repeated in the error: there may be a password in it.
		if u, err := url.Parse(f.endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, usagef("--endpoint: give a URL with http or https, such as http://127.0.0.1:9000"))
		}
	}
	if f.metrics != "" {
		if _, _, err := listen.Resolve(f.metrics); err != nil {
			errs = append(errs, usagef("--metrics: %w", err))
		}
	}
	return o, errors.Join(errs...)
}

// parsePart reads a part of the disk such as 5%, as stage.Options.MinFree has it, where nothing is
// a negative number.
func parsePart(s string) (float64, error) {
	digits, percent := strings.CutSuffix(s, "%")
	part, err := strconv.ParseFloat(digits, 64)
	if !percent || err != nil || !(part >= 0 && part <= 100) {
		return 0, errors.New("write a part such as 5%, from 0% to 100%")
	}
	if part == 0 {
		return -1, nil
	}
	return part / 100, nil
}

// parseAge reads a time such as 90s, 12h or 7d.
func parseAge(s string) (time.Duration, error) {
	wrong := errors.New("write a time such as 30m, 12h or 7d")
	factor := time.Duration(1)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		s, factor = days+"h", 24
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 100*365*24*time.Hour/factor {
		return 0, wrong
	}
	return d * factor, nil
}

// root is the directory that is meant.
func (f *stageFlags) root() (string, error) {
	if f.dir != "" {
		return filepath.Abs(f.dir)
	}
	return stagedir.Default()
}

// existing is the directory where there is a stage, and false where nothing was ever staged.
func (f *stageFlags) existing() (string, bool, error) {
	dir, err := f.root()
	if err != nil {
		return "", false, err
	}
	_, err = os.Lstat(filepath.Join(dir, "stage"))
	return dir, err == nil, nil
}
