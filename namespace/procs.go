package namespace

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"leat/internal/lazyregexp"
)

// procInfo describes a process.
type procInfo struct {
	PID     int
	Exists  bool
	Start   uint64 // clock ticks from the machine's start to the process's; 0 if not known
	State   byte   // R, S, D, Z and so on; 0 if not known
	Exiting bool   // a zombie, exiting, or about to be killed
	Command string // its command line, at most 200 printable bytes
}

// startTime returns when a process started, in clock ticks since boot, 0 if it does not exist. It
// distinguishes the process from a later one with the same id.
func startTime(pid int) uint64 { return procState(pid).Start }

// statLine holds fields of /proc/PID/stat.
type statLine struct {
	comm    string
	state   byte
	flags   uint64
	threads int
	start   uint64
}

// parseStat parses /proc/PID/stat. The command is in parentheses and may itself contain parentheses
// and line ends, so the rest begins after the last one.
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

// ending reports whether a task that has this stat line and status file is a zombie, exits, or has
// a SIGKILL to come.
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

// commandBytes is how much of a command line is read, more than is shown, since secrets are
// removed.
const commandBytes = 4096

// commandText returns the first commandBytes of /proc/PID/cmdline for display: arguments separated
// by spaces, without the secrets of URLs, at most 200 bytes, with '?' for unprintable characters.
func commandText(raw string) string {
	const maxShown = 200
	args := strings.Split(strings.TrimRight(raw, "\x00"), "\x00")
	for i, arg := range args {
		args[i] = withoutSecrets(arg, len(raw) == commandBytes && i == len(args)-1)
	}
	var b strings.Builder
	for _, r := range strings.Join(args, "\x00") {
		switch {
		case r == 0:
			r = ' '
		case r == utf8.RuneError, !unicode.IsPrint(r):
			r = '?'
		}
		if b.Len()+utf8.RuneLen(r) > maxShown {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

var (
	urlInArgument = lazyregexp.New(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>` + "`" + `]*`)
	// secretInURL matches a user, a query, a fragment, and a port that may begin a password.
	secretInURL = lazyregexp.New(`[@?#]|//[^/]*:[0-9]*[^0-9/]`)
)

// withoutSecrets hides what follows the scheme of a URL in an argument if that may be a secret. If
// cut is set, the argument was cut off.
func withoutSecrets(arg string, cut bool) string {
	return urlInArgument.ReplaceAllStringFunc(arg, func(url string) string {
		if secretInURL.MatchString(url) || cut && strings.HasSuffix(arg, url) {
			return url[:strings.Index(url, "://")+3] + "..."
		}
		return url
	})
}
