// Command checks runs the analyzers of go vet and of staticcheck on packages, with the options of
// staticcheck. Both need the types and facts of all dependencies, which are loaded once for both.
package main

import (
	"os"

	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/lintcmd/version"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	cmd := lintcmd.NewCommand("checks")
	cmd.SetVersion(version.Version, version.MachineVersion)
	cmd.ParseFlags(os.Args[1:])
	cmd.AddBareAnalyzers(vet.Suite...)
	cmd.AddAnalyzers(simple.Analyzers...)
	cmd.AddAnalyzers(staticcheck.Analyzers...)
	cmd.AddAnalyzers(stylecheck.Analyzers...)
	cmd.AddAnalyzers(unused.Analyzer)
	cmd.Run()
}
