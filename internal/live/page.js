
"use strict";

// All text comes in by textContent; the page's policy forbids anything that would parse it.
const at = (id) => document.getElementById(id);
const make = (tag, text, name) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (name) e.className = name;
  return e;
};
const say = (e, text) => { if (e.textContent !== text) e.textContent = text; };
const show = (id, yes) => { at(id).hidden = !yes; return yes; };

// Numbers for people.

const second = 1e9;
const digits = (v) => v >= 99.95 ? v.toFixed(0) : v >= 9.995 ? v.toFixed(1) : v.toFixed(2);
const two = (n) => String(n).padStart(2, "0");
const grouped = (n) => Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");

function duration(ns) {
  if (ns <= 0) return "0 s";
  if (ns < 999500) return digits(ns / 1e3) + " µs";
  if (ns < 999.5e6) return digits(ns / 1e6) + " ms";
  if (ns < 99.5 * second) return digits(ns / second) + " s";
  const s = Math.round(ns / second), h = Math.floor(s / 3600), m = Math.floor(s / 60) % 60;
  return h > 0 ? h + " h " + two(m) + " min" : m + " min " + two(s % 60) + " s";
}

// clock is a time that is shown each second: it has no fractions.
const clock = (ns) => ns < 99.5 * second ? Math.round(ns / second) + " s" : duration(ns);

function bytes(n) {
  let unit = 0;
  for (; n >= 1023.5 && unit < 5; unit++) n /= 1024;
  return (unit ? digits(n) : String(n)) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit];
}

const rateText = (pixels) => pixels > 0 ? digits(pixels / 1e6) + " Mpixel/s" : "–";
const pixelText = (n) => n < 1e6 ? grouped(n) : n < 1e9 ? digits(n / 1e6) + " million" : digits(n / 1e9) + " billion";
const blockText = (list) => !list || !list.length ? "–" : list.slice(0, 4).join(", ") + (list.length > 4 ? " and " + (list.length - 4) + " more" : "");

// Tables. A row and a cell are made once and changed after, so that a selection and a scrolled table stay.

function table(id, rows, classes) {
  const body = at(id);
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    let row = body.rows[i];
    if (!row) {
      row = body.insertRow();
      cells.forEach((_, c) => {
        const cell = make(c ? "td" : "th", "", classes[c]);
        if (!c) cell.scope = "row";
        row.append(cell);
      });
    }
    cells.forEach((text, c) => say(row.cells[c], text));
    if (row.cells[0].title !== cells[0]) row.cells[0].title = cells[0]; // a long one is cut short
  });
  return body;
}

// The head of the page.

const phaseText = { "staging": "staging inputs", "rasterizing": "rasterizing vectors", "blocks": "computing blocks", "laying out": "laying out", "uploading": "uploading", "done": "done", "failed": "failed" };
let said = { phase: "", text: "", at: 0 };

function drawHead(s) {
  const total = s.blocks.total, done = s.blocks.done;
  const percent = total ? Math.floor(100 * done / total) : s.phase === "done" ? 100 : 0;
  const bad = s.phase === "failed";
  const title = s.title || "leat";
  document.title = (s.phase === "done" || bad ? s.phase : percent + " %") + " · " + title;
  say(at("title"), title);
  const phase = phaseText[s.phase] || s.phase;
  if (show("phase", phase)) say(at("phase"), phase);
  at("phase").classList.toggle("bad", bad);
  const about = [];
  if (s.started && !s.started.startsWith("0001")) about.push("started " + new Date(s.started).toLocaleString("sv"));
  if (s.version) about.push("leat " + s.version);
  say(at("about"), about.join(" · "));
  if (show("command", s.command) && at("command").textContent !== s.command) {
    at("command").replaceChildren(...s.command.split(/( +)/).map((part) => part.trim() ? make("span", part) : part));
  }
  if (show("error", s.error)) say(at("error"), s.error + (s.hint ? "\nhint: " + s.hint : ""));

  at("bar").style.width = (total ? 100 * done / total : percent) + "%";
  at("progress").setAttribute("aria-valuenow", percent);
  at("progress").classList.toggle("bad", bad);
  say(at("percent"), percent + " %");
  say(at("count"), grouped(done) + " of " + grouped(total) + " blocks");
  const going = s.phase !== "done" && !bad;
  say(at("left"), going && s.left_ns > 0 ? "about " + clock(s.left_ns) + " left" : "");

  const tiles = [["elapsed", clock(s.elapsed_ns)]];
  if (going) tiles.push(["throughput now", rateText(s.pixels_per_s)]);
  tiles.push(["mean throughput", rateText(s.mean_pixels_per_s)], ["pixels done", pixelText(s.pixels)]);
  if (s.memory_bytes > 0) tiles.push(["memory", bytes(s.memory_bytes) + (s.memory_limit_bytes > 0 ? " of " + bytes(s.memory_limit_bytes) : "")]);
  const box = at("tiles");
  while (box.children.length > tiles.length) box.lastChild.remove();
  tiles.forEach(([label, value], i) => {
    if (!box.children[i]) {
      const tile = make("div", undefined, "tile");
      tile.append(make("b"), make("span"));
      box.append(tile);
    }
    say(box.children[i].firstChild, value);
    say(box.children[i].lastChild, label);
  });

  // The sentence is read out by screen readers whenever it changes, so it does so seldom.
  const now = Date.now();
  if (s.last || s.phase !== said.phase || !said.text || now - said.at > 10000) {
    said = { phase: s.phase, text: s.bottleneck || "", at: now };
    if (show("sentence", said.text)) say(at("sentence"), said.text);
  }
}

// Throughput over time, in Mpixel/s, or blocks where pixels are not counted.

const columns = 60;

function rates(history) {
  const which = history.some((p) => p[1] > 0) ? 1 : 2;
  const scale = which === 1 ? 1e6 : 1;
  const from = history[0][0], to = history[history.length - 1][0];
  const n = Math.min(columns, history.length - 1);
  let next = 1;
  const count = (t) => { // it grows evenly between two points
    while (next < history.length - 1 && history[next][0] < t) next++;
    const a = history[next - 1], b = history[next];
    return a[which] + (b[which] - a[which]) * Math.min(1, Math.max(0, (t - a[0]) / Math.max(1, b[0] - a[0])));
  };
  const values = [];
  let before = count(from);
  for (let i = 1; i <= n; i++) {
    const now = count(from + (to - from) * i / n);
    values.push(Math.max(0, now - before) / scale / Math.max(1e-3, (to - from) / n / second));
    before = now;
  }
  return { values, from, to, unit: which === 1 ? "Mpixel/s" : "blocks/s" };
}

function drawRate(history) {
  if (!show("throughput", history && history.length > 2 && history[history.length - 1][2] > 0)) return;
  const r = rates(history), top = Math.max(...r.values);
  const x = (i) => (1000 * i / r.values.length).toFixed(1);
  const path = "M0 120" + r.values.map((v, i) => { const y = (120 - (top ? 114 * v / top : 0)).toFixed(1); return "L" + x(i) + " " + y + "L" + x(i + 1) + " " + y; }).join("") + "L1000 120Z";
  at("rate").firstElementChild.setAttribute("d", path);
  say(at("top"), "at most " + digits(top) + " " + r.unit);
  at("rate").setAttribute("aria-label", "throughput over " + duration(r.to - r.from) + ", at most " + digits(top) + " " + r.unit);
  const times = at("times");
  for (let i = 0; i < 5; i++) {
    if (!times.children[i]) times.append(make("span"));
    say(times.children[i], clock(r.from + (r.to - r.from) * i / 4));
  }
}

// The grid of blocks.

const states = [["d", "done", "--b-done"], ["part", "partly done", "--b-part"], ["h", "with a worker", "--b-held"], ["c", "with two workers", "--b-copied"],
  ["r", "read ahead", "--b-read"], [".", "waiting", "--b-wait"], ["l", "lost", "--b-lost"], ["f", "failed", "--b-failed"]];
const stateOf = new Map(states.map((s) => [s[0], s]));
const letterState = (c) => stateOf.get(c >= "0" && c <= "9" ? "part" : c);
let drawn = null; // the grid as it lies on the canvas

function drawGrid(g) {
  if (!show("blocks", g && g.cells)) return;
  const canvas = at("cells"), n = g.cells.length;
  const width = Math.floor(at("grid").clientWidth), most = 420;
  // As they lie in the raster where that leaves cells that can be seen, else in reading order.
  let size = Math.min(24, Math.floor(width / g.columns), Math.floor(most / g.rows)), across = g.columns, lies = true;
  if (size < 4) {
    size = Math.max(4, Math.min(24, Math.floor(Math.sqrt(width * most / n))));
    across = Math.max(1, Math.floor(width / size));
    lies = false;
  }
  const down = Math.ceil(n / across), scale = window.devicePixelRatio || 1;
  const w = Math.min(n, across) * size, h = down * size;
  if (canvas.width !== Math.round(w * scale) || canvas.height !== Math.round(h * scale)) {
    canvas.width = Math.round(w * scale);
    canvas.height = Math.round(h * scale);
    canvas.style.width = w + "px";
    canvas.style.height = h + "px";
  }
  const style = getComputedStyle(document.documentElement), colors = new Map(states.map((s) => [s[0], style.getPropertyValue(s[2]).trim()]));
  const c = canvas.getContext("2d"), gap = size > 7 ? 1 : size > 4 ? .5 : 0, counts = new Map();
  c.setTransform(scale, 0, 0, scale, 0, 0);
  c.clearRect(0, 0, w, h);
  for (let i = 0; i < n; i++) {
    const s = letterState(g.cells[i]);
    if (!s) continue;
    counts.set(s[0], (counts.get(s[0]) || 0) + 1);
    c.fillStyle = colors.get(s[0]);
    c.fillRect(i % across * size, Math.floor(i / across) * size, size - gap, size - gap);
  }
  at("key").classList.toggle("beside", width > w + 220);
  const key = at("key"), parts = states.filter((s) => counts.has(s[0]));
  while (key.children.length > parts.length) key.lastChild.remove();
  parts.forEach((s, i) => {
    if (!key.children[i]) {
      const e = make("span");
      e.append(make("span", undefined, "dot"), make("span"));
      key.append(e);
    }
    key.children[i].firstChild.style.background = "var(" + s[2] + ")";
    say(key.children[i].lastChild, s[1] + " " + grouped(counts.get(s[0])));
  });
  canvas.setAttribute("aria-label", (g.side > 1 ? "squares of blocks: " : "blocks: ") + parts.map((s) => counts.get(s[0]) + " " + s[1]).join(", "));
  if (show("side", g.side > 1 || !lies)) {
    say(at("side"), (g.side > 1 ? "Each square is " + g.side + " × " + g.side + " blocks; what is counted are squares. " : "") + (lies ? "" : "In reading order, not as they lie in the raster."));
  }
  drawn = { g, size, across };
}

at("cells").addEventListener("mousemove", (e) => {
  if (!drawn) return;
  const i = Math.floor(e.offsetY / drawn.size) * drawn.across + Math.floor(e.offsetX / drawn.size);
  const { g } = drawn, s = i < g.cells.length && letterState(g.cells[i]);
  if (!s) { e.target.title = ""; return; }
  const row = Math.floor(i / g.columns), column = i % g.columns;
  e.target.title = (g.side > 1 ? "blocks from row " + row * g.side + ", column " + column * g.side : "block " + i + " (row " + row + ", column " + column + ")") + ": " + s[1];
});

// Queues, stages, workers, outputs, messages.

function drawQueues(queues) {
  if (!show("queues", queues.length)) return;
  const list = at("depths");
  while (list.children.length > 3 * queues.length) list.lastChild.remove();
  queues.forEach((q, i) => {
    if (!list.children[3 * i]) {
      const bar = make("dd", undefined, "level");
      bar.append(make("div"));
      list.append(make("dt"), bar, make("dd"));
    }
    say(list.children[3 * i], q.name);
    const bar = list.children[3 * i + 1];
    bar.style.visibility = q.limit ? "" : "hidden"; // nothing to compare with
    bar.firstChild.style.width = q.limit ? Math.min(100, 100 * q.depth / q.limit) + "%" : 0;
    say(list.children[3 * i + 2], grouped(q.depth) + (q.limit ? " of " + grouped(q.limit) : ""));
  });
}

const trouble = (w) => w.state === "lost" || w.state === "failed";

function drawWorkers(workers, blocks, jobs) {
  if (!show("workers", workers.length)) return;
  const counts = new Map();
  for (const w of workers) counts.set(w.state, (counts.get(w.state) || 0) + 1);
  const events = [[blocks.lost, "lost with a worker"], [blocks.reissued, "assigned again"], [blocks.copies, "assigned to a second worker"]].filter((e) => e[0]);
  say(at("workers-count"), grouped(workers.length) + (workers.length === 1 ? " worker: " : " workers: ") + [...counts].map(([s, n]) => n + " " + (s === "starting" ? "pending" : s)).join(", ") + "." +
    (events.length ? " Blocks: " + events.map(([n, what]) => grouped(n) + " " + what).join(", ") + "." : ""));
  if (show("jobs", jobs.length)) say(at("jobs"), "Started as " + jobs.join(", ") + ".");
  const sorted = workers.filter(trouble).concat(workers.filter((w) => !trouble(w))); // what needs a look stands first
  const body = table("worker-rows", sorted.map((w) => [w.name, w.state === "starting" ? "pending" : w.state, grouped(w.done), blockText(w.held), w.quiet_ns > 0 ? duration(w.quiet_ns) + " ago" : "–",
    w.kind, w.host || "–", w.pid ? String(w.pid) : "–", w.cores ? String(w.cores) : "–", w.slots ? String(w.slots) : "–"]), ["", "left", "", "", "", "left minor", "left minor", "minor", "minor", "minor"]);
  sorted.forEach((w, i) => {
    body.rows[i].cells[1].className = "left" + (trouble(w) ? " bad" : w.state === "left" || w.state === "gone" || w.state === "starting" ? " soft" : "");
  });
}

const items = new Map(); // messages on the page

function drawMessages(messages) {
  if (!show("messages", messages.length)) return;
  const errors = messages.filter((m) => !m.warning).length, warnings = messages.length - errors;
  const n = (count, word) => count + " " + word + (count === 1 ? "" : "s");
  say(at("messages-count"), [errors && n(errors, "error"), warnings && n(warnings, "warning")].filter(Boolean).join(", ") + ", the latest first");
  const list = at("message-list"), seen = new Set();
  messages.forEach((m, i) => {
    let key = m.time + (m.warning ? "w" : "e") + m.text;
    while (seen.has(key)) key += "+";
    seen.add(key);
    if (items.has(key)) return;
    const item = make("li"), when = make("time", new Date(m.time).toLocaleTimeString("sv"));
    when.dateTime = m.time;
    item.append(when, m.warning ? make("b", "warning", "warning") : make("b", "error"));
    const end = m.text.indexOf("\n");
    item.append(make("span", end < 0 ? m.text : m.text.slice(0, end)));
    if (end >= 0) { // a stack or a traceback
      const more = make("details");
      more.append(make("summary", "more"), make("pre", m.text.slice(end + 1)));
      item.append(more);
    }
    items.set(key, item);
    list.prepend(item);
  });
  for (const [key, item] of items) {
    if (!seen.has(key)) { item.remove(); items.delete(key); }
  }
}

function draw(s) {
  drawHead(s);
  drawRate(s.history);
  drawGrid(s.grid);
  drawQueues(s.queues || []);
  const stages = s.timings && s.timings.stages || [];
  if (show("stages", stages.length)) {
    table("stage-rows", stages.map((t) => [t.stage, duration(t.total_ns), grouped(t.n), duration(t.lower_quartile_ns), duration(t.median_ns), duration(t.upper_quartile_ns)]), ["", "", "", "minor", "", "minor"]);
  }
  drawWorkers(s.workers || [], s.blocks, s.jobs || []);
  const outputs = s.outputs || [];
  if (show("outputs", outputs.length)) table("output-rows", outputs.map((o) => [o.name, bytes(o.bytes), o.path]), ["", "", "text"]);
  drawMessages(s.messages || []);
}

// The events. A hidden page keeps the last one, and draws it when it is seen again.

let latest = null, wait = 1000, ended = false;

function redraw() {
  if (latest && (!document.hidden || ended)) draw(latest);
}

function notice(text, good) {
  say(at("notice"), text);
  at("notice").classList.toggle("good", Boolean(good));
  show("notice", text);
}

function listen() {
  const source = new EventSource("/events");
  source.onmessage = (e) => {
    const s = JSON.parse(e.data);
    latest = Object.assign({ title: "", phase: "", elapsed_ns: 0, pixels: 0, left_ns: 0, pixels_per_s: 0, mean_pixels_per_s: 0 }, s, { blocks: s.blocks || { total: 0, done: 0 } });
    wait = 1000;
    if (latest.last) {
      ended = true;
      source.close();
      const how = latest.phase === "done" ? ": it is done." : latest.phase === "failed" ? ": it failed." : ".";
      notice("The run has ended" + how + " These are its last numbers.", latest.phase === "done");
    } else {
      notice("");
    }
    redraw();
  };
  source.onerror = () => {
    if (ended) return;
    source.close();
    notice("The run has ended, or it can't be reached. " + (latest ? "These are the last numbers that came." : ""));
    setTimeout(listen, wait);
    wait = Math.min(30000, 2 * wait);
  };
}

document.addEventListener("visibilitychange", redraw);
window.addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
listen();
