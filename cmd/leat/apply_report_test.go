package main

import (
	"path/filepath"
	"strings"
	"testing"

	"leat/internal/report"
)

func TestReportNotesUnreadableOutput(t *testing.T) {
	r := &report.Report{}
	stores := (&storeFlags{}).stores(nil)
	addReportOutput(t.Context(), r, stores, "ndvi", "", filepath.Join(t.TempDir(), "none.tif"))
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "none.tif") {
		t.Errorf("notes %q", r.Notes)
	}
	if err := r.Write(filepath.Join(t.TempDir(), "report.html")); err != nil {
		t.Error(err)
	}
}
