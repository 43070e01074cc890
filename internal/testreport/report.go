package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json, or of scripts/test: "module" with the directory of the
// packages that follow as its package, and "module-fail" if go test of that directory failed.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// slowest is how many tests are listed.
const slowest = 10

// skipReason is the line that t.Skip prints.
var skipReason = regexp.MustCompile(`^\s*\w+_test\.go:\d+: (.*)$|^\s*\w+\.go:\d+: (.*)$`)

// crash matches the outputs of a test binary that ended early, or of the race detector.
var crash = regexp.MustCompile(`(?m)^\s*(panic: |fatal error: |unexpected fault address|signal: )|DATA RACE`)

// timedTest is a test and how long it took.
type timedTest struct {
	name    string
	seconds float64
}

// summary is what the events of one or several runs of go test say.
type summary struct {
	times            []timedTest
	skips            map[string]int // by reason
	packages, failed int
	passed           map[string]bool // tests, by package and name
	failures         []failure       // tests, without subtests
	strict           string          // why no test may run again
}

// report copies what go test prints from the events of r to w, and reports whether all packages
// passed, or all tests that failed passed again.
func report(r io.Reader, w io.Writer, again retrier) (ok bool, err error) {
	s, err := readEvents(r, w)
	if err != nil {
		return false, err
	}
	var lines []string
	ok = s.failed == 0 && s.packages > 0
	if !ok && s.packages > 0 && again != nil {
		lines, ok = s.retry(w, again)
	}
	s.print(w)
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
	return ok, nil
}

// readEvents prints the outputs of tests and packages that failed, and the last line of others.
func readEvents(r io.Reader, w io.Writer) (*summary, error) {
	s := &summary{skips: map[string]int{}, passed: map[string]bool{}}
	outputs := map[string][]string{}         // of running tests, and of packages outside tests
	running := map[string]int{}              // tests, by package
	failedTests := map[string]int{}          // without subtests, by package
	crashed := map[string]bool{}             // packages
	directory, failedBefore := ".", s.failed // of the module
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err == io.EOF {
			return s, nil
		}
		if err != nil && err != io.EOF {
			return nil, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprint(w, string(line)) // what the linker or a crash prints
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "module":
			directory, failedBefore = e.Package, s.failed
		case "module-fail":
			if s.failed == failedBefore {
				s.failed++
				s.strict = fmt.Sprintf("go test failed in %s, but none of its packages did", e.Package)
				fmt.Fprintln(w, s.strict)
			}
		case "run":
			running[e.Package]++
		case "output":
			outputs[key] = append(outputs[key], e.Output)
			if crash.MatchString(e.Output) {
				crashed[e.Package] = true
			}
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "fail", "pass", "skip":
			lines := outputs[key]
			delete(outputs, key)
			if e.Test == "" {
				s.packages++
				if e.Action != "fail" {
					if len(lines) > 0 {
						fmt.Fprint(w, lines[len(lines)-1])
					}
					continue
				}
				s.failed++
				printAll(w, lines)
				switch {
				case failedTests[e.Package] == 0:
					s.strict = e.Package + " failed outside a test"
				case crashed[e.Package] || running[e.Package] > 0:
					s.strict = e.Package + " crashed, or has a data race"
				}
				continue
			}
			running[e.Package]--
			if e.Action == "fail" {
				printAll(w, lines)
			}
			if e.Action == "skip" {
				s.skips[reasonOf(lines)]++
			}
			if strings.Contains(e.Test, "/") {
				continue
			}
			s.times = append(s.times, timedTest{key, e.Elapsed})
			switch e.Action {
			case "pass":
				s.passed[key] = true
			case "fail":
				failedTests[e.Package]++
				s.failures = append(s.failures, failure{directory, e.Package, e.Test})
			}
		}
	}
}

// print writes the closing lines.
func (s *summary) print(w io.Writer) {
	slices.SortFunc(s.times, func(a, b timedTest) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(w, "\nslowest tests:")
	for _, t := range s.times[:min(slowest, len(s.times))] {
		fmt.Fprintf(w, "%8.1f s  %s\n", t.seconds, t.name)
	}
	skipped := 0
	for _, n := range s.skips {
		skipped += n
	}
	fmt.Fprintf(w, "\n%d packages, %d failed; %d tests skipped%s\n", s.packages, s.failed, skipped, skipText(s.skips))
}

func printAll(w io.Writer, lines []string) {
	for _, l := range lines {
		fmt.Fprint(w, l)
	}
}

// reasonOf returns the argument of t.Skip, up to the first colon for those of -short.
func reasonOf(lines []string) string {
	for _, l := range slices.Backward(lines) {
		if m := skipReason.FindStringSubmatch(strings.TrimRight(l, "\n")); m != nil {
			text := m[1] + m[2]
			if strings.HasPrefix(text, "-short") {
				return "-short"
			}
			return text
		}
	}
	return "no reason given"
}

// skipText lists reasons, the most frequent first.
func skipText(skips map[string]int) string {
	if len(skips) == 0 {
		return ""
	}
	var list []string
	for reason := range skips {
		list = append(list, reason)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(skips[b], skips[a]), cmp.Compare(a, b)) })
	for i, reason := range list {
		list[i] = fmt.Sprintf("%d %s", skips[reason], reason)
		if reason == "-short" {
			list[i] = fmt.Sprintf("%d because of -short (make test-all runs them)", skips[reason])
		}
	}
	return ": " + strings.Join(list, "; ")
}
