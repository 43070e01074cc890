// Package browsertest drives a headless Chromium in tests of pages.
package browsertest

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

// seconds is how long the browser may take on a slow machine that does much else.
const seconds = 2 * time.Minute

// Browser is a Chromium that is driven through a pair of pipes (--remote-debugging-pipe): messages
// of JSON that end in a zero byte.
type Browser struct {
	T *testing.T // the test that is running; a subtest may set it for a while

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

// Start starts a browser for a test, which is skipped with -short and where there is none.
func Start(t *testing.T) *Browser {
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
	home, err := os.MkdirTemp("", "leat-browser-")
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
	b := &Browser{T: t, to: inW, done: make(chan struct{}), answers: map[int]chan reply{},
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

func (b *Browser) read(from io.Reader) {
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
func (b *Browser) call(session, method string, params, result any) {
	b.T.Helper()
	if err := b.try(session, method, params, result); err != nil {
		b.T.Fatal(err)
	}
}

// try is call, and returns the browser's refusal.
func (b *Browser) try(session, method string, params, result any) error {
	b.T.Helper()
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
		b.T.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.T.Errorf("%s: %v", method, err)
		return nil
	}
	select {
	case a := <-answer:
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(a.Result, result); err != nil {
				b.T.Fatalf("%s: %v", method, err)
			}
		}
	case <-b.done:
		if method != "Browser.close" {
			b.T.Fatalf("%s: the browser has ended", method)
		}
	case <-time.After(2 * seconds):
		b.T.Fatalf("%s: no answer", method)
	}
	return nil
}

// Tab is a tab of the browser, with a page.
type Tab struct {
	*Browser
	session string
}

// Object is one of JSON.
type Object = map[string]any

// Open opens an address in a tab of its own, of a size and in the light or dark colours.
func (b *Browser) Open(address string, width, height int, dark bool) *Tab {
	b.T.Helper()
	var target struct{ TargetID string }
	b.call("", "Target.createTarget", Object{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("", "Target.attachToTarget", Object{"targetId": target.TargetID, "flatten": true}, &attached)
	w := &Tab{b, attached.SessionID}
	for _, domain := range []string{"Runtime", "Log", "Page"} {
		w.Call(domain+".enable", nil, nil)
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	w.Call("Emulation.setEmulatedMedia",
		Object{"features": []Object{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	w.Resize(width, height)
	w.Call("Page.navigate", Object{"url": address}, nil) // not by the command line, which others can read
	return w
}

// Resize changes the size of the page.
func (w *Tab) Resize(width, height int) {
	w.T.Helper()
	w.Call("Emulation.setDeviceMetricsOverride",
		Object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
}

// Call calls a method of the DevTools protocol and decodes its result.
func (w *Tab) Call(method string, params, result any) {
	w.T.Helper()
	w.Browser.call(w.session, method, params, result)
}

// Eval returns the value of an expression in the page.
func (w *Tab) Eval(expression string) any {
	w.T.Helper()
	v, err := w.Try(expression)
	if err != nil {
		w.T.Fatal(err)
	}
	return v
}

// Try is Eval with the error of an expression that throws, or whose page is left meanwhile.
func (w *Tab) Try(expression string) (any, error) {
	w.T.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	params := Object{"expression": expression, "returnByValue": true, "awaitPromise": true}
	if err := w.try(w.session, "Runtime.evaluate", params, &r); err != nil {
		return nil, err
	}
	if e := r.ExceptionDetails; e != nil {
		return nil, fmt.Errorf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	return r.Result.Value, nil
}

// Until waits for an expression to be true.
func (w *Tab) Until(expression string) {
	w.T.Helper()
	for end := time.Now().Add(seconds); ; time.Sleep(20 * time.Millisecond) {
		// While another page is loaded there is none to ask.
		v, err := w.Try(expression)
		if err == nil && v == true {
			return
		}
		if time.Now().After(end) {
			w.T.Fatalf("never so: %s (%v, %v); the page says:\n%v", expression, v, err,
				w.Eval("document.body.innerText"))
		}
	}
}

// Complaints returns what the page's scripts threw, logged or were refused.
func (w *Tab) Complaints() (all []string) {
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

// Screenshot writes a picture of the whole page.
func (w *Tab) Screenshot(path string) {
	w.T.Helper()
	var shot struct{ Data string }
	w.Call("Page.captureScreenshot", Object{"format": "png", "captureBeyondViewport": true}, &shot)
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		w.T.Fatal(err)
	}
	if err := os.WriteFile(path, png, 0o600); err != nil {
		w.T.Fatal(err)
	}
}

// CheckFits checks that nothing of the page is wider than its window; what scrolls by itself is in
// elements of the class wide.
func (w *Tab) CheckFits() {
	w.T.Helper()
	if got := w.Eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); got != 0. {
		w.T.Errorf("the page is %v pixels too wide", got)
	}
	const outside = `[...document.querySelectorAll("main *")].filter((e) => !e.closest(".wide, svg, pre") &&
		e.getBoundingClientRect().width && e.getBoundingClientRect().right > document.documentElement.clientWidth)
		.map((e) => e.outerHTML.slice(0, 80)).join("\n")`
	if got := w.Eval(outside); got != "" {
		w.T.Errorf("out of the window: %v", got)
	}
}

// lowContrast returns the texts of the page whose colour has a contrast to the background below
// 4.5 (WCAG 2.1, 1.4.3).
const lowContrast = `(() => {
	const parse = (s) => { const m = s.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
	const luminance = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, k, i) => {
		const v = c[i] / 255;
		return sum + k * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
	}, 0);
	const background = (e) => {
		const chain = [];
		for (; e; e = e.parentElement) chain.push(parse(getComputedStyle(e).backgroundColor));
		return chain.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
	};
	const bad = [];
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let seen = 0;
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement, text = texts.currentNode.textContent.trim();
		if (!text || e.closest("script, style, svg") || !e.getClientRects().length) continue;
		seen++;
		const back = background(e), front = over(parse(getComputedStyle(e).color), back);
		const [light, dark] = [luminance(front), luminance(back)].sort((a, b) => b - a);
		const contrast = (light + 0.05) / (dark + 0.05);
		if (contrast < 4.5) bad.push(contrast.toFixed(2) + ": " + text.slice(0, 40));
	}
	return seen < 10 ? "only " + seen + " texts" : bad.join("\n");
})()`

// CheckContrast checks that all texts of the page stand out from their background.
func (w *Tab) CheckContrast() {
	w.T.Helper()
	if got := w.Eval(lowContrast); got != "" {
		w.T.Errorf("contrast below 4.5:\n%v", got)
	}
}
