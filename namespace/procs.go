package namespace

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// procInfo is what the kernel says of a process.
type procInfo struct {
	PID     int
	Exists  bool
	Start   uint64 // clock ticks from the machine's start to the process's; 0 if not known
	State   byte   // R, S, D, Z and so on; 0 if not known
	Exiting bool   // a zombie, on its way out, or about to be killed: nothing of it will run any more
	Command string // its command line, at most 200 bytes, fit for a terminal
}

// dying reports whether the process that had this number and start time is gone or will be in a moment. One of which nothing
// can be read is taken for alive.
func dying(pid int, start uint64) bool {
	p := procState(pid)
	return !p.Exists || p.Exiting || p.Start != 0 && p.Start != start
}

// startTime returns when a process started, in clock ticks since the machine's start: with its number it tells the process from a later
// one of the same number. It is 0 if there is no such process.
func startTime(pid int) uint64 { return procState(pid).Start }

// statLine is what /proc/PID/stat says, as far as it matters here.
type statLine struct {
	comm    string
	state   byte
	flags   uint64
	threads int
	start   uint64
}

// parseStat reads the line of /proc/PID/stat. The command stands in parentheses and is whatever the process likes, parentheses and
// line ends included, so the rest begins after the last one.
func parseStat(text string) (statLine, error) {
	first, last := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if first < 0 || last < first {
		return statLine{}, fmt.Errorf("%.80q has no command in parentheses", text)
	}
	s := statLine{comm: text[first+1 : last]}
	f := strings.Fields(text[last+1:]) // from field 3 on
	if len(f) < 20 || len(f[0]) != 1 {
		return statLine{}, fmt.Errorf("%.80q is too short", text)
	}
	var err error
	s.state = f[0][0]
	if s.flags, err = strconv.ParseUint(f[9-3], 10, 64); err != nil {
		return statLine{}, fmt.Errorf("the flags: %w", err)
	}
	if s.threads, err = strconv.Atoi(f[20-3]); err != nil {
		return statLine{}, fmt.Errorf("the number of threads: %w", err)
	}
	if s.start, err = strconv.ParseUint(f[22-3], 10, 64); err != nil {
		return statLine{}, fmt.Errorf("the start time: %w", err)
	}
	return s, nil
}

// ending reports whether a task that has this stat line and status file is a zombie, exits, or has a SIGKILL to come.
func ending(s statLine, status string) bool {
	const exiting = 0x4 // PF_EXITING
	const sigkill = 1 << (9 - 1)
	if s.flags&exiting != 0 || strings.IndexByte("ZXx", s.state) >= 0 {
		return true
	}
	for line := range strings.SplitSeq(status, "\n") {
		name, mask, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		if bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err == nil && bits&sigkill != 0 {
			return true
		}
	}
	return false
}

// commandText makes the content of /proc/PID/cmdline fit to be shown: arguments with spaces between them, at most 200 bytes,
// '?' for what can't be printed.
func commandText(raw string) string {
	const most = 200
	var b strings.Builder
	for _, r := range strings.TrimRight(raw, "\x00") {
		switch {
		case r == 0:
			r = ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
