package coordinator

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"leat/internal/pytest"
	"leat/internal/worker/protocol"
)

const document = "../../../docs/format/worker.md"

// blocksOf returns the blocks of code of a language in the document.
func blocksOf(t testing.TB, language string) (blocks []string) {
	t.Helper()
	b, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range strings.Split("\n"+string(b), "\n```") {
		if text, ok := strings.CutPrefix(s, language+"\n"); ok && i%2 == 1 {
			blocks = append(blocks, text)
		}
	}
	return blocks
}

func TestPythonClientOfDocument(t *testing.T) {
	blocks := blocksOf(t, "python")
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of Python", len(blocks))
	}
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	at, other := listen(t, c), listen(t, newTestCoordinator(t, testOptions(1, newTaken())))
	script := blocks[0] + `
import http.client, json, sys
at = json.load(sys.stdin)
h = http.client.HTTPConnection("leat")
h.sock = connect(at["address"], at["pin"])
h.request("POST", "/v1/leave", '{"worker":0}', {"Authorization": "Bearer " + at["token"]})
status = h.getresponse().status
try:
    connect(at["address"], at["other"])
except ssl.SSLError as e:
    error = str(e)
print(json.dumps({"status": status, "error": error}))
`
	var got struct {
		Status int
		Error  string
	}
	pytest.Run(t, []string{"cryptography"}, script,
		map[string]string{"address": at.Addresses[0], "pin": at.Pin, "token": at.Token, "other": other.Pin}, &got)
	if got.Status != 404 || !strings.Contains(got.Error, "not the run") {
		t.Errorf("%+v", got)
	}
}

func TestCurlSessionOfDocument(t *testing.T) {
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	if protocol.ThisArch() != "linux/amd64" {
		t.Skipf("the session is of linux/amd64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	var session string
	for _, b := range blocksOf(t, "") {
		if strings.HasPrefix(b, "$ ") {
			session = b
		}
	}
	definitions := blocksOf(t, "sh")
	if session == "" || len(definitions) != 1 {
		t.Fatalf("%d blocks of sh; the session: %q", len(definitions), session)
	}
	k := newTaken()
	o := testOptions(3, k)
	o.Build, o.Times = "go:1", protocol.Times{Rejoin: patience} // each message has its own connection
	o.Job = json.RawMessage(`{"expression":"a+b"}`)
	o.Note = func() json.RawMessage { return json.RawMessage(`{"coding":2}`) }
	c := newTestCoordinator(t, o)
	dir := t.TempDir()
	secret, err := listen(t, c).MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/secret", secret, 0o600); err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	script.WriteString(definitions[0] + "\n")
	want := map[string]string{}
	var order []string
	for _, line := range strings.Split(strings.TrimSpace(session), "\n") {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			order = append(order, command)
			script.WriteString("printf '\\n\\001'\n" + command + "\n")
			continue
		}
		want[order[len(order)-1]] += line + "\n"
	}
	script.WriteString("wait\n")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir, cmd.WaitDelay = dir, time.Second // its heartbeats may continue
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	parts := strings.Split(string(out), "\n\x01")[1:]
	if len(parts) != len(order) {
		t.Fatalf("%q", out)
	}
	for i, command := range order {
		if got := strings.TrimSpace(parts[i]); got != strings.TrimSpace(want[command]) {
			t.Errorf("%s\nsays %s\nnot  %s", command, got, want[command])
		}
	}
	if k.mu.Lock(); len(k.bodies) != 3 {
		t.Errorf("%d blocks were accepted", len(k.bodies))
	}
	k.mu.Unlock()
}
