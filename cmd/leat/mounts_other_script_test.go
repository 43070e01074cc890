//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func canMount() bool { return false }

func mountTmpfs(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no tmpfs here") }

func remount(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no tmpfs here") }
