package live

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// chromium is a browser that is driven through a pair of pipes (--remote-debugging-pipe): messages
// of JSON that end in a zero byte.
type chromium struct {
	t    *testing.T
	to   *os.File
	done chan struct{} // closed when it sends no more

	mu      sync.Mutex
	next    int
	answers map[int]chan reply
	events  map[string][]event // by session
}

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

type event struct {
	Method string
	Params json.RawMessage
}

// browser starts a browser for a test, which is skipped where there is none.
func browser(t *testing.T) *chromium {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: needs a browser")
	}
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no chromium in PATH: the page is not looked at in a browser")
	}
	home, err := os.MkdirTemp("", "leat-live-")
	if err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-extensions", "--disable-background-networking",
		"--disable-component-update", "--disable-breakpad", "--no-proxy-server",
		"--user-data-dir="+filepath.Join(home, "profile"), "--remote-debugging-pipe", "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home,
		"XDG_RUNTIME_DIR="+home, "TZ=UTC", "LANG=C.UTF-8")
	cmd.ExtraFiles = []*os.File{inR, outW}
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.WaitDelay = time.Second // a child of it may have its output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inR.Close()
	outW.Close()
	b := &chromium{t: t, to: inW, done: make(chan struct{}), answers: map[int]chan reply{},
		events: map[string][]event{}}
	go b.read(outR)
	t.Cleanup(func() {
		b.call("", "Browser.close", nil, nil)
		inW.Close()
		<-b.done
		outR.Close()
		// What of it has not ended by itself.
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		// A child that was just killed may still be making files.
		for range 100 {
			if err = os.RemoveAll(home); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			t.Error(err)
		}
		if t.Failed() && testing.Verbose() {
			t.Log(log.String())
		}
	})
	return b
}

func (b *chromium) read(from io.Reader) {
	defer close(b.done)
	r := bufio.NewReader(from)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID        int
			SessionID string
			event
			reply
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if m.ID != 0 {
			b.answers[m.ID] <- m.reply
			delete(b.answers, m.ID)
		} else {
			b.events[m.SessionID] = append(b.events[m.SessionID], m.event)
		}
		b.mu.Unlock()
	}
}

// call calls a method of a session ("" for that of the browser) and decodes its result.
func (b *chromium) call(session, method string, params, result any) {
	b.t.Helper()
	answer := make(chan reply, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.answers[id] = answer
	b.mu.Unlock()
	m := map[string]any{"id": id, "method": method}
	if session != "" {
		m["sessionId"] = session
	}
	if params != nil {
		m["params"] = params
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Errorf("%s: %v", method, err)
		return
	}
	select {
	case a := <-answer:
		if a.Error != nil {
			b.t.Fatalf("%s: %s", method, a.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				b.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-b.done:
		if method != "Browser.close" {
			b.t.Fatalf("%s: the browser has ended", method)
		}
	case <-time.After(2 * seconds):
		b.t.Fatalf("%s: no answer", method)
	}
}

// tab is a window of the browser.
type tab struct {
	*chromium
	session string
}

type object = map[string]any

func (b *chromium) open(address string, width, height int, dark bool) *tab {
	b.t.Helper()
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", object{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached)
	w := &tab{b, attached.SessionID}
	for _, domain := range []string{"Runtime", "Log", "Page"} {
		w.call(domain+".enable", nil, nil)
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	w.call("Emulation.setEmulatedMedia",
		object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	w.resize(width, height)
	w.call("Page.navigate", object{"url": address}, nil) // not by the command line, which others can read
	return w
}

func (w *tab) resize(width, height int) {
	w.t.Helper()
	w.call("Emulation.setDeviceMetricsOverride",
		object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

func (w *tab) call(method string, params, result any) {
	w.t.Helper()
	w.chromium.call(w.session, method, params, result)
}

// eval gives the value of an expression in the page.
func (w *tab) eval(expression string) any {
	w.t.Helper()
	v, err := w.try(expression)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *tab) try(expression string) (any, error) {
	w.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	w.call("Runtime.evaluate", object{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if e := r.ExceptionDetails; e != nil {
		return nil, fmt.Errorf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	return r.Result.Value, nil
}

// until waits for an expression to be true.
func (w *tab) until(expression string) {
	w.t.Helper()
	for end := time.Now().Add(seconds); ; time.Sleep(20 * time.Millisecond) {
		// While another page is loaded there is none to ask.
		v, err := w.try(expression)
		if err == nil && v == true {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("never so: %s (%v, %v); the page says:\n%v", expression, v, err,
				w.eval("document.body.innerText"))
		}
	}
}

// complaints are what the page's scripts threw, logged or were refused.
func (w *tab) complaints() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events[w.session] {
		switch e.Method {
		case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
			all = append(all, e.Method+" "+string(e.Params))
		}
	}
	return all
}

// shoot writes a picture of the whole page.
func (w *tab) shoot(path string) {
	w.t.Helper()
	var shot struct{ Data string }
	w.call("Page.captureScreenshot", object{"format": "png", "captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, png, 0o600); err != nil {
		w.t.Fatal(err)
	}
}
