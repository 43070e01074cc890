package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// serverTask is what the server has to do.
type serverTask struct {
	Latency time.Duration // before each answer
	Rate    float64       // bytes a second that one connection gives; 0: all that it can
	Dir     string        // whose files are given; "": made-up objects
}

// served is what the server says: at first where it is, and whenever it is asked what it was asked
// for.
type served struct {
	URL           string
	Reads, Checks int64
}

// server is the HTTP server in its process.
type server struct {
	*process
	url string
}

func (b *bench) startServer(t serverTask) (*server, error) {
	p, err := start(b.ctx, "server")
	if err != nil {
		return nil, err
	}
	var s served
	if err = p.to.Encode(t); err == nil {
		err = p.from.Decode(&s)
	}
	if err != nil {
		return nil, errors.Join(err, p.end())
	}
	return &server{p, s.URL}, nil
}

// counts holds what was asked for until now.
func (s *server) counts() (n served, err error) {
	if err = s.to.Encode("counts"); err == nil {
		err = s.from.Decode(&n)
	}
	return n, err
}

// serve is the server: it ends when its input does.
func serve(in io.Reader, out io.Writer) error {
	from, to := json.NewDecoder(in), json.NewEncoder(out)
	var t serverTask
	if err := from.Decode(&t); err != nil {
		return err
	}
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &handler{t: t}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, paceKey{}, &pace{rate: t.Rate})
		}}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	err = to.Encode(served{URL: "http://" + l.Addr().String()})
	for err == nil {
		var what string
		if err = from.Decode(&what); err == nil {
			err = to.Encode(served{Reads: h.reads.Load(), Checks: h.checks.Load()})
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	err = errors.Join(err, s.Close())
	if err1 := <-done; !errors.Is(err1, http.ErrServerClosed) {
		err = errors.Join(err, err1)
	}
	return err
}

type handler struct {
	t             serverTask
	reads, checks atomic.Int64
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.t.Dir != "" {
		h.reads.Add(1)
		time.Sleep(h.t.Latency)
		http.ServeFile(w, r, filepath.Join(h.t.Dir, path.Base(r.URL.Path)))
		return
	}
	o, err := parseObject(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if r.Method == http.MethodHead {
		h.checks.Add(1)
	} else {
		h.reads.Add(1)
	}
	time.Sleep(h.t.Latency)
	w.Header().Set("ETag", fmt.Sprintf("%q", strings.ReplaceAll(o.name(), "/", "-")))
	w.Header().Set("Content-Type", "application/octet-stream")
	if p := r.Context().Value(paceKey{}).(*pace); p.rate > 0 {
		w = &paced{w, p}
	}
	http.ServeContent(w, r, "", time.Time{}, &content{o: o})
}

// content reads an object.
type content struct {
	o  object
	at int64
}

func (c *content) Read(b []byte) (int, error) {
	if c.at >= c.o.size {
		return 0, io.EOF
	}
	n := copy(b, c.o.bytes(c.at))
	c.at += int64(n)
	return n, nil
}

func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.o.size
	}
	c.at = offset
	return offset, nil
}

// pace keeps one connection, through all its requests, to so many bytes a second. Requests of one
// connection come one after another.
type pace struct {
	rate float64
	next time.Time // when the next bytes may go
}

type paceKey struct{}

// paced is an answer through a connection with a pace.
type paced struct {
	http.ResponseWriter
	p *pace
}

func (w *paced) Write(b []byte) (int, error) {
	now := time.Now()
	if w.p.next.Before(now) {
		w.p.next = now // what was not used is lost
	}
	if wait := w.p.next.Sub(now); wait > time.Millisecond {
		time.Sleep(wait)
	}
	w.p.next = w.p.next.Add(time.Duration(float64(len(b)) / w.p.rate * 1e9))
	return w.ResponseWriter.Write(b)
}
