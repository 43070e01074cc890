package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// findPeers looks for Python with what the scripts need, and for gdal_calc.py.
func (b *bench) findPeers(ctx context.Context) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		out, err := exec.CommandContext(ctx, python, b.script("versions.py")).Output()
		if err == nil {
			b.python, b.versions = python, strings.TrimSpace(string(out))
			break
		}
	}
	if b.python == "" {
		b.note("NumPy and rasterio are not installed (Debian: python3-numpy python3-rasterio): all peers but gdal_calc.py are left out, and outputs are not compared.")
	}
	b.inputs.python = b.python
	if path, err := exec.LookPath("gdal_calc.py"); err == nil {
		b.gdalCalc = path
	} else {
		b.note("gdal_calc.py is not installed (Debian: python3-gdal gdal-bin): left out.")
	}
}

// machine describes where and with what the numbers were measured.
func (b *bench) machine(ctx context.Context) string {
	var u unix.Utsname
	kernel := runtime.GOOS
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	text := fmt.Sprintf("%s, %d cores, %s, %s; %s", procField("/proc/cpuinfo", "model name", runtime.GOARCH), runtime.NumCPU(),
		procMemory(), kernel, runtime.Version())
	if b.versions != "" {
		text += "; " + b.versions
	}
	if out, err := exec.CommandContext(ctx, b.leat, "--version").Output(); err == nil {
		text += "; " + strings.TrimSpace(string(out))
	}
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		text += " (" + strings.TrimSpace(string(out)) + ")"
	}
	return fmt.Sprintf("%s\nMeasured on %s by `%s`, load of the machine before it %s.", text, time.Now().UTC().Format(time.DateOnly), b.command, load())
}

// procField is the value of the first line of a file in /proc that begins with key.
func procField(file, key, otherwise string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return otherwise
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}

func procMemory() string {
	var kib int64
	if _, err := fmt.Sscan(procField("/proc/meminfo", "MemTotal", ""), &kib); err != nil {
		return "memory unknown"
	}
	return fmt.Sprintf("%.0f GiB", float64(kib)/(1<<20))
}

func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}
