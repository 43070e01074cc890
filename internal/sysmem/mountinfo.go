package sysmem

import (
	"path"
	"strings"
)

// cgroupMount is a mount that shows a cgroup.
type cgroupMount struct {
	// root is the cgroup at the mount point, by its name in this process's namespace: "/",
	// "/docker/1f", "/../x".
	root  string
	point string // where
	rel   string // the path from root to the cgroup in question, "/" for root itself
}

// findMount finds, in the text of mountinfo, the mount of a hierarchy that shows the cgroup named p
// with the most of its ancestors. Where none shows it, as for a process that was moved out of its
// namespace's cgroup after the mount, it returns the root of the mount: the closest visible one, a
// cautious guess.
func findMount(mountinfo []byte, fsType, option, p string) (cgroupMount, bool) {
	var best cgroupMount
	found, shown := false, false
	for line := range strings.Lines(string(mountinfo)) {
		// 36 35 98:0 ROOT POINT options tag:1 tag:2 - TYPE source options
		if !strings.Contains(line, " - cgroup") {
			continue
		}
		head, tail, _ := strings.Cut(line, " - ")
		h, t := strings.Fields(head), strings.Fields(tail)
		if len(h) < 5 || len(t) < 3 || t[0] != fsType || option != "" && !hasOption(t[2], option) {
			continue
		}
		m := cgroupMount{root: unescapeMount(h[3]), point: unescapeMount(h[4]), rel: "/"}
		rel, ok := below(p, m.root)
		if ok {
			m.rel = rel
		}
		if !found || ok && (!shown || len(m.root) < len(best.root)) {
			best, found, shown = m, true, shown || ok
		}
	}
	return best, found
}

// below returns the path from root down to p. A path with ".." leads out of the mount.
func below(p, root string) (string, bool) {
	rest, ok := strings.CutPrefix(p, strings.TrimSuffix(root, "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == ".." {
			return "", false
		}
	}
	return path.Clean("/" + rest), true
}

// unescapeMount decodes \040 and the like, which stand for blanks, newlines and backslashes.
func unescapeMount(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b = append(b, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}

func octal(c byte) bool { return c >= '0' && c <= '7' }
