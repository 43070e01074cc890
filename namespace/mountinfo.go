package namespace

import (
	"strconv"
	"strings"
)

// mountLine is a mount in a line of /proc/PID/mountinfo.
type mountLine struct {
	id    uint64
	dev   string // major:minor of the file system; in btrfs not those of its files
	root  string // the directory of the file system that is mounted
	point string // where
}

// parseMountinfo parses a mountinfo file. It skips lines that it does not understand, and mounts
// that are not directories.
func parseMountinfo(text string) []mountLine {
	var mounts []mountLine
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.SplitN(line, " ", 6) // id, parent, major:minor, root, point, options and so on
		if len(fields) < 6 {
			continue
		}
		id, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || fields[3] == "" || fields[3][0] != '/' || fields[4] == "" || fields[4][0] != '/' {
			continue
		}
		mounts = append(mounts, mountLine{id, fields[2], unescapeOctal(fields[3]), unescapeOctal(fields[4])})
	}
	return mounts
}

// unescapeOctal decodes \040 and the like, by which the kernel escapes white space and backslashes.
func unescapeOctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// below returns the path from dir to path in the same file system, if path lies inside dir.
func below(dir, path string) (rest string, ok bool) {
	if dir == "/" {
		return path[1:], path != "/"
	}
	rest, ok = strings.CutPrefix(path, dir+"/")
	return rest, ok && rest != ""
}
