package northbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"baton/api"
	"baton/rpc"
)

// TestCallsInFlight: of many calls that wait, as many run as may; the others are not read; and all are answered.
func TestCallsInFlight(t *testing.T) {
	release := make(chan struct{})
	var running, most atomic.Int32
	f := start(t, func(c *Config) {
		c.Limits.InFlight = 4
		c.Calls.Proxied = func(ctx context.Context, _ Caller, _ api.ControllerProxied) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	p := f.dial(t, Router)
	const n = 20
	for i := range n {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"proxied","params":{"client":"10.1.0.2:4","service":"10.9.9.9:80","why":""}}`, i))
	}
	eventually(t, "four run", func() bool { return running.Load() == 4 })
	if status, _, _ := f.request(t, Viewer, "GET", "/v1/topology", ""); status != 200 {
		t.Errorf("others are held up: %d", status)
	}
	close(release)
	for range n {
		if answer := p.receive(); !strings.Contains(answer, `"result":{}`) {
			t.Error(answer)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d ran at the same time", most.Load())
	}
}

// TestRESTInFlight: one request too many is refused, not queued.
func TestRESTInFlight(t *testing.T) {
	release, entered := make(chan struct{}), make(chan struct{})
	f := start(t, func(c *Config) {
		c.Limits.InFlight = 1
		c.Source.Topology = func() api.ControllerTopology {
			close(entered)
			<-release
			return api.ControllerTopology{}
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.request(t, Viewer, "GET", "/v1/topology", "")
	}()
	<-entered
	if status, _, header := f.request(t, Viewer, "GET", "/v1/sessions", ""); status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
		t.Errorf("%d", status)
	}
	close(release)
	<-done
}

// TestCallThatTakesTooLong: the caller is told, and the connection goes on.
func TestCallThatTakesTooLong(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Limits.Call = 20 * time.Millisecond
		c.Calls.GetMatchingSession = func(ctx context.Context, _ Caller, _ api.ControllerSessionKey) (api.ControllerMatch, error) {
			<-ctx.Done()
			return api.ControllerMatch{}, ctx.Err()
		}
	})
	p := f.dial(t, Router)
	if _, code, _ := p.call("getmatchingsess", `{"client":"10.1.0.2:4","service":"10.9.9.9:80"}`); code != api.ControllerUnavailable {
		t.Errorf("code %d", code)
	}
	if _, code, _ := p.call("topology", "{}"); code != 0 {
		t.Errorf("afterwards: %d", code)
	}
}

func TestRate(t *testing.T) {
	f := start(t, func(c *Config) { c.Limits.Rate = 20 })
	p := f.dial(t, Viewer)
	began := time.Now()
	for range 30 { // twenty at once, ten within half a second
		p.call("topology", "{}")
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("30 calls took %v", took)
	}
}

// TestAnswersThatNobodyReads: a caller that sends and does not read is dropped.
func TestAnswersThatNobodyReads(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Limits.Write = 100 * time.Millisecond
		c.Source.Topology = func() api.ControllerTopology {
			return api.ControllerTopology{Hosts: []api.ControllerHost{{Name: strings.Repeat("x", 1<<20)}}}
		}
	})
	p := f.dial(t, Viewer)
	eventually(t, "it is dropped", func() bool {
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_ = p.Write(short, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"topology"}`))
		return f.Counts().Connections == 0
	})
}

// TestCloseDoesNotWait: peers that do not read their end do not hold up the controller's.
func TestCloseDoesNotWait(t *testing.T) {
	f := start(t, nil)
	for range 10 {
		f.dial(t, Viewer)
	}
	began := time.Now()
	f.Close()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	if status, _, _ := f.request(t, Viewer, "GET", "/v1/ws", ""); status != http.StatusServiceUnavailable {
		t.Errorf("afterwards one is admitted: %d", status)
	}
}

// TestQueueIsBoundedByBytes: a few large events are as much as many small ones.
func TestQueueIsBoundedByBytes(t *testing.T) {
	h := NewHub()
	cut := make(chan struct{})
	s := h.join(func() { close(cut) })
	h.follow(s, api.TopicTopology, true)
	large := api.ControllerTopology{Hosts: []api.ControllerHost{{Name: strings.Repeat("x", 3<<20)}}}
	for range 2 {
		h.Publish(api.TopicTopology, large)
	}
	if !h.Watched(api.TopicTopology) {
		t.Fatal("6 MiB were too much")
	}
	h.Publish(api.TopicTopology, large)
	<-cut
	if h.Watched(api.TopicTopology) || h.cut.Load() != 1 {
		t.Error("it is still a subscriber")
	}
}

// TestClientWithCertificate: a request router that has a certificate needs no token.
func TestClientWithCertificate(t *testing.T) {
	a := newAuthority(t)
	f := start(t, func(c *Config) { c.Access = Access{Certificates: map[string]Role{"rr1.example.net": Router}} })
	server := a.issue(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	f.serveOn(t, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: a.pool()})
	own := a.issue(func(c *x509.Certificate) { c.DNSNames = []string{"rr1.example.net"} })
	c, err := rpc.Dial(t.Context(), rpc.Endpoint{URL: "wss://" + f.address, TLS: &tls.Config{RootCAs: a.pool(), Certificates: []tls.Certificate{own}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Hello(t.Context(), api.ControllerHello{Name: "rr1", Service: port("10.9.9.9:80")}); err != nil {
		t.Error(err)
	}
	if log := f.log.String(); !strings.Contains(log, "call=hello caller=rr1.example.net role=router") {
		t.Errorf("the log: %s", log)
	}
	if _, err := rpc.Dial(t.Context(), rpc.Endpoint{URL: "wss://" + f.address, TLS: &tls.Config{RootCAs: a.pool()}}); err == nil {
		t.Error("without the certificate it is let in")
	}
}

// BenchmarkCall is a call and its answer over loopback.
func BenchmarkCall(b *testing.B) {
	f := start(b, nil)
	c, err := rpc.Dial(b.Context(), endpoint(f, Router))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	key := api.ControllerSessionKey{Client: port("10.1.0.2:4"), Service: port("10.9.9.9:80")}
	for b.Loop() {
		if _, err := c.GetMatchingSession(b.Context(), key); err != nil {
			b.Fatal(err)
		}
	}
}
