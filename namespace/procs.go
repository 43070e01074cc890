package namespace

import (
	"fmt"
	"regexp"
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

// dying reports whether the process that had this number and start time is gone or will be in a
// moment. One of which nothing can be read is taken for alive.
func dying(pid int, start uint64) bool {
	p := procState(pid)
	return !p.Exists || p.Exiting || p.Start != 0 && p.Start != start
}

// startTime returns when a process started, in clock ticks since the machine's start: with its
// number it tells the process from a later one of the same number. It is 0 if there is no such
// process.
func startTime(pid int) uint64 { return procState(pid).Start }

// statLine is what /proc/PID/stat says, as far as it matters here.
type statLine struct {
	comm    string
	state   byte
	flags   uint64
	threads int
	start   uint64
}

// parseStat reads the line of /proc/PID/stat. The command stands in parentheses and is whatever the
// process likes, parentheses and line ends included, so the rest begins after the last one.
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

// commandBytes is how much is read of a command line: more than is shown, for what is taken out of
// it.
const commandBytes = 4096

// commandText makes the content of /proc/PID/cmdline, or its first commandBytes, fit to be shown:
// arguments with spaces between them and without the secrets of URLs, at most 200 bytes, '?' for
// what can't be printed.
func commandText(raw string) string {
	const most = 200
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
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// urlInArgument is a URL, or what looks like one, in an argument of a command.
var urlInArgument = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)([^\s"'<>` + "`" + `]*)`)

// withoutSecrets takes user and password, query and fragment out of the URLs in an argument: what of these is no secret nobody needs to know a process by. Where the argument was cut off,
// as much of its last URL as may be a password is taken out too.
func withoutSecrets(arg string, cut bool) string {
	found := urlInArgument.FindAllStringSubmatchIndex(arg, -1)
	var b strings.Builder
	end := 0
	for _, at := range found {
		b.WriteString(arg[end:at[4]])
		end = at[5]
		b.WriteString(openPart(arg[at[4]:end], cut && end == len(arg)))
	}
	return b.String() + arg[end:]
}

// openPart is what of a URL, behind its "://", may be told.
func openPart(rest string, cut bool) string {
	hidden := ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest, hidden = rest[:i], rest[i:i+1]+"..."
	}
	host, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	_, port, hasPort := strings.Cut(host[strings.LastIndexByte(host, ']')+1:], ":")
	switch {
	case strings.Contains(host, "@"):
		host = host[strings.LastIndexByte(host, '@')+1:]
	case hasPort && strings.Trim(port, "0123456789") != "":
		// No port, but the beginning of a password in which there is one of the characters that end a host.
		if i := strings.LastIndexByte(path, '@'); i >= 0 {
			return path[i+1:] + hidden
		}
		return "..."
	case cut && path == "" && hidden == "":
		return "..."
	}
	return host + path + hidden
}
