package coordinator

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"testing"

	"leat/internal/worker/protocol"
	"leat/worker"
)

// raw is a worker that sends single messages to a coordinator, unlike package client.
type raw struct {
	t      testing.TB
	at     worker.Endpoint
	client *http.Client
	worker int
}

// newRaw returns a worker that has not joined.
func newRaw(t testing.TB, c *Coordinator) *raw {
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(tr.CloseIdleConnections)
	return &raw{t: t, at: listen(t, c), client: &http.Client{Transport: tr}}
}

// answered is the answer to a message of a raw worker.
type answered struct {
	status int
	body   string
	protocol.Refusal
}

func (r *raw) post(path, body string, header ...string) answered {
	r.t.Helper()
	return r.postBody(path, bytes.NewReader([]byte(body)), header...)
}

func (r *raw) postBody(path string, body io.Reader, header ...string) answered {
	r.t.Helper()
	a, err := r.try(r.t.Context(), path, body, header...)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *raw) try(ctx context.Context, path string, body io.Reader, header ...string) (a answered, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.at.Addresses[0]+path, body)
	if err != nil {
		return a, err
	}
	q.Header.Set("Authorization", "Bearer "+r.at.Token)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	a = answered{status: resp.StatusCode, body: string(b)}
	if resp.StatusCode != 200 {
		if err := json.Unmarshal(b, &a.Refusal); err != nil {
			return a, fmt.Errorf("%d %q: %w", resp.StatusCode, b, err)
		}
	}
	return a, nil
}

// join joins the run as worker NAME with one slot.
func (r *raw) join(name string) {
	r.t.Helper()
	a := r.post(protocol.PathJoin, fmt.Sprintf(`{"protocol":1,"name":%q,"kind":"raw","build":%q,"arch":%q,"host":"h","pid":1,"cores":1,"slots":1}`, name, testBuild, protocol.ThisArch()))
	var j protocol.JoinAnswer
	if err := json.Unmarshal([]byte(a.body), &j); err != nil || a.status != 200 {
		r.t.Fatalf("join: %+v, %v", a, err)
	}
	r.worker = j.Worker
}

// lease requests n blocks and does not wait for them.
func (r *raw) lease(n int) []protocol.Grant {
	r.t.Helper()
	a := r.post(protocol.PathLease, fmt.Sprintf(`{"worker":%d,"want":%d,"held":[],"wait_ms":0,"noted":0}`, r.worker, n))
	var l protocol.LeaseAnswer
	if err := json.Unmarshal([]byte(a.body), &l); err != nil || a.status != 200 {
		r.t.Fatalf("lease: %+v, %v", a, err)
	}
	return l.Leases
}

// resultHeaderOf returns the correct header of a result.
func (r *raw) resultHeaderOf(lease uint64, block int, body string) []string {
	return []string{
		protocol.HeaderWorker, fmt.Sprint(r.worker), protocol.HeaderLease, fmt.Sprint(lease), protocol.HeaderBlock,
		fmt.Sprint(block),
		protocol.HeaderChecksum, fmt.Sprintf("%08x", crc32.Checksum([]byte(body), protocol.Castagnoli)),
	}
}

func (r *raw) result(lease uint64, block int, body string) answered {
	r.t.Helper()
	return r.post(protocol.PathResult, body, r.resultHeaderOf(lease, block, body)...)
}

// beating sends heartbeats until the returned function is called.
func (r *raw) beating() func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = r.try(ctx, protocol.PathHeartbeat,
				bytes.NewReader(fmt.Appendf(nil, `{"worker":%d,"wait_ms":20,"noted":0}`, r.worker)))
		}
	}()
	stop := func() {
		cancel()
		<-done
	}
	r.t.Cleanup(stop)
	return stop
}

// jsonBody returns a message as a body.
func jsonBody(m any) io.Reader {
	b, err := protocol.Encode(m)
	if err != nil {
		panic(err)
	}
	return bytes.NewReader(b)
}
