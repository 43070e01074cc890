// Command testreport reads the events of go test -json and prints what go test prints without
// -json, followed by the slowest tests and one line that says which tests were skipped and why. It
// exits with 1 if a package failed.
//
//	go test -short -json ./... | go run ./internal/testreport
//
// With -left-out it prints arguments of go test that select the tests of the module in the current
// directory of which -short leaves something out.
//
//	go test $(go run ./internal/testreport -left-out)
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-left-out" {
		args, err := leftOut(".")
		if err != nil {
			fmt.Fprintln(os.Stderr, "testreport:", err)
			os.Exit(1)
		}
		fmt.Println(args)
		return
	}
	ok, err := report(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// event is one line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// slowest is how many tests are listed.
const slowest = 10

// skipReason is the line that t.Skip prints.
var skipReason = regexp.MustCompile(`^\s*\w+_test\.go:\d+: (.*)$|^\s*\w+\.go:\d+: (.*)$`)

// report reports whether all packages passed.
func report(r io.Reader, w io.Writer) (ok bool, err error) {
	type timed struct {
		name    string
		seconds float64
	}
	var times []timed
	outputs := map[string][]string{} // of running tests, and of packages outside tests
	skips := map[string]int{}
	packages, failed, skipped := 0, 0, 0
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err == io.EOF {
			break
		}
		if err != nil && err != io.EOF {
			return false, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprint(w, string(line)) // what the linker or a crash prints
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output":
			outputs[key] = append(outputs[key], e.Output)
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "fail", "pass", "skip":
			lines := outputs[key]
			delete(outputs, key)
			if e.Test == "" {
				packages++
				if e.Action == "fail" {
					failed++
					printAll(w, lines)
				} else if len(lines) > 0 {
					fmt.Fprint(w, lines[len(lines)-1])
				}
				continue
			}
			if e.Action == "fail" {
				printAll(w, lines)
			}
			if e.Action == "skip" {
				skipped++
				skips[reasonOf(lines)]++
			}
			if !strings.Contains(e.Test, "/") {
				times = append(times, timed{e.Package + " " + e.Test, e.Elapsed})
			}
		}
	}
	slices.SortFunc(times, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(w, "\nslowest tests:")
	for _, t := range times[:min(slowest, len(times))] {
		fmt.Fprintf(w, "%8.1f s  %s\n", t.seconds, t.name)
	}
	fmt.Fprintf(w, "\n%d packages, %d failed; %d tests skipped%s\n", packages, failed, skipped, skipText(skips))
	return failed == 0 && packages > 0, nil
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
