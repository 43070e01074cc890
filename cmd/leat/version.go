package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"leat/internal/gdal"
)

//go:embed VERSION
var versionFile string

// commit is the commit that was built, set by -ldflags "-X main.commit=...".
var commit string

// version is the version of leat, with the commit where it is known: 0.1.0+5f35ba2.
var version = fullVersion(strings.TrimSpace(versionFile), builtCommit())

// fullVersion appends a commit to a version, as semantic versions have build metadata.
func fullVersion(number, commit string) string {
	if commit == "" {
		return number
	}
	return number + "+" + commit
}

// builtCommit returns the commit of this build, or "": Go records it where neither -buildvcs=false
// nor a missing repository prevents that.
func builtCommit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 7)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}

// versionDoc is what leat version --json prints.
type versionDoc struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	Go        string `json:"go"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	GDAL      string `json:"gdal,omitempty"`
	GDALError string `json:"gdal_error,omitempty"`
}

func versionCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:                   "version",
		DisableFlagsInUseLine: true,
		Short:                 "Print the versions of leat and of GDAL",
		Long:                  `Version prints the version of leat, the commit it was built from, and the GDAL library that it uses.`,
		Args:                  noArguments("leat version"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc := versionDoc{Version: strings.TrimSpace(versionFile), Commit: builtCommit(), Go: runtime.Version(),
				OS: runtime.GOOS, Arch: runtime.GOARCH}
			var err error
			if doc.GDAL, err = gdal.Version(); err != nil {
				doc.GDALError = strings.TrimSuffix(err.Error(), " ("+gdal.ErrNotInstalled.Error()+")")
			}
			if asJSON {
				return stdoutError(writeJSON(cmd.OutOrStdout(), doc))
			}
			return stdoutError(doc.print(cmd.OutOrStdout(), err))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return c
}

// print writes the versions for people; gdalError is why GDAL can't be used, or nil.
func (d *versionDoc) print(w io.Writer, gdalError error) error {
	_, err := fmt.Fprintf(w, "leat %s\nbuilt with %s for %s/%s\n", fullVersion(d.Version, d.Commit), d.Go, d.OS, d.Arch)
	library := "GDAL " + d.GDAL
	if gdalError != nil {
		library = "no GDAL: " + d.GDALError
	}
	_, lerr := fmt.Fprintln(w, library)
	return errors.Join(err, lerr)
}
