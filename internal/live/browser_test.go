package live

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leat/internal/browsertest"
)

var pictures = flag.String("pictures", "", "write pictures of the page to this `directory`")

func TestBrowserShowsRunningRun(t *testing.T) {
	b := browsertest.Start(t)
	run := &fakeRun{workers: 7, blocks: 2000, step: 30, columns: 50, last: 10}
	p := New(Options{Title: hostile, Status: run.status})
	p.clientTimeout = time.Hour // no notice that it can't be reached
	w := b.Open(serve(t, p), 1100, 900, false)
	shows := func(looks int) {
		w.Until(fmt.Sprintf(`document.getElementById("count")?.textContent.replace(/\s/g, "") === "%dof2000blocks"`,
			looks*run.step))
	}
	shows(10)
	// Then it stands still, so that all numbers are of one moment, and large ones are among them.
	const s = 41
	run.goTo(s)
	shows(s)
	done := s * run.step
	texts := func(selector string) string {
		return fmt.Sprint(w.Eval(fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => e.textContent.replace(/\s+/g, " ")).join("|")`, selector)))
	}
	for selector, want := range map[string]string{
		"#title":     hostile,
		"#phase":     "computing blocks",
		"#about":     "started 2026-03-01 10:20:30 · leat v0.5.0",
		"#command":   run.status().Command,
		"#percent":   fmt.Sprintf("%d %%", done*100/2000),
		"#left":      "about 2 min 05 s left",
		"#sentence":  run.status().Bottleneck,
		"#depths dt": "blocks read ahead|results to spool|prefetches",
		"#depths dd:last-child, #depths dd:nth-of-type(2)": fmt.Sprintf("%d of 8|40", 2+s%5),
		"#stage-rows tr:first-child > *": fmt.Sprintf("reading|3.00 s|%s|2.00 ms|3.00 ms|4.00 ms",
			grouped(done)),
		"#stage-rows tr:nth-child(2) > *": fmt.Sprintf("computing|8.00 s|%s|12.0 ms|1.23 ms|24.0 ms",
			grouped(done)),
		"#workers-count":                   "7 workers: 5 joined, 1 lost, 1 pending. Blocks: 2 lost with a worker, 2 assigned again, 1 assigned to a second worker.",
		"#worker-rows tr:first-child > *":  fmt.Sprintf("subprocess-2|lost|%d|–|11.0 s ago|subprocess|node1.cluster.example|4712|2|2", done/7),
		"#worker-rows tr:nth-child(2) > *": fmt.Sprintf("subprocess-1|joined|%d|%d, %d|100 ms ago|subprocess|node1.cluster.example|4711|2|2", done/7, done, done+1),
		"#worker-rows tr:nth-child(4) > *": fmt.Sprintf("%s|joined|%d|1, 2, 3, 4 and 3 more|400 ms ago|subprocess|node1.cluster.example|4714|2|2", hostile, done/7),
		"#output-rows tr:first-child > *": "ndvi|" + mebibytes(done*300_000) + "|/data/" + hostile +
			".tif",
		"#jobs":                             "Started as job 17, jobs 18 and 19.",
		"#tiles > :last-child":              "1.50 GiB of 4.00 GiBmemory",
		"footer a":                          "/status.json|/metrics",
		"#messages-count":                   "1 error, 1 warning, the latest first",
		"#message-list li > *:not(details)": "10:22:00|error|worker subprocess-2 was lost: process 4712: signal: killed; its blocks 17, 18 are given out again|10:21:00|warning|input nir has no nodata value; all of its pixels count as valid",
		"#message-list pre": "Traceback (most recent call last): File \"" + hostile +
			"\", line 3, in f ZeroDivisionError: division by zero",
		"#key > span": fmt.Sprintf("done %s|with a worker 7|with two workers 1|read ahead 6|waiting %s|lost 1",
			grouped(done), grouped(2000-done-15)),
		".tile":   tiles(w, s, done),
		"#notice": "",
	} {
		if got := texts(selector); got != want {
			t.Errorf("%s: %q, expected %q", selector, got, want)
		}
	}

	// The picture of the blocks is that of the status: a done one is green, one that waits is not.
	const colors = `(() => {
		const c = document.getElementById("cells"), all = c.getContext("2d").getImageData(0, 0, c.width, c.height), s = drawn.size;
		return [0, 1999].map((i) => { const at = 4 * ((Math.floor(i / drawn.across) * s + 2) * c.width + i % drawn.across * s + 2); return [...all.data.slice(at, at + 4)].join() }).join(" ");
	})()`
	if got := w.Eval(colors); got != "47,158,104,255 223,229,226,255" {
		t.Errorf("colors %v", got)
	}
	if path := fmt.Sprint(w.Eval(`document.querySelector("#rate path").getAttribute("d")`)); strings.Count(path,
		"L") < 5 || strings.Contains(path, "NaN") {
		t.Errorf("throughput %s", path)
	}
	// For those who hear the page.
	for expression, want := range map[string]any{
		`document.getElementById("progress").getAttribute("aria-valuenow")`:                                                            fmt.Sprint(done * 100 / 2000),
		`document.getElementById("sentence").getAttribute("aria-live")`:                                                                "polite",
		`[...document.querySelectorAll("table")].every((t) => [...t.tHead.rows[0].cells].every((c) => c.matches("th[scope=col]")))`:    true,
		`[...document.querySelectorAll("tbody tr")].every((r) => r.cells[0].matches("th[scope=row]"))`:                                 true,
		`[...document.querySelectorAll("svg, canvas")].every((e) => e.getAttribute("role") === "img" && e.getAttribute("aria-label"))`: true,
		`document.cookie`:                     "", // scripts can't read it
		`location.search`:                     "",
		`document.title.includes("<script>")`: true,
		`typeof window.pwned`:                 "undefined",
		`document.querySelectorAll("main img, main script").length`: 0.,
	} {
		if got := w.Eval(expression); got != want {
			t.Errorf("%s: %v, expected %v", expression, got, want)
		}
	}
	if c := w.Complaints(); len(c) > 0 {
		t.Errorf("%q", c)
	}

	run.set(Done)
	shut(t, p)
	w.Until(`document.getElementById("notice").textContent === "The run has ended: it is done. These are its last numbers."`)
	for selector, want := range map[string]string{"#phase": "done", "#percent": "100 %", "#left": ""} {
		if got := texts(selector); got != want {
			t.Errorf("%s at the end: %q, expected %q", selector, got, want)
		}
	}
	if c := w.Complaints(); len(c) > 0 {
		t.Errorf("%q", c)
	}
}

func grouped(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("%d %03d", n/1000, n%1000) // any white space counts as a blank
	}
	return fmt.Sprint(n)
}

func mebibytes(n int) string {
	m := float64(n) / (1 << 20)
	switch {
	case m >= 99.95:
		return fmt.Sprintf("%.0f MiB", m)
	case m >= 9.995:
		return fmt.Sprintf("%.1f MiB", m)
	}
	return fmt.Sprintf("%.2f MiB", m)
}

// tiles are the large numbers after some looks.
func tiles(w *browsertest.Tab, looks, done int) string {
	elapsed := w.Eval(fmt.Sprintf(`clock(%d)`, time.Duration(looks)*700*time.Millisecond))
	pixels := w.Eval(fmt.Sprintf(`pixelText(%d)`, done*512*512))
	return fmt.Sprintf("%velapsed|%.2f Mpixel/sthroughput now|3.40 Mpixel/smean throughput|%vpixels done|1.50 GiB of 4.00 GiBmemory", elapsed,
		3.5+float64(looks%7)*.2, pixels)
}

func TestBrowserNumbersEqualReport(t *testing.T) {
	b := browsertest.Start(t)
	run := &fakeRun{workers: 1, blocks: 20, step: 1}
	w := b.Open(serve(t, New(Options{Status: run.status})), 800, 600, false)
	w.Until(`typeof digits === "function"`)
	for expression, want := range map[string]any{
		`duration(0)`: "0 s", `duration(999)`: "1.00 µs", `duration(12345678)`: "12.3 ms",
		`duration(999499999)`: "999 ms", `duration(4.56e9)`: "4.56 s", `duration(200e9)`: "3 min 20 s",
		`duration(7260e9)`: "2 h 01 min", `duration(99.5e9)`: "1 min 40 s",
		`clock(4.56e9)`: "5 s", `bytes(0)`: "0 B", `bytes(1023)`: "1023 B", `bytes(1024)`: "1.00 KiB",
		`bytes(5e12)`: "4.55 TiB", `grouped(1234567)`: "1\u202f234\u202f567", `grouped(999)`: "999",
		`pixelText(999999)`: "999\u202f999", `pixelText(1e6)`: "1.00 million", `pixelText(1.28e11)`: "128 billion",
		`blockText(null)`: "–", `blockText([3])`: "3", `rateText(0)`: "–", `rateText(123456789)`: "123 Mpixel/s",
		`rates([[0, 0, 0], [1e9, 2e6, 1], [2e9, 8e6, 2]]).values.join()`:           "2,6",
		`rates([[0, 0, 0], [2e9, 0, 4]]).unit`:                                     "blocks/s",
		`rates([[0, 0, 0], [0, 0, 0], [0, 5e6, 0]]).values.every(Number.isFinite)`: true,
	} {
		if got := w.Eval(expression); got != want {
			t.Errorf("%s: %v, expected %v", expression, got, want)
		}
	}
}

func TestBrowserShowsLostRun(t *testing.T) {
	b := browsertest.Start(t)
	run := &fakeRun{workers: 3, blocks: 2000, step: 3, columns: 50}
	p := New(Options{Title: "ndvi", Status: run.status})
	w := b.Open(serve(t, p), 1100, 900, false)
	w.Until(`document.getElementById("percent")?.textContent > ""`)
	p.server.Close() // as when its process is killed
	w.Until(`document.getElementById("notice").textContent.startsWith("The run has ended, or it can't be reached.")`)
	if got := w.Eval(`document.getElementById("workers-count").textContent`); !strings.HasPrefix(got.(string),
		"3 workers: 1 joined, 1 lost, 1 pending.") {
		t.Errorf("the last numbers are gone: %v", got)
	}
}

func TestBrowserReconnects(t *testing.T) {
	b := browsertest.Start(t)
	run := &fakeRun{workers: 3, blocks: 2000, step: 3, columns: 50}
	p := New(Options{Title: "ndvi", Status: run.status})
	address := serve(t, p)
	base, _ := parts(t, address)
	// A tunnel to the run, that breaks and is made again. It keeps its port, which another process
	// might take.
	var broken atomic.Bool
	tunnel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !broken.Load() {
			p.server.Handler.ServeHTTP(w, r)
		}
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	defer tunnel.Close()
	defer tunnel.CloseClientConnections()
	w := b.Open(strings.Replace(address, base, tunnel.URL, 1), 1100, 900, false)
	w.Until(`document.getElementById("percent")?.textContent > ""`)
	broken.Store(true)
	tunnel.CloseClientConnections()
	w.Until(`!document.getElementById("notice").hidden`)
	broken.Store(false)
	w.Until(`document.getElementById("notice").hidden && !document.getElementById("workers").hidden`)
}

func TestCrossSiteLinkOpensPage(t *testing.T) {
	b := browsertest.Start(t)
	run := &fakeRun{workers: 3, blocks: 2000, step: 3, columns: 50}
	address := serve(t, New(Options{Title: "ndvi", Status: run.status}))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="%s">a terminal in a browser</a>`, address)
	}))
	defer site.Close()
	w := b.Open(strings.Replace(site.URL, "127.0.0.1", "localhost", 1), 800, 600, false)
	w.Until(`document.querySelector("a") !== null`)
	w.Eval(`document.querySelector("a").click()`)
	w.Until(`document.getElementById("percent")?.textContent > ""`)
}

func TestBrowserRunsOnlyPageScript(t *testing.T) {
	b := browsertest.Start(t)
	run := &fakeRun{workers: 3, blocks: 2000, step: 3, columns: 50}
	w := b.Open(serve(t, New(Options{Title: "ndvi", Status: run.status})), 800, 600, false)
	w.Until(`document.getElementById("percent")?.textContent > ""`)
	if _, err := w.Try(`document.body.innerHTML = "<b>x</b>"`); err == nil || !strings.Contains(err.Error(),
		"TrustedHTML") {
		t.Errorf("text is taken for HTML: %v", err)
	}
	if _, err := w.Try(`(() => { const i = new Image(); return new Promise((done, failed) => { i.onload = done; i.onerror = () => failed(new Error("refused")); i.src = "/picture.png" }) })()`); err == nil {
		t.Error("pictures are loaded")
	}
	if _, err := w.Try(`fetch("http://localhost:1/")`); err == nil || !strings.Contains(strings.Join(w.Complaints(),
		" "), "connect-src") {
		t.Errorf("other servers are asked: %v", err)
	}
}

func TestPageFitsWindow(t *testing.T) {
	b := browsertest.Start(t)
	for i, c := range []struct {
		name          string
		run           *fakeRun
		phase         Phase
		width, height int
		dark          bool
	}{
		{"no-workers-light-wide", &fakeRun{blocks: 121, step: 2, columns: 11}, "", 1200, 900, false},
		{"no-workers-dark-narrow", &fakeRun{blocks: 121, step: 2, columns: 11}, "", 360, 740, true},
		{"3-workers-light-wide", &fakeRun{workers: 3, blocks: 4000, step: 40, columns: 80}, "", 1200, 900, false},
		{"3-workers-dark-wide", &fakeRun{workers: 3, blocks: 4000, step: 40, columns: 80}, "", 1200, 900, true},
		{"3-workers-light-narrow", &fakeRun{workers: 3, blocks: 4000, step: 40, columns: 1}, "", 360, 740, false},
		{"300-workers-dark-wide", &fakeRun{workers: 300, blocks: 1_000_000, step: 7000, columns: 1000}, "", 1200, 900,
			true},
		{"300-workers-light-narrow", &fakeRun{workers: 300, blocks: 1_000_000, step: 7000, columns: 1000}, "", 360, 740,
			false},
		{"failed-light-wide", &fakeRun{workers: 3, blocks: 100, step: 1, columns: 10}, Failed, 1200, 900, false},
		{"failed-dark-narrow", &fakeRun{workers: 3, blocks: 100, step: 1, columns: 10}, Failed, 360, 740, true},
		{"done-dark-wide", &fakeRun{workers: 3, blocks: 100, step: 1, columns: 10}, Done, 1200, 900, true},
	} {
		if i%3 != 0 && os.Getenv("LEAT_TEST_DIST") == "" { // make test-all sets it
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			b.T = t
			c.run.set(c.phase)
			p := New(Options{Title: "ndvi, mask", Status: c.run.status})
			w := b.Open(serve(t, p), c.width, c.height, c.dark)
			w.Until(`document.getElementById("throughput")?.hidden === false && latest.history.length > 15`)
			if c.phase != "" {
				shut(t, p)
				w.Until(`!document.getElementById("notice").hidden`)
			}
			w.CheckFits()
			w.CheckContrast()
			if c := w.Complaints(); len(c) > 0 {
				t.Errorf("%q", c)
			}
			if *pictures != "" {
				height := w.Eval(`document.documentElement.scrollHeight`).(float64)
				w.Resize(c.width, int(height))
				w.Screenshot(filepath.Join(*pictures, c.name+".png"))
			}
			w.Call("Page.close", nil, nil)
		})
		b.T = t
	}
}
