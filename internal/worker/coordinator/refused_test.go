package coordinator

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"leat/internal/worker/client"
	"leat/internal/worker/protocol"
	"leat/worker"
)

func TestWrongToken(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	r := newRaw(t, c)
	right := r.at.Token
	n := int64(0)
	for _, wrong := range []string{"Bearer " + strings.Repeat("x", len(right)), "Bearer " + right + "x",
		"Bearer " + right[1:], "Bearer", "", right, "Basic " + right} {
		for _, path := range []string{protocol.PathJoin, protocol.PathLease, protocol.PathResult, protocol.PathError, protocol.PathHeartbeat, protocol.PathLeave, "/",
			"/v1/nothing"} {
			n++
			if a := r.post(path, "{}", "Authorization",
				wrong); a.status != http.StatusUnauthorized || a.code() != "token" {
				t.Errorf("%s with %q: %+v", path, wrong, a)
			}
		}
	}
	if got := c.Status(); got.Refused.Token != n || len(got.Workers) != 0 {
		t.Errorf("%+v, expected %d wrong tokens", got, n)
	}

	e := environmentOf(t, c, "tls", "test-0")
	e.Endpoint.Token = strings.Repeat("x", 43)
	err := startWorker(t, e, &plain{}).wait()
	if err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "xxx") {
		t.Errorf("the worker's error: %v", err)
	}
}

func (a answered) code() string { return a.Code }

func TestNothingSentToWrongKey(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	e := environmentOf(t, c, "tls", "test-0")
	other := sha256.Sum256([]byte("another key"))
	e.Endpoint.Pin = protocol.PinPrefix + base64.StdEncoding.EncodeToString(other[:])
	err := startHasty(t, e, &plain{}).wait()
	if !errors.Is(err, client.ErrWrongKey) || strings.Contains(err.Error(), e.Endpoint.Token) {
		t.Errorf("the worker's error: %v", err)
	}

	// Another server at the run's address receives a handshake and no byte of a message.
	id, err := newIdentity(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", id.serverConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b := make([]byte, 100)
		n, _ := conn.Read(b) // if it receives anything, it closes the connection, and the client does not wait
		got <- string(b[:n])
	}()
	e.Endpoint = listen(t, c)
	e.Endpoint.Addresses = []string{l.Addr().String()}
	if err := startHasty(t, e, &plain{}).wait(); !errors.Is(err, client.ErrWrongKey) {
		t.Errorf("the worker's error: %v", err)
	}
	if s := <-got; s != "" {
		t.Errorf("the other server received %q", s)
	}
}

func TestDialTriesAllAddresses(t *testing.T) {
	k := newTaken()
	c := newTestCoordinator(t, testOptions(3, k))
	e := environmentOf(t, c, "tls", "test-0")
	e.Endpoint.Addresses = append([]string{"127.0.0.1:1", "nowhere.invalid:9"}, e.Endpoint.Addresses...)
	w := startWorker(t, e, &plain{})
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	k.check(t, 3)
}

func TestOtherBuildIsRefused(t *testing.T) {
	const join = `{"protocol":%d,"name":"raw-0","kind":"raw","build":%q,"arch":%q,"host":"h","pid":1,"cores":1,"slots":1}`
	for _, mixed := range []bool{false, true} {
		o := testOptions(1, newTaken())
		o.AllowMixedBuilds = mixed
		c := newTestCoordinator(t, o)
		r := newRaw(t, c)
		other := 403
		if mixed {
			other = 200
		}
		for _, x := range []struct {
			protocol    int
			build, arch string
			want        int
		}{
			{1, testBuild, protocol.ThisArch(), 200},
			{1, "go:other", protocol.ThisArch(), other},
			{1, testBuild, "plan9/mips", other},
			{2, testBuild, protocol.ThisArch(), 403},
		} {
			a := r.post(protocol.PathJoin, fmt.Sprintf(join, x.protocol, x.build, x.arch))
			if a.status != x.want || a.status == 403 && a.code() != "build" {
				t.Errorf("mixed %v, %+v: %+v", mixed, x, a)
			}
		}
	}
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	if a := newRaw(t, c).post(protocol.PathJoin, `{"protocol":2,"name":"raw-0","gpu":1}`); a.status != 403 ||
		a.code() != "build" {
		t.Errorf("another version with other fields: %+v", a)
	}
	// The worker's error has the reason.
	c = newTestCoordinator(t, testOptions(1, newTaken()))
	o := workOptions(environmentOf(t, c, "sockets", "test-0"), &plain{})
	o.Build = "go:other"
	if err := client.Work(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the worker's build is") {
		t.Errorf("the worker's error: %v", err)
	}
	if n := c.Status().Refused.Build; n != 1 {
		t.Errorf("%d refused builds", n)
	}
}

func TestInvalidResultsAreRefused(t *testing.T) {
	k := newTaken()
	o := testOptions(3, k)
	o.MaxResult = 1000
	o.MaxBytes = 1000
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	defer r.beating()()
	l := r.lease(1)[0]
	other := newRaw(t, c)
	other.join("raw-1")
	defer other.beating()()

	body := resultOf(l.Block)
	for _, x := range []struct {
		what   string
		by     *raw
		path   string
		header []string
		body   string
		status int
		code   string
	}{
		{"without a lease", r, protocol.PathResult, r.resultHeaderOf(77, l.Block, body), body, 409, "lease"},
		{"without a lease, number 0", r, protocol.PathResult, r.resultHeaderOf(0, l.Block, body), body, 409, "lease"},
		{"under another worker's lease", other, protocol.PathResult, other.resultHeaderOf(l.Lease, l.Block, body), body, 409,
			"lease"},
		{"of another block than the lease's", r, protocol.PathResult, r.resultHeaderOf(l.Lease, l.Block+1, body), body, 409,
			"lease"},
		{"of an unknown block", r, protocol.PathResult, r.resultHeaderOf(l.Lease, 3, body), body, 404,
			"block"},
		{"of a block out of range", r, protocol.PathResult, r.resultHeaderOf(l.Lease, 1<<31-1, body), body, 404, "block"},
		{"of a negative block", r, protocol.PathResult, r.resultHeaderOf(l.Lease, -1, body), body, 400, "malformed"},
		{"of nobody", r, protocol.PathResult, (&raw{worker: 9}).resultHeaderOf(l.Lease, l.Block, body), body, 404, "worker"},
		{"with a wrong checksum", r, protocol.PathResult, r.resultHeaderOf(l.Lease, l.Block, "other"), body, 422, "checksum"},
		{"without a checksum", r, protocol.PathResult, r.resultHeaderOf(l.Lease, l.Block, body)[:6], body, 400, "malformed"},
		{"with a short checksum", r, protocol.PathResult,
			append(r.resultHeaderOf(l.Lease, l.Block, body)[:6], protocol.HeaderChecksum, "12345"), body, 400, "malformed"},
		{"too large", r, protocol.PathResult, r.resultHeaderOf(l.Lease, l.Block, body), strings.Repeat("x", 1001), 413, "size"},
		{"in a message of JSON that is too large", r, protocol.PathLease, nil,
			`{"worker":0,` + strings.Repeat(" ", protocol.MaxMessage) + `"want":1}`, 413, "length"},
		{"with unknown fields", r, protocol.PathLease, nil, `{"worker":0,"wants":1}`, 400, "malformed"},
		{"that is two messages", r, protocol.PathLease, nil, `{"worker":0,"want":1}{}`, 400, "malformed"},
		{"that is not JSON", r, protocol.PathJoin, nil, `hello`, 400, "malformed"},
		{"to nowhere", r, "/v1/nothing", nil, `{}`, 404, "path"},
		{"with an error of a block without a lease", r, protocol.PathError, nil,
			`{"worker":0,"lease":77,"block":1,"message":"m"}`, 409, "lease"},
		{"with an error of an unknown block", r, protocol.PathError, nil,
			`{"worker":0,"lease":1,"block":5,"message":"m"}`, 404, "block"},
	} {
		if a := x.by.post(x.path, x.body, x.header...); a.status != x.status || a.code() != x.code || a.Error == "" {
			t.Errorf("a result %s: %+v", x.what, a)
		}
	}
	if a := r.postBody(protocol.PathResult, struct{ io.Reader }{strings.NewReader(body)},
		r.resultHeaderOf(l.Lease, l.Block, body)...); a.status != 411 {
		t.Errorf("a result of unknown length: %+v", a)
	}
	resp, err := r.client.Get("https://" + r.at.Addresses[0] + protocol.PathJoin)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 401 {
		t.Errorf("GET without a token: %d", resp.StatusCode)
	}
	k.check(t, 0)

	// The lease is still valid.
	if a := r.result(l.Lease, l.Block, body); a.status != 200 || a.body != "{}" {
		t.Errorf("the right result: %+v", a)
	}
	// The answer may have been lost: a repeated result is not an error, and is not accepted again.
	if a := r.result(l.Lease, l.Block, body); a.status != 200 {
		t.Errorf("the right result again: %+v", a)
	}
	k.check(t, 1)
	f := c.Status().Refused
	if f.Lease != 5 || f.Block != 3 || f.Checksum != 1 || f.Size != 1 || f.Lost != 1 || f.Token != 1 {
		t.Errorf("counts: %+v", f)
	}
}

func TestLargeResultIsRefusedUnread(t *testing.T) {
	o := testOptions(1, newTaken())
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	l := r.lease(1)[0]
	conn := r.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/result HTTP/1.1\r\nHost: leat\r\nAuthorization: Bearer %s\r\nContent-Length: 99999999999\r\nLeat-Worker: 0\r\nLeat-Lease: %d\r\nLeat-Block: 0\r\nLeat-Crc32c: 00000000\r\n\r\n", r.at.Token, l.Lease)
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodPost})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 413 || !resp.Close {
		t.Errorf("%+v", resp)
	}
}

// dial opens a TLS connection to the coordinator.
func (r *raw) dial() net.Conn {
	r.t.Helper()
	conn, err := tls.Dial("tcp", r.at.Addresses[0], &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		r.t.Fatal(err)
	}
	return conn
}

func TestOldTLSIsRefused(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	_, err := tls.Dial("tcp", listen(t, c).Addresses[0],
		&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil {
		t.Error("TLS 1.2 was accepted")
	}
}

func TestSessionsAreNotResumed(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	at := listen(t, c)
	config := &tls.Config{InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(0)}
	for range 2 {
		conn, err := tls.Dial("tcp", at.Addresses[0], config)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: leat\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil { // tickets arrive before it
			t.Error(err)
		}
		if conn.ConnectionState().DidResume {
			t.Error("a session was resumed")
		}
		_ = conn.Close()
	}
}

func TestEndCodes(t *testing.T) {
	for _, want := range []string{"done", "ended"} {
		k := newTaken()
		o := testOptions(1, k)
		o.Workers = 2
		c := newTestCoordinator(t, o)
		first, late := newRaw(t, c), newRaw(t, c)
		first.join("raw-0")
		late.join("raw-1")
		l, copied := first.lease(1)[0], late.lease(1)[0]
		if want == "ended" {
			first.post(protocol.PathError, fmt.Sprintf(`{"worker":0,"lease":%d,"block":0,"message":"the run has ended: done"}`,
				l.Lease))
		} else {
			first.result(l.Lease, 0, resultOf(0))
		}
		_ = waitRun(t, c)
		if a := late.result(copied.Lease, 0, resultOf(0)); a.status != 410 || a.code() != want {
			t.Errorf("a late result: %+v, expected %s", a, want)
		}
		if a := late.post(protocol.PathJoin, fmt.Sprintf(`{"protocol":1,"name":"raw-2","kind":"raw","build":%q,"arch":%q,"host":"h","pid":1,"cores":1,"slots":1}`, testBuild, protocol.ThisArch())); a.status != 410 || a.code() != want {
			t.Errorf("a late worker: %+v, expected %s", a, want)
		}
		if err := startWorker(t, environmentOf(t, c, "tls", "test-0"), &plain{}).wait(); err != nil {
			t.Errorf("%s: a late worker: %v", want, err)
		}
	}
}

// A worker sends single bytes of its result: less than bodyStep in Times.HeartbeatTimeout. The
// memory of the body is released, and other results continue.
func TestStalledBody(t *testing.T) {
	k := newTaken()
	o := testOptions(2, k)
	o.MaxResult, o.MaxBytes = 1<<20, 1<<20 // one fits
	o.Times = quick
	c := newTestCoordinator(t, o)
	r := newRaw(t, c)
	r.join("raw-0")
	defer r.beating()()
	l := r.lease(1)[0]
	conn := r.dial()
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/result HTTP/1.1\r\nHost: leat\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nLeat-Worker: 0\r\nLeat-Lease: %d\r\nLeat-Block: 0\r\nLeat-Crc32c: 00000000\r\n\r\n", r.at.Token, 1<<20, l.Lease)
	until(t, "memory taken", func() bool { return c.Status().BodyBytes == 1<<20 })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := conn.Write([]byte{0}); err != nil {
				return
			}
			time.Sleep(quick.HeartbeatTimeout / 20)
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodPost})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("%+v", resp)
	}
	until(t, "free memory", func() bool { return c.Status().BodyBytes == 0 })
	w := startWorker(t, environmentOf(t, c, "tls", "test-0"), &plain{})
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	if err := w.wait(); err != nil {
		t.Error(err)
	}
	k.check(t, 2)
	if n := c.Status().Refused.Slow; n != 1 {
		t.Errorf("%d slow bodies", n)
	}
}

// connectOnly opens n connections that send no token. Every other one sends the beginning of a
// handshake.
func connectOnly(t *testing.T, at worker.Endpoint, n int) {
	t.Helper()
	for i := range n {
		conn, err := net.Dial("tcp", at.Addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if i%2 == 0 {
			_, _ = conn.Write([]byte{22, 3, 1})
		}
	}
}

func TestSilentConnectionsBlockNoWorker(t *testing.T) {
	t.Parallel() // it waits for real timeouts
	k := newTaken()
	o := testOptions(300, k)
	o.Workers, o.MaxUnauthenticated, o.Times.TokenTimeout = 2, 8, time.Second
	c := newTestCoordinator(t, o)
	at := listen(t, c)
	crowd := make(chan struct{})
	early := startWorker(t, environmentOf(t, c, "tls", "test-0"),
		&plain{onCompute: func(ctx context.Context, _ int) error {
			select {
			case <-crowd:
			case <-ctx.Done():
			}
			return ctx.Err()
		}})
	until(t, "a worker", hasState(c, worker.StateJoined))
	connectOnly(t, at, 20)
	until(t, "a crowd", func() bool { return c.Status().Unauthenticated == o.MaxUnauthenticated })
	close(crowd)
	e := environmentOf(t, c, "sockets", "test-1")
	e.Connections, e.Endpoint = nil, at
	late := startWorker(t, e, &plain{})
	if err := waitRun(t, c); err != nil {
		t.Fatal(err)
	}
	for _, w := range []*working{early, late} {
		if err := w.wait(); err != nil {
			t.Error(err)
		}
	}
	k.check(t, 300)
	if s := c.Status(); s.LostWorkers != 0 {
		t.Errorf("%+v", s)
	}
}

// A worker has joined and needs another connection for leases, which waits behind new connections.
// Its heartbeats must not wait too, or it would be lost.
func TestHeartbeatsDoNotWaitForHandshakes(t *testing.T) {
	t.Parallel() // it waits for real timeouts
	o := testOptions(1, newTaken())
	o.Workers, o.MaxUnauthenticated, o.Times = 2, 2, quick
	o.Times.TokenTimeout = patience
	c := newTestCoordinator(t, o)
	at := listen(t, c)
	p := newProxy(t, at.Addresses[0])
	e := &client.Environment{Name: "test-0", Kind: "test", Slots: 1, Endpoint: at}
	e.Endpoint.Addresses = []string{p.Addr().String()}
	p.limit(1) // the gate is full from the worker's second connection on
	w := startWorker(t, e, &plain{})
	until(t, "a worker", hasState(c, worker.StateJoined))
	connectOnly(t, at, 4)
	time.Sleep(2 * quick.HeartbeatTimeout) // its heartbeats arrive meanwhile
	if s := c.Status(); s.LostWorkers != 0 || s.Workers[0].State != worker.StateJoined {
		t.Errorf("%+v", s)
	}
	w.stop()
	_ = w.wait()
}

func TestGateLimit(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	g := newGate(2)
	c.gate = g
	open := func() *connection {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		k := &connection{Conn: ours, c: c}
		t.Cleanup(func() { _ = k.Close() })
		return k
	}
	a, b, d := open(), open(), open()
	if !g.enter(a) || !g.enter(b) || g.unauthenticated() != 2 {
		t.Fatal("two connections were not accepted")
	}
	in := make(chan bool)
	go func() { in <- g.enter(d) }()
	g.forget(b) // it has sent the token
	if !<-in || g.unauthenticated() != 2 {
		t.Fatal("the third connection was not accepted after the second had sent the token")
	}
	for _, k := range []*connection{a, b, d} {
		if k.closed.Load() {
			t.Error("a connection was closed for another")
		}
	}
	_ = b.Close() // its slot is already taken
	if g.unauthenticated() != 2 {
		t.Errorf("%d unauthenticated connections", g.unauthenticated())
	}
	go func() { in <- g.enter(open()) }()
	g.close()
	if <-in {
		t.Error("a closed gate accepts connections")
	}
}

func TestHandshakeLimit(t *testing.T) {
	c := newTestCoordinator(t, testOptions(1, newTaken()))
	places := cap(c.gate.handshakes)
	var all []*connection
	for range places {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		k := &connection{Conn: ours, c: c}
		k.beginHandshake()
		all = append(all, k)
	}
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = theirs.Close() })
	next, begun := &connection{Conn: ours, c: c}, make(chan struct{})
	go func() {
		next.beginHandshake()
		close(begun)
	}()
	select {
	case <-begun:
		t.Fatalf("%d handshakes run at once", places+1)
	case <-time.After(20 * time.Millisecond):
	}
	_ = all[0].Close()
	<-begun
	_ = next.Close()
	for _, k := range all {
		_ = k.Close()
	}
	if n := len(c.gate.handshakes); n != 0 {
		t.Errorf("%d slots are in use", n)
	}
}
