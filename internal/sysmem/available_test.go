package sysmem

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mib = 1 << 20

// tree writes files below a fresh directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	// 16 GiB, of which 8 are available: 8064 MiB without the reserve.
	meminfo = "MemTotal:       16777216 kB\nMemFree:          123456 kB\nMemAvailable:    8388608 kB\nBuffers:               0 kB\n"

	v2Mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	v1Mount = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
	others  = "22 27 0:21 / /proc rw - proc proc rw\n34 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
	v1None  = "9223372036854771712\n"
)

func bytesText(n int64) string { return fmt.Sprintf("%d\n", n) }

// cg2 are the files of a version 2 cgroup, limit -1 for none.
func cg2(dir string, limit, usage, inactive int64) map[string]string {
	files := map[string]string{
		dir + "/memory.max":     "max\n",
		dir + "/memory.current": bytesText(usage),
		dir + "/memory.stat":    fmt.Sprintf("anon 1\nfile 5\ninactive_anon 77\ninactive_file_huge 999999999999\ninactive_file %d\nactive_file 4096\n", inactive),
	}
	if limit >= 0 {
		files[dir+"/memory.max"] = bytesText(limit)
	}
	return files
}

func cg1(dir string, limit, usage, inactive int64) map[string]string {
	return map[string]string{
		dir + "/memory.limit_in_bytes": bytesText(limit),
		dir + "/memory.usage_in_bytes": bytesText(usage),
		dir + "/memory.stat":           fmt.Sprintf("cache 1\ninactive_file 999999999\ntotal_cache 2\ntotal_inactive_file %d\n", inactive),
	}
}

func all(parts ...map[string]string) map[string]string {
	files := map[string]string{}
	for _, p := range parts {
		maps.Copy(files, p)
	}
	return files
}

func proc(cgroup, mountinfo string) map[string]string {
	return map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": cgroup, "proc/self/mountinfo": mountinfo}
}

func TestAvailableIsTheTightestLimit(t *testing.T) {
	const machine = "MemAvailable of the machine"
	const base, base1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"
	for _, c := range []struct {
		name  string
		files map[string]string
		need  int64
		want  Free
	}{
		{"no cgroups at all", map[string]string{"proc/meminfo": meminfo}, 0, Free{8064 * mib, machine}},
		{"cgroups that are not mounted", proc("0::/a\n4:memory:/b\n", others), 0, Free{8064 * mib, machine}},
		{"a cgroup without limit", all(proc("0::/a\n", v2Mount), cg2(base+"/a", -1, 5, 0)), 0,
			Free{8064 * mib, machine}},
		{"a cgroup with more than the machine", all(proc("0::/a\n", v2Mount), cg2(base+"/a", 64<<30, 5, 0)), 0,
			Free{8064 * mib, machine}},
		{"the cgroup of the process", all(proc("0::/a/b\n", others+v2Mount),
			cg2(base+"/a/b", 4096*mib, 1000*mib, 500*mib), cg2(base+"/a", -1, 2000*mib, 0)),
			1000 * mib, Free{(4096 - 1000 - 128) * mib, "memory.max of cgroup /a/b"}},
		{"an ancestor", all(proc("0::/a/b/c\n", v2Mount), cg2(base+"/a/b/c", 4096*mib, 100*mib, 0),
			cg2(base+"/a/b", -1, 100*mib, 0), cg2(base+"/a", 3072*mib, 2000*mib, 0)),
			0, Free{(3072 - 2000 - 128) * mib, "memory.max of cgroup /a"}},
		{"a small limit keeps a small reserve", all(proc("0::/a\n", v2Mount), cg2(base+"/a", 64*mib, 10*mib, 0)), 0,
			Free{50 * mib, "memory.max of cgroup /a"}},
		{"files are dropped where memory is short",
			all(proc("0::/a\n", v2Mount), cg2(base+"/a", 4096*mib, 3900*mib, 3000*mib)),
			100 * mib, Free{(4096 - 900 - 128) * mib, "memory.max of cgroup /a"}},
		{"files are not asked for where it is not",
			all(proc("0::/a\n", v2Mount), cg2(base+"/a", 4096*mib, 3800*mib, 3000*mib)),
			100 * mib, Free{168 * mib, "memory.max of cgroup /a"}},
		{"files are never more than what is used",
			all(proc("0::/a\n", v2Mount), cg2(base+"/a", 1024*mib, 1000*mib, 5000*mib)),
			mib * 100, Free{960 * mib, "memory.max of cgroup /a"}},
		{"more used than allowed", all(proc("0::/a\n", v2Mount), cg2(base+"/a", 100*mib, 200*mib, 0)), mib,
			Free{0, "memory.max of cgroup /a"}},
		{"a limit of nothing", all(proc("0::/a\n", v2Mount), cg2(base+"/a", 0, 4096, 0)), mib,
			Free{0, "memory.max of cgroup /a"}},
		{"version 1", all(proc("9:cpu,cpuacct:/x\n4:hugetlb,memory:/d/e\n", others+v1Mount),
			cg1(base1+"/d/e", 2048*mib, 100*mib, 0), map[string]string{base1 + "/d/memory.limit_in_bytes": v1None}),
			0, Free{(2048 - 100 - 128) * mib, "memory.limit_in_bytes of cgroup /d/e"}},
		{"files of version 1 with those of children",
			all(proc("4:memory:/d\n", v1Mount), cg1(base1+"/d", 2048*mib, 2000*mib, 1000*mib)),
			500 * mib, Free{(2048 - 1000 - 128) * mib, "memory.limit_in_bytes of cgroup /d"}},
		{"both versions, the first tighter",
			all(proc("4:memory:/d\n0::/a\n",
				v1Mount+strings.Replace(v2Mount, "/sys/fs/cgroup", "/sys/fs/cgroup/unified", 1)),
				cg1(base1+"/d", 2048*mib, 0, 0), cg2(base+"/unified/a", 4096*mib, 0, 0)), 0,
			Free{1920 * mib, "memory.limit_in_bytes of cgroup /d"}},
		{"both versions, the second tighter",
			all(proc("4:memory:/d\n0::/a\n",
				v1Mount+strings.Replace(v2Mount, "/sys/fs/cgroup", "/sys/fs/cgroup/unified", 1)),
				cg1(base1+"/d", 4096*mib, 0, 0), cg2(base+"/unified/a", 2048*mib, 0, 0)), 0,
			Free{1920 * mib, "memory.max of cgroup /a"}},
		{"the controller is counted by version 1 alone",
			all(proc("4:memory:/\n0::/\n",
				v1Mount+strings.Replace(v2Mount, "/sys/fs/cgroup", "/sys/fs/cgroup/unified", 1)),
				map[string]string{base + "/unified/cgroup.controllers": "\n"}, cg1(base1, 2048*mib, 0, 0)), 0,
			Free{1920 * mib, "memory.limit_in_bytes of cgroup /"}},
		{"a container that sees its own cgroup as the root of the mount",
			all(proc("4:memory:/docker/1f\n", strings.Replace(v1Mount, " / /sys", " /docker/1f /sys", 1)),
				cg1(base1, 2048*mib, 0, 0)),
			0, Free{1920 * mib, "memory.limit_in_bytes of cgroup /docker/1f"}},
		{"a cgroup below that of the container",
			all(proc("4:memory:/docker/1f/x\n", strings.Replace(v1Mount, " / /sys", " /docker/1f /sys", 1)),
				cg1(base1, 2048*mib, 1000*mib, 0), cg1(base1+"/x", 1024*mib, 0, 0)),
			0, Free{(2048 - 1000 - 128) * mib, "memory.limit_in_bytes of cgroup /docker/1f"}},
		{"a namespace outside its mount",
			all(proc("0::/../x\n", strings.Replace(v2Mount, " / /sys", " /.. /sys", 1)),
				cg2(base+"/x", 2048*mib, 0, 0)),
			0, Free{1920 * mib, "memory.max of cgroup /../x"}},
		{"a cgroup that the mount does not show: its root stands in",
			all(proc("0::/../x\n", v2Mount), cg2(base, 2048*mib, 0, 0), cg2("sys/fs/x", 1, 0, 0),
				cg2(base+"/x", 1, 0, 0)),
			0, Free{1920 * mib, "memory.max of cgroup /"}},
		{"a name that only begins like the root of the mount",
			all(proc("0::/docker/1ff\n", strings.Replace(v2Mount, " / /sys", " /docker/1f /sys", 1)),
				cg2(base+"/f", 1, 0, 0), cg2(base, 2048*mib, 0, 0)),
			0, Free{1920 * mib, "memory.max of cgroup /docker/1f"}},
		{"the mount that shows most", all(proc("0::/a/b\n",
			strings.Replace(v2Mount, " / /sys/fs/cgroup", " /a/b /one", 1)+strings.Replace(v2Mount, "/sys/fs/cgroup",
				`/t\040wo`, 1)),
			cg2("one", 4096*mib, 0, 0), cg2("t wo/a/b", 4096*mib, 0, 0), cg2("t wo/a", 2048*mib, 0, 0)), 0,
			Free{1920 * mib, "memory.max of cgroup /a"}},
		{"a cgroup that was removed", all(proc("0::/a/gone (deleted)\n", v2Mount), cg2(base+"/a", 2048*mib, 0, 0)), 0,
			Free{1920 * mib, "memory.max of cgroup /a"}},
		{"a limit without usage", all(proc("0::/a\n", v2Mount), map[string]string{base + "/a/memory.max": "1000000\n"}),
			0, Free{8064 * mib, machine}},
		{"a cgroup without statistics", all(proc("0::/a\n", v2Mount),
			map[string]string{base + "/a/memory.max": bytesText(1600 * mib),
				base + "/a/memory.current": bytesText(1500 * mib)}),
			mib * 500, Free{0, "memory.max of cgroup /a"}},
		{"no mountinfo", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n"}, 0,
			Free{8064 * mib, machine}},
		{"no meminfo", all(map[string]string{"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": v2Mount},
			cg2(base+"/a", 2048*mib, 0, 0)), 0, Free{1920 * mib, "memory.max of cgroup /a"}},
		{"a meminfo of an old kernel", all(proc("0::/\n", v2Mount),
			map[string]string{"proc/meminfo": "MemTotal: 16777216 kB\nMemFree: 5 kB\n"}, cg2(base, 2048*mib, 0, 0)),
			0, Free{1920 * mib, "memory.max of cgroup /"}},
		{"little memory on the machine",
			map[string]string{"proc/meminfo": "MemTotal: 1048576 kB\nMemAvailable: 1024 kB\n"}, 0, Free{0, machine}},
		{"lines of the future", all(proc("0::/a\nnonsense\n::\n7:memory:relative\n",
			"nonsense\n1 2 3 - cgroup2\n- cgroup2 a b\n"+v2Mount), cg2(base+"/a", 2048*mib, 0, 0)),
			0, Free{1920 * mib, "memory.max of cgroup /a"}},
	} {
		got, err := readAvailable(tree(t, c.files), c.need)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-expected +got):\n%s", c.name, d)
		}
	}
}

func TestAvailableReportsBrokenLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing at all", nil, "unknown"},
		{"no limit and no meminfo", all(map[string]string{"proc/self/cgroup": "0::/a\n",
			"proc/self/mountinfo": v2Mount}, cg2("sys/fs/cgroup/a", -1, 5, 0)), "unknown"},
		{"no limit of version 1 and no meminfo",
			all(map[string]string{"proc/self/cgroup": "4:memory:/a\n", "proc/self/mountinfo": v1Mount},
				map[string]string{"sys/fs/cgroup/memory/a/memory.limit_in_bytes": v1None,
					"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "5\n"}), "unknown"},
		{"a limit in words", all(proc("0::/a\n", v2Mount), cg2("sys/fs/cgroup/a", 5, 5, 0),
			map[string]string{"sys/fs/cgroup/a/memory.max": "plenty\n"}), `/sys/fs/cgroup/a/memory.max holds "plenty"`},
		{"a negative usage", all(proc("0::/a\n", v2Mount), cg2("sys/fs/cgroup/a", 5, -5, 0)),
			`memory.current holds "-5"`},
		{"a directory", all(proc("0::/a\n", v2Mount), map[string]string{"sys/fs/cgroup/a/memory.max/x": ""}),
			"memory.max"},
	} {
		r, err := readAvailable(tree(t, c.files), 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, error %v", c.name, r, err)
		}
	}
}

func TestLongMountinfoIsReadWhole(t *testing.T) {
	var mounts strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&mounts, "%d 1 0:5 / /mnt/%d rw shared:4 - tmpfs tmpfs rw\n", i+100, i)
	}
	root := tree(t, all(proc("0::/a\n", mounts.String()+v2Mount), cg2("sys/fs/cgroup/a", 2048*mib, 0, 0)))
	if got, err := readAvailable(root, 0); err != nil || got.Bytes != 1920*mib {
		t.Errorf("%v, %v", got, err)
	}
}

func TestMountinfoEscapes(t *testing.T) {
	for text, want := range map[string]string{`/a`: "/a", `/a\040b\134\011`: "/a b\\\t", `\12`: `\12`, `\999`: `\999`,
		`\`: `\`, "": ""} {
		if got := unescapeMount(text); got != want {
			t.Errorf("%q is %q, expected %q", text, got, want)
		}
	}
}

func TestAvailableOnThisMachine(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("known on Linux only")
	}
	r, err := Available(mib)
	if err != nil {
		t.Fatal(err)
	}
	if r.Bytes < mib || r.Bytes > 1<<50 || r.Limit == "" {
		t.Errorf("%+v", r)
	}
	ram, swap := RAM(), RAMAndSwap()
	if ram < r.Bytes || swap < ram {
		t.Errorf("RAM %d, with swap %d, available %d", ram, swap, r.Bytes)
	}
}

func TestCgroupsLimitTotal(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(want int64) {
		t.Helper()
		if got := limitByCgroups(root, 1000); got != want {
			t.Errorf("%d, not %d", got, want)
		}
	}
	wants(1000) // nothing is known
	write("proc/self/cgroup", "7:cpu:/a/b\n4:cpuacct,memory:/job:1\n0::/a/b\nnonsense\n")
	write("proc/self/mountinfo", v2Mount+v1Mount)
	write("sys/fs/cgroup/a/b/memory.max", "max\n")
	wants(1000)
	write("sys/fs/cgroup/a/b/memory.max", "plenty\n")
	wants(1000)
	write("sys/fs/cgroup/a/memory.max", "700\n")
	write("sys/fs/cgroup/a/b/c/memory.max", "1\n") // of others
	wants(700)
	write("sys/fs/cgroup/memory/job:1/memory.limit_in_bytes", v1None)
	wants(700)
	write("sys/fs/cgroup/memory/memory.limit_in_bytes", "600\n")
	wants(600)
}

func BenchmarkAvailable(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Available(mib); err != nil {
			b.Fatal(err)
		}
	}
}
