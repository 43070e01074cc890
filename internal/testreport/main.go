// Command testreport reads the events of go test -json and prints what go test prints without
// -json, followed by the slowest tests and one line that says which tests were skipped and why. It
// exits with 1 if a package failed.
//
//	go test -short -json ./... | go run ./internal/testreport -short
//
// Its arguments are the options of that go test. With LEAT_TEST_RETRY=1 it runs at most three tests
// that failed once more with them, each alone, and exits with 0 if all pass then. It does not if a
// package did not build, crashed, or has a data race.
//
// With -left-out it prints arguments of go test that select the tests of the module in the current
// directory of which -short leaves something out.
//
//	go test $(go run ./internal/testreport -left-out)
package main

import (
	"fmt"
	"os"
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
	var again retrier
	if os.Getenv("LEAT_TEST_RETRY") == "1" {
		again = goTest(os.Args[1:])
	}
	ok, err := report(os.Stdin, os.Stdout, again)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}
