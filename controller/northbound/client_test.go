package northbound

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"baton/api"
	"baton/rpc"
)

func endpoint(f *fixture, role Role) rpc.Endpoint {
	return rpc.Endpoint{URL: "ws://" + f.address, Token: secrets[role]}
}

// TestClientCalls: each call of the client by its types.
func TestClientCalls(t *testing.T) {
	f := start(t, nil)
	c, err := rpc.Dial(t.Context(), endpoint(f, Operator))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	session := api.ControllerSessionKey{Client: port("10.1.0.2:4"), Service: port("10.9.9.9:80")}
	weight := 7
	for name, call := range map[string]func() (any, error){
		`"name":"access"`:      func() (any, error) { return c.Topology(ctx) },
		`"10.1.0.2:40000"`:     func() (any, error) { return c.Sessions(ctx, api.ControllerPage{Limit: 1}) },
		`[{"id":3`:             func() (any, error) { return c.Handoffs(ctx, api.ControllerPage{Limit: 1}) },
		`[{"name":"se1"`:       func() (any, error) { return c.Surrogates(ctx, api.ControllerPage{}) },
		`"method":"handoff"`:   func() (any, error) { return c.Decisions(ctx, api.ControllerPage{}) },
		`"strip":true`:         func() (any, error) { return c.Hello(ctx, api.ControllerHello{Name: "rr1", Service: session.Service}) },
		`"host":"se1.example"`: func() (any, error) { return c.GetMatchingSession(ctx, session) },
		`"weight":7`: func() (any, error) {
			return c.SetSurrogate(ctx, api.ControllerSurrogateSet{Name: "se1", Change: api.ControllerSurrogateChange{Weight: &weight}})
		},
		`"size"`: func() (any, error) {
			return "size", c.SetRequestSize(ctx, api.ControllerRequestSize{Client: session.Client, Service: session.Service, Size: 78})
		},
		`"proxied"`: func() (any, error) {
			return "proxied", c.Proxied(ctx, api.ControllerProxied{Client: session.Client, Service: session.Service})
		},
		`{"rates":{`:     func() (any, error) { return c.Subscribe(ctx, api.TopicRates) },
		`"unsubscribed"`: func() (any, error) { return "unsubscribed", c.Unsubscribe(ctx, api.TopicRates) },
	} {
		result, err := call()
		text, _ := json.Marshal(result)
		if err != nil || !strings.Contains(string(text), name) {
			t.Errorf("%s, %v; want %s", text, err, name)
		}
	}
	_, err = c.SetSurrogate(ctx, api.ControllerSurrogateSet{Name: "se9", Change: api.ControllerSurrogateChange{Weight: &weight}})
	var told *api.ControllerError
	if !errors.As(err, &told) || told.Code != api.ControllerNotFound || !errors.Is(err, api.ErrNotFound) {
		t.Errorf("%v", err)
	}
	c.Close()
	if _, err := c.Topology(ctx); !errors.Is(err, rpc.ErrNotConnected) {
		t.Errorf("after closing: %v", err)
	}
}

func TestClientIsRefused(t *testing.T) {
	f := start(t, nil)
	for url, want := range map[string]string{
		"ws://" + f.address: rpc.ErrRefused.Error(), "http://" + f.address + "/v1/docs": "the answer is 200", "ftp://x": "begins with ws://", "10.0.0.1:80": "is no address",
		"ws://127.0.0.1:1": "connection refused",
	} {
		_, err := rpc.Dial(t.Context(), rpc.Endpoint{URL: url, Token: "a-wrong-token"})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "a-wrong-token") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestEventsKeepTheirOrder: jrpc2 alone would mix them.
func TestEventsKeepTheirOrder(t *testing.T) {
	f := start(t, nil)
	c, err := rpc.Dial(t.Context(), endpoint(f, Viewer))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Subscribe(t.Context(), api.TopicHandoffs); err != nil {
		t.Fatal(err)
	}
	const n = 900 // less than the server's queue
	for id := range uint64(n) {
		f.hub.Publish(api.TopicHandoffs, api.ControllerHandoff{ID: id})
	}
	for want := range uint64(n) {
		var h api.ControllerHandoff
		if err := json.Unmarshal((<-c.Events()).Value, &h); err != nil || h.ID != want {
			t.Fatalf("%d, %v; want %d", h.ID, err, want)
		}
	}
}

// recorder is what a client has told.
type recorder struct {
	mu   sync.Mutex
	said []string
}

func (r *recorder) say(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, what)
}

func (r *recorder) count(what string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.said {
		if s == what {
			n++
		}
	}
	return n
}

// TestClientReconnects: a controller that ends is replaced by another; each time the whole comes again, after the hello.
func TestClientReconnects(t *testing.T) {
	first, second := start(t, nil), start(t, nil)
	var r recorder
	client := rpc.New(rpc.Config{
		Controllers: []rpc.Endpoint{endpoint(first, Router), endpoint(second, Router)},
		Topics:      []api.ControllerTopic{api.TopicSurrogates},
		Opened: func(ctx context.Context, c *rpc.Conn) error {
			_, err := c.Hello(ctx, api.ControllerHello{Name: "rr1", Service: port("10.9.9.9:80")})
			r.say("hello")
			return err
		},
		Whole: func(topic api.ControllerTopic, value json.RawMessage) { r.say("whole " + string(topic)) },
		Event: func(topic api.ControllerTopic, value json.RawMessage) { r.say("event " + string(topic)) },
		Lost:  func(error) { r.say("lost") },
	})
	if _, err := client.Topology(t.Context()); !errors.Is(err, rpc.ErrNotConnected) {
		t.Errorf("before: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	eventually(t, "connected", client.Connected)
	first.hub.Publish(api.TopicSurrogates, api.ControllerSurrogate{Name: "se1"})
	eventually(t, "the event", func() bool { return r.count("event surrogates") == 1 })

	began := time.Now()
	first.Close()
	eventually(t, "connected to the other", func() bool { return second.Counts().Connections == 1 && client.Connected() })
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := client.Topology(t.Context()); err != nil {
		t.Error(err)
	}
	if r.count("hello") != 2 || r.count("whole surrogates") != 2 || r.count("lost") != 1 {
		t.Errorf("%v", r.said)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v", err)
	}
	if client.Connected() {
		t.Error("it is still connected")
	}
}

// TestClientLeavesWhoRefuses: a controller that refuses the hello is left for the next.
func TestClientLeavesWhoRefuses(t *testing.T) {
	slave, master := start(t, nil), start(t, nil)
	slave.fail = api.ControllerErrorf(api.ControllerUnavailable, "this controller is not the master")
	client := rpc.New(rpc.Config{
		Controllers: []rpc.Endpoint{endpoint(slave, Router), endpoint(master, Router)},
		Opened: func(ctx context.Context, c *rpc.Conn) error {
			_, err := c.Hello(ctx, api.ControllerHello{Name: "rr1", Service: port("10.9.9.9:80")})
			return err
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	eventually(t, "connected", client.Connected)
	if master.Counts().Connections != 1 {
		t.Error("not to the master")
	}
	cancel()
	<-ended
}

// TestFollowersLeaveWhoIsNoMaster: what request routers decide by is told by the master alone; who looks on stays.
func TestFollowersLeaveWhoIsNoMaster(t *testing.T) {
	var demoted atomic.Bool
	first := start(t, func(c *Config) {
		c.Source.Master = func() error {
			if demoted.Load() {
				return api.ControllerErrorf(api.ControllerUnavailable, "this controller is not the master: b is")
			}
			return nil
		}
	})
	second := start(t, nil)
	client := rpc.New(rpc.Config{
		Controllers: []rpc.Endpoint{endpoint(first, Router), endpoint(second, Router)}, Topics: []api.ControllerTopic{api.TopicSurrogates, api.TopicDistances},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	eventually(t, "it follows the first", func() bool { return first.hub.Watched(api.TopicDistances) })
	looks := first.dial(t, Operator)
	if _, code, text := looks.call("subscribe", `{"topics":["surrogates"]}`); code != 0 {
		t.Fatal(text)
	}
	demoted.Store(true)
	first.Dismiss("this controller is not the master any more")
	eventually(t, "it follows the second", func() bool { return second.hub.Watched(api.TopicDistances) })
	if _, code, text := looks.call("subscribe", `{"topics":["distances"]}`); code != api.ControllerUnavailable || !strings.Contains(text, "b is") {
		t.Errorf("distances from a controller that is not the master: %d %s", code, text)
	}
	if first.hub.Watched(api.TopicDistances) || !first.hub.Watched(api.TopicSurrogates) {
		t.Error("the operator's subscriptions have changed")
	}
}

// TestClientNoticesSilence: a controller whose host has vanished does not answer pings.
func TestClientNoticesSilence(t *testing.T) {
	f := start(t, nil)
	through, cut := proxy(t, f.address)
	c, err := rpc.Dial(t.Context(), rpc.Endpoint{URL: "ws://" + through, Token: secrets[Viewer], Ping: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	time.Sleep(300 * time.Millisecond) // pings are answered
	if c.Err() != nil {
		t.Fatal(c.Err())
	}
	cut()
	select {
	case <-c.Done():
		if !strings.Contains(c.Err().Error(), "does not answer") {
			t.Error(c.Err())
		}
	case <-time.After(5 * time.Second):
		t.Error("it was not noticed")
	}
}

// proxy passes one connection on until it is cut: then it says nothing, and closes nothing.
func proxy(t *testing.T, to string) (address string, cut func()) {
	l := listen(t)
	silent := make(chan struct{})
	var open sync.WaitGroup
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		copying := func(from, to net.Conn) {
			defer open.Done()
			b := make([]byte, 4096)
			for {
				n, err := from.Read(b)
				if err != nil {
					return
				}
				select {
				case <-silent:
				default:
					_, _ = to.Write(b[:n])
				}
			}
		}
		open.Add(2)
		go copying(in, out)
		go copying(out, in)
		t.Cleanup(func() { in.Close(); out.Close(); open.Wait() })
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), sync.OnceFunc(func() { close(silent) })
}
