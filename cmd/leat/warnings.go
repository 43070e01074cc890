package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"leat/internal/terminal"
)

// peopleHandler writes warnings of libraries as lines for people, without secrets, and the hint of
// their error. copy, if not nil, gets the lines too.
type peopleHandler struct {
	mu    sync.Mutex
	w     io.Writer
	copy  func(time.Time, string)
	show  func(message) // in place of w, if not nil
	attrs []slog.Attr
}

// Enabled is slog.Handler's: warnings and errors are for people.
func (h *peopleHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle is slog.Handler's.
func (h *peopleHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Message == lostMessage {
		return h.write(r.Time, lostText(r), "")
	}
	var text strings.Builder
	text.WriteString(r.Message)
	hint := ""
	add := func(a slog.Attr) bool {
		value := a.Value.String()
		if err, ok := a.Value.Any().(error); ok {
			hint = withLeftHint(hintOf(err), err)
		}
		if a.Key == "error" || a.Key == "err" {
			fmt.Fprintf(&text, ": %v", a.Value)
		} else if noun, _, _ := strings.Cut(value,
			" "); slices.Contains([]string{"job", "jobs", "process", "processes"}, noun) { // it says what it is
			fmt.Fprintf(&text, ", %s", value)
		} else {
			fmt.Fprintf(&text, ", %s %v", a.Key, a.Value)
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	return h.write(r.Time, text.String(), hint)
}

// write writes a warning and its hint.
func (h *peopleHandler) write(at time.Time, text, hint string) error {
	line := terminal.Text(redact(text))
	if h.copy != nil {
		h.copy(at, line)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.show != nil {
		h.show(message{line, hint})
		return nil
	}
	printMessages(h.w, warningPrefix, []message{{line, hint}})
	return nil
}

// WithAttrs is slog.Handler's.
func (h *peopleHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &peopleHandler{w: h.w, copy: h.copy, show: h.show,
		attrs: append(append([]slog.Attr{}, h.attrs...), attrs...)}
}

// WithGroup is slog.Handler's; groups are not shown.
func (h *peopleHandler) WithGroup(string) slog.Handler { return h }
