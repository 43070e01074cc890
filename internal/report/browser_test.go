package report

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leat/internal/browsertest"
	"leat/timing"
)

var pictures = flag.String("pictures", "", "write pictures of the page to this `folder`")

// writePage writes a report and returns its address and size.
func writePage(t *testing.T, r *Report) (address string, size int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.html")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return "file://" + path, st.Size()
}

func longReport(t *testing.T) *Report {
	t.Helper()
	r := sampleReport(t)
	r.Command += strings.Repeat(" -i another_input=/a/directory/with/a/long/name/another_input.tif", 20)
	r.Outputs[0].Expression = "red" + strings.Repeat(" + (nir - red) / (nir + red)", 60)
	r.Outputs[0].Path = "/a/directory" + strings.Repeat("/with_a_long_name", 12) + "/ndvi.tif"
	return r
}

// hugeReport is that of a run of 100 000 blocks, whose recorder keeps a part of the intervals.
func hugeReport(t *testing.T) *Report {
	t.Helper()
	r := sampleReport(t)
	rec := timing.New()
	begin := time.Now()
	for block := range 100_000 {
		lane := fmt.Sprintf("worker %d", block%32+1)
		at := begin.Add(time.Duration(block/32) * time.Second)
		for i, stage := range []string{"reading", "computing", "encoding", "spooling"} {
			rec.Record(stage, lane, block, at.Add(time.Duration(i)*200*time.Millisecond), 150*time.Millisecond)
		}
	}
	r.AddTimings(rec)
	r.Summary.Wall = 3125 * time.Second
	return r
}

func TestBrowserShowsReport(t *testing.T) {
	b := browsertest.Start(t)
	for _, page := range []struct {
		name   string
		report *Report
	}{{"short", sampleReport(t)}, {"long", longReport(t)}, {"huge", hugeReport(t)}} {
		address, size := writePage(t, page.report)
		if size > 400_000 {
			t.Errorf("%s: %d bytes", page.name, size)
		}
		for _, window := range []struct {
			name  string
			width int
			dark  bool
		}{{"light", 1100, false}, {"dark", 1100, true}, {"narrow", 400, false}, {"narrow-dark", 400, true}} {
			t.Run(page.name+"-"+window.name, func(t *testing.T) {
				b.T = t
				w := b.Open(address, window.width, 900, window.dark)
				w.Until(`document.readyState === "complete" && document.querySelector("footer") !== null`)
				w.CheckFits()
				w.CheckContrast()
				checkTexts(t, w)
				if c := w.Complaints(); len(c) > 0 {
					t.Errorf("%q", c)
				}
				if *pictures != "" {
					w.Resize(window.width, int(w.Eval(`document.documentElement.scrollHeight`).(float64)))
					w.Screenshot(filepath.Join(*pictures, "report-"+t.Name()[strings.LastIndex(t.Name(), "/")+1:]+".png"))
				}
				w.Call("Page.close", nil, nil)
			})
			b.T = t
		}
	}
	t.Run("zoom", func(t *testing.T) { b.T = t; checkZoom(t, b) })
	b.T = t
	t.Run("fold", func(t *testing.T) { b.T = t; checkFolds(t, b) })
	b.T = t
}

// checkTexts checks that each picture has a text with numbers, except those of a table's cells.
func checkTexts(t *testing.T, w *browsertest.Tab) {
	t.Helper()
	if got := w.Eval(`[...document.querySelectorAll("img, svg")].filter((e) => !e.closest("[aria-hidden]"))
		.filter((e) => !/[0-9]/.test(e.getAttribute("alt") || e.getAttribute("aria-label") || ""))
		.map((e) => e.outerHTML.slice(0, 90)).join("\n")`); got != "" {
		t.Errorf("pictures without a text with numbers:\n%v", got)
	}
	if got := w.Eval(`document.querySelectorAll("img[alt], svg[aria-label]").length`).(float64); got < 8 {
		t.Errorf("only %v pictures have a text", got)
	}
}

// checkZoom zooms into the timeline with the mouse and by the buttons, and back.
func checkZoom(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	address, _ := writePage(t, sampleReport(t))
	w := b.Open(address, 1100, 900, false)
	w.Until(`document.querySelector(".zoom .buttons")?.hidden === false`)
	const boxes = `[...new Set([...document.querySelectorAll(".zoom svg")].map((c) => c.getAttribute("viewBox").split(" ")
		.filter((_, i) => i % 2 === 0).map((v) => Math.round(v)).join()))].join("|")`
	const axis = `[...document.querySelector(".zoom [data-axis]").children].map((e) => e.textContent).join("|")`
	before := w.Eval(axis)
	if got := w.Eval(boxes); got != "0,1000" {
		t.Fatalf("the whole run is %v", got)
	}
	w.Eval(`document.querySelector(".lane svg").scrollIntoView({block: "center"})`)
	lane := w.Eval(`(() => { const r = document.querySelector(".lane svg").getBoundingClientRect(); return [r.left, r.top + r.height / 2, r.width] })()`).([]any)
	left, middle, width := lane[0].(float64), lane[1].(float64), lane[2].(float64)
	for _, e := range []struct {
		kind string
		x    float64
	}{{"mousePressed", 0.25}, {"mouseMoved", 0.4}, {"mouseMoved", 0.5}, {"mouseReleased", 0.5}} {
		w.Call("Input.dispatchMouseEvent", browsertest.Object{"type": e.kind, "x": left + e.x*width, "y": middle,
			"button": "left", "buttons": 1, "clickCount": 1}, nil)
	}
	if got := w.Eval(boxes); got != "250,250" {
		t.Errorf("dragging over the second quarter shows %v", got)
	}
	if got := w.Eval(axis); got == before {
		t.Errorf("the times are still %v", got)
	}
	click := func(name, want string) {
		t.Helper()
		w.Eval(fmt.Sprintf(`document.querySelector("[data-zoom=%s]").click()`, name))
		if got := w.Eval(boxes); got != want {
			t.Errorf("after %q it shows %v, expected %s", name, got, want)
		}
	}
	click("in", "313,125")
	click("right", "375,125")
	click("left", "313,125")
	click("out", "250,250")
	click("all", "0,1000")
	if got := w.Eval(axis); got != before {
		t.Errorf("the times of the whole run are %v, expected %v", got, before)
	}
	w.Call("Page.close", nil, nil)
}

func checkFolds(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	address, _ := writePage(t, longReport(t))
	w := b.Open(address, 1100, 900, false)
	w.Until(`document.querySelectorAll("details").length === 2`)
	for _, want := range []bool{false, true, false} {
		if got := w.Eval(`[...document.querySelectorAll("details")].every((d) =>
			d.open === ` + fmt.Sprint(want) + ` && d.querySelector("pre").checkVisibility() === d.open)`); got != true {
			t.Errorf("the expressions are not open: %t", want)
		}
		w.Eval(`document.querySelectorAll("details > summary").forEach((s) => s.click())`)
	}
	w.Call("Page.close", nil, nil)
}
