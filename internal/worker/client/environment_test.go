package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"leat/internal/worker/protocol"
	"leat/worker"
)

func testEndpoint() worker.Endpoint {
	return worker.Endpoint{
		Addresses: []string{"10.0.0.1:4711", "[fd00::1]:4711", "node1:4711"},
		Pin:       protocol.PinPrefix + "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
		Token:     "a-secret-of-43-characters-or-at-least-sixteen",
	}
}

func testText(t testing.TB, i worker.Endpoint) string {
	t.Helper()
	b, err := i.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFromEnvironmentUnsetsVariables(t *testing.T) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); isWorkerVariable(name) {
			t.Skipf("%s is set", name)
		}
	}
	if e, err := FromEnvironment(t.Context(), nil); e != nil || err != nil {
		t.Fatalf("without variables: %v, %v", e, err)
	}
	t.Setenv(worker.EnvEndpoint, testText(t, testEndpoint()))
	t.Setenv(worker.EnvName, "slurm-17")
	t.Setenv(worker.EnvSlots, "3")
	t.Setenv("LEAT_WORKERS", "is another's")
	e, err := FromEnvironment(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Environment{Name: "slurm-17", Kind: "slurm", Slots: 3, Endpoint: testEndpoint()}
	if d := cmp.Diff(want, e); d != "" {
		t.Error(d)
	}
	for _, name := range []string{worker.EnvEndpoint, worker.EnvName, worker.EnvSlots} {
		if _, there := os.LookupEnv(name); there {
			t.Errorf("%s is still set", name)
		}
	}
	if os.Getenv("LEAT_WORKERS") == "" {
		t.Error("a variable of another program was unset")
	}
}

func TestEnvironments(t *testing.T) {
	text := testText(t, testEndpoint())
	folder := t.TempDir()
	file := func(name string, mode os.FileMode, content string) string {
		p := filepath.Join(folder, name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	secret := file("secret", 0o600, text+"\n")
	link := filepath.Join(folder, "link")
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(folder, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return map[string]string{"INDEX": "5", "BAD": "x"}[name] }
	fetch := map[string]func(context.Context, string) (string, error){
		"ssm": func(_ context.Context, name string) (string, error) {
			if name != "/leat/run" {
				return "", errors.New("no such parameter")
			}
			return text, nil
		},
	}
	for _, x := range []struct {
		what string
		set  map[string]string
		name string
		err  string
	}{
		{"a file", map[string]string{worker.EnvFile: secret, worker.EnvName: "pbs-1"}, "pbs-1", ""},
		{"a name by index", map[string]string{worker.EnvFile: secret, protocol.EnvKind: "awsbatch", protocol.EnvIndexFrom: "INDEX"},
			"awsbatch-5", ""},
		{"a name by index, from a first",
			map[string]string{worker.EnvFile: secret, protocol.EnvKind: "awsbatch", protocol.EnvIndexFrom: "INDEX", protocol.EnvFirst: "100"},
			"awsbatch-105", ""},
		{"a secret in a store", map[string]string{protocol.EnvSecret: "ssm:/leat/run", worker.EnvName: "a"}, "a", ""},
		{"a missing secret", map[string]string{protocol.EnvSecret: "ssm:/other", worker.EnvName: "a"}, "",
			"no such parameter"},
		{"an unknown store", map[string]string{protocol.EnvSecret: "vault:x", worker.EnvName: "a"}, "", "not a known secret store"},
		{"no channel", map[string]string{worker.EnvName: "a"}, "", "0 are set"},
		{"two channels", map[string]string{worker.EnvName: "a", worker.EnvEndpoint: text, worker.EnvFile: secret}, "", "2 are set"},
		{"no name", map[string]string{worker.EnvEndpoint: text}, "", "LEAT_WORKER_NAME is not set"},
		{"half a name by index", map[string]string{worker.EnvEndpoint: text, protocol.EnvKind: "a"}, "", "neither"},
		{"no index", map[string]string{worker.EnvEndpoint: text, protocol.EnvKind: "a", protocol.EnvIndexFrom: "NOWHERE"}, "",
			"holds no index"},
		{"a bad index", map[string]string{worker.EnvEndpoint: text, protocol.EnvKind: "a", protocol.EnvIndexFrom: "BAD"}, "",
			"holds no index"},
		{"a bad first", map[string]string{worker.EnvEndpoint: text, protocol.EnvKind: "a", protocol.EnvIndexFrom: "INDEX", protocol.EnvFirst: "-1"}, "",
			protocol.EnvFirst},
		{"a path as a name", map[string]string{worker.EnvEndpoint: text, worker.EnvName: "../a"}, "", "not a valid worker name"},
		{"bad slots", map[string]string{worker.EnvEndpoint: text, worker.EnvName: "a", worker.EnvSlots: "0"}, "", worker.EnvSlots},
		{"another version's variable", map[string]string{worker.EnvEndpoint: text, worker.EnvName: "a", "LEAT_WORKER_X": "1"}, "",
			"LEAT_WORKER_X"},
		{"a file that others may read", map[string]string{worker.EnvFile: file("open", 0o640, text), worker.EnvName: "a"}, "",
			"0640"},
		{"a missing file", map[string]string{worker.EnvFile: filepath.Join(folder, "none"), worker.EnvName: "a"}, "",
			"no such file"},
		{"a symbolic link", map[string]string{worker.EnvFile: link, worker.EnvName: "a"}, "", "symbolic links"},
		{"a folder", map[string]string{worker.EnvFile: folder, worker.EnvName: "a"}, "", "not a regular file"},
		{"a pipe", map[string]string{worker.EnvFile: pipe, worker.EnvName: "a"}, "", "not a regular file"},
		{"a file of something else", map[string]string{worker.EnvFile: file("else", 0o600, "hello"), worker.EnvName: "a"}, "",
			"not an object"},
		{"a large file", map[string]string{worker.EnvFile: file("large", 0o600, strings.Repeat(" ", 1<<20)), worker.EnvName: "a"}, "",
			"longer than"},
		{"two descriptors", map[string]string{worker.EnvEndpoint: "fds:3,4", worker.EnvName: "a"}, "", "3 to 64"},
		{"standard descriptors", map[string]string{worker.EnvEndpoint: "fds:0,1,2", worker.EnvName: "a"}, "", "of 3 or more"},
		{"one descriptor thrice", map[string]string{worker.EnvEndpoint: "fds:3,3,3", worker.EnvName: "a"}, "", "distinct"},
		{"no numbers", map[string]string{worker.EnvEndpoint: "fds:a,b,c", worker.EnvName: "a"}, "", "expected distinct descriptors"},
		{"descriptors that are not open", map[string]string{worker.EnvEndpoint: "fds:70001,70002,70003", worker.EnvName: "a"}, "",
			"70001"},
	} {
		e, err := readEnvironment(t.Context(), x.set, getenv, fetch)
		switch {
		case x.err != "":
			if err == nil || !strings.Contains(err.Error(), x.err) || strings.Contains(err.Error(),
				testEndpoint().Token) {
				t.Errorf("%s: %v", x.what, err)
			}
		case err != nil:
			t.Errorf("%s: %v", x.what, err)
		case e.Name != x.name || cmp.Diff(e.Endpoint, testEndpoint()) != "":
			t.Errorf("%s: %+v", x.what, e.Name)
		}
	}
}

func TestSecretFileOwnerAndMode(t *testing.T) {
	path := "/etc/passwd" // of root
	if os.Geteuid() == 0 {
		path = filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(testText(t, testEndpoint())), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 12345, -1); err != nil {
			t.Skip(err)
		}
	}
	if _, err := readSecret(path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("%v", err)
	}
}

func TestInheritedConnections(t *testing.T) {
	var theirs []net.Conn
	var list []string
	for range 3 {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0) // as after an exec: without close-on-exec
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fds[0]), "ours")
		c, err := net.FileConn(f)
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		theirs = append(theirs, c)
		list = append(list, fmt.Sprint(fds[1]))
	}
	e, err := readEnvironment(t.Context(),
		map[string]string{worker.EnvEndpoint: "fds:" + strings.Join(list, ","), worker.EnvName: "subprocess-0"}, os.Getenv, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range e.Connections {
		raw, err := c.(*net.UnixConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			if flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("connection %d would be inherited: %v", i, err)
			}
		}); err != nil {
			t.Error(err)
		}
		if _, err := theirs[i].Write([]byte{byte(i)}); err != nil {
			t.Error(err)
		}
		b := make([]byte, 1)
		if _, err := c.Read(b); err != nil || !bytes.Equal(b, []byte{byte(i)}) {
			t.Errorf("connection %d: %v %v", i, b, err)
		}
		_ = c.Close()
	}
	// A file is not a connection.
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(f.Fd()))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := inherit(fmt.Sprintf("%d,70001,70002", fd)); err == nil || !strings.Contains(err.Error(),
		"not a connection") {
		t.Errorf("%v", err)
	}
}
