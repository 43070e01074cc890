package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"

	"github.com/spf13/pflag"

	"leat/internal/units"
	"leat/objstore"
	"leat/objstore/cloud"
	"leat/stage"
	"leat/stores"
)

// storeFlags are the options of commands whose files may be URLs.
type storeFlags struct {
	endpoint, region     string
	anonymous            bool
	stageDir, stageBytes string
	stageFree            string
	retryFor             string
	retried              atomic.Pointer[func(error)] // called before each retry, unless nil
}

// AddFlags adds the options.
func (f *storeFlags) AddFlags(fl *pflag.FlagSet) {
	fl.StringVar(&f.endpoint, "endpoint", "",
		"`URL`: a server that speaks a provider's protocol, such as http://127.0.0.1:9000")
	group(fl, "endpoint", "Stores, for files given as s3://, gs://, azblob:// or https:// URLs")
	fl.StringVar(&f.region, "region", "", "`NAME`: region of s3 buckets")
	fl.BoolVar(&f.anonymous, "anonymous", false, "send no credentials, for public data")
	addRetryFor(fl, &f.retryFor)
}

// addStageFlags adds the options of the stage.
func (f *storeFlags) addStageFlags(fl *pflag.FlagSet) {
	fl.StringVar(&f.stageDir, "stage-dir", "",
		"`DIR`: a directory on a local disk for copies of remote inputs, shared by all runs of this machine; an input is copied if more than half of it is needed; none: all are read in pieces (default: $LEAT_CACHE_DIR, else leat below the user's cache directory)")
	fl.StringVar(&f.stageBytes, "stage-bytes", "1T", "`SIZE`: largest size of all copies, such as 200G (default: 1T)")
	fl.StringVar(&f.stageFree, "stage-min-free", "5%",
		"`PART`: part of that disk that is left free for others, such as 10% or 0% (default: 5%)")
}

// addRetryFor adds the option of all commands that fetch.
func addRetryFor(fl *pflag.FlagSet, value *string) {
	fl.StringVar(value, "retry-for", "1m",
		"`TIME`: how long requests to a store that is overloaded, restarts or breaks off may go on without progress, such as 10s, 5m or 1h; 0: one attempt each, which fails after 30s without a byte (default: 1m)")
}

// parseRetryFor reads the value of --retry-for.
func parseRetryFor(text string) (r objstore.Retry, err error) {
	if text == "" {
		return r, nil
	}
	if r.Timeout, err = parseAge(text); err != nil {
		return r, usagef("--retry-for %s: %w, or 0", text, err)
	}
	if r.Timeout == 0 {
		r.MaxAttempts = 1
	}
	return r, nil
}

// noStage is the --stage-dir of those who want none.
const noStage = "none"

// Finalize returns all that is wrong with the options.
func (f *storeFlags) Finalize() error {
	var errs []error
	if f.endpoint != "" {
		// Not repeated in the error: there may be a password in it.
		if u, err := url.Parse(f.endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			errs = append(errs, errors.New("--endpoint: give a URL with http or https, such as http://127.0.0.1:9000"))
		}
	}
	if _, err := parseRetryFor(f.retryFor); err != nil {
		errs = append(errs, err)
	}
	if f.stageBytes != "" {
		if _, err := units.ParseSize(f.stageBytes); err != nil {
			errs = append(errs, fmt.Errorf("--stage-bytes %s: %w", f.stageBytes, err))
		}
	}
	if f.stageFree != "" {
		if _, err := parsePart(f.stageFree); err != nil {
			errs = append(errs, fmt.Errorf("--stage-min-free %s: %w", f.stageFree, err))
		}
	}
	return errors.Join(errs...)
}

// stores returns what reaches stores, without a request yet. logger, if not nil, receives warnings.
// The caller closes it.
func (f *storeFlags) stores(logger *slog.Logger) *stores.Stores {
	retry, _ := parseRetryFor(f.retryFor) // see Finalize
	retry.OnRetry = func(err error) {
		if show := f.retried.Load(); show != nil {
			(*show)(err)
		}
	}
	o := &stores.Options{
		Store: objstore.Options{Endpoint: f.endpoint, Region: f.region, Anonymous: f.anonymous,
			Drivers: cloud.Drivers(), Retry: retry},
		NoStage: f.stageDir == noStage, StageDir: f.stageDir, Stage: stage.Options{Retry: retry},
		Logger: logger,
	}
	if f.stageBytes != "" {
		o.Stage.MaxBytes, _ = units.ParseSize(f.stageBytes) // see Finalize
	}
	if f.stageFree != "" {
		o.Stage.MinFree, _ = parsePart(f.stageFree) // see Finalize
	}
	return stores.New(o)
}
