// Package measured formats what all parts of the benchmark print: the machine, medians with their
// spread, and tables in Markdown.
package measured

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes where, when and by which command numbers were measured; versions are those of
// what took part.
func Machine(command string, versions ...string) string {
	var u unix.Utsname
	kernel := runtime.GOOS
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	text := fmt.Sprintf("%s, %d cores, %s, %s; %s", procField("/proc/cpuinfo", "model name", runtime.GOARCH),
		runtime.NumCPU(), memory(), kernel, runtime.Version())
	for _, v := range versions {
		if v != "" {
			text += "; " + v
		}
	}
	return fmt.Sprintf("%s\nMeasured on %s by `%s`, load of the machine before it %s.", text,
		time.Now().UTC().Format(time.DateOnly), command, load())
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

func memory() string {
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

// Times are samples of one thing.
type Times []time.Duration

// Median is the middle one, or the mean of the middle two; 0 of none.
func (t Times) Median() time.Duration {
	if len(t) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(t))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// String is the median with the lowest and highest: "12.3 ms (11.0-15.1)".
func (t Times) String() string {
	if len(t) == 0 {
		return ""
	}
	unit, name := time.Second, "s"
	switch m := t.Median(); {
	case m < 10*time.Microsecond:
		unit, name = time.Nanosecond, "ns"
	case m < 10*time.Millisecond:
		unit, name = time.Microsecond, "µs"
	case m < 10*time.Second:
		unit, name = time.Millisecond, "ms"
	}
	in := func(d time.Duration) string {
		v := float64(d) / float64(unit)
		if v < 100 {
			return fmt.Sprintf("%.1f", v)
		}
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%s %s (%s-%s)", in(t.Median()), name, in(slices.Min(t)), in(slices.Max(t)))
}

// Ratio is the median divided by that of a peer, as text; "" where either is missing.
func (t Times) Ratio(peer Times) string {
	if len(t) == 0 || len(peer) == 0 || peer.Median() == 0 {
		return ""
	}
	return fmt.Sprintf("%.3g", float64(t.Median())/float64(peer.Median()))
}

// Table prints rows in Markdown. The first row is the head.
func Table(w io.Writer, rows [][]string) {
	for i, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|%s\n", strings.Repeat(" --- |", len(r)))
		}
	}
	fmt.Fprintln(w)
}

// TouchMemory makes the kernel take as much memory as a run needs, for a file in dir, and frees it.
// A virtual machine returns memory that was free for some seconds to its host, and getting it back
// may take longer than all that is measured. Without this call, the first measurement would pay for
// that, and so would each one that needs more memory.
func TouchMemory(dir string, size int64) error {
	f, err := os.CreateTemp(dir, "touch-")
	if err != nil {
		return err
	}
	b := make([]byte, 1<<20)
	for at := int64(0); at < size && err == nil; at += int64(len(b)) {
		_, err = f.Write(b)
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
