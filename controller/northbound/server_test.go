package northbound

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"baton/api"
	"baton/exporter"
)

// serveOn serves until the test ends, which must end every connection.
func (f *fixture) serveOn(t testing.TB, encrypted *tls.Config) {
	l := listen(t)
	f.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, l, encrypted) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
		if n := f.Counts().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// calls are calls by an operator: the result's or the error's text has what is given; called is what the modules get, "-" for nothing.
var calls = []struct {
	method, params, result string
	code                   int
	message, called        string
}{
	{"topology", `{}`, `"name":"access"`, 0, "", ""},
	{"sessions", `{}`, `10.1.0.2:40000`, 0, "", ""},
	{"sessions", `{"limit":1,"after":"10.1.0.2:40000 10.9.9.9:80"}`, `[{"client":"10.1.0.3:1"`, 0, "", ""},
	{"sessions", `{"after":"nonsense"}`, "", -32602, "after does not name an item", ""},
	{"sessions", `{"limit":-1}`, "", -32602, "limit is from 1 to 1000", ""},
	{"sessions", `{"limt":1}`, "", -32602, `unknown field "limt"`, ""},
	{"sessions", `{"limit":"x"}`, "", -32602, "limit may not be a JSON string", ""},
	{"sessions", `[1]`, "", -32602, "parameters are an object", ""},
	{"handoffs", `{"limit":2}`, `[{"id":3,`, 0, "", ""},
	{"handoffs", `{"after":"2"}`, `[{"id":1,`, 0, "", ""},
	{"handoffs", `{"after":"1"}`, `[]`, 0, "", ""},
	{"surrogates", `{}`, `[{"name":"se1"`, 0, "", ""},
	{"decisions", `{"limit":1}`, `"method":"handoff"`, 0, "", ""},
	{"hello", `{"name":"rr 1","service":"10.9.9.9:80"}`, "", -32602, "name has 1 to 64", "-"},
	{"hello", `{"name":"rr1"}`, "", -32602, "service is an address", "-"},
	{"hello", `{"name":"rr1","service":"10.9.9.9:80"}`, `"strip":true`, 0, "", "hello rr1 rr1 10.9.9.9:80"},
	{"hello", `{"name":"rr2","service":"10.9.9.9:80"}`, "", 4409, "this connection is that of rr1", "-"},
	{"setrequestsize", `{"client":"10.1.0.2:4","service":"10.9.9.9:80","size":78,"request":"GET /a"}`, `{}`, 0, "", "size 10.1.0.2:4 invalid AddrPort 78 GET /a"},
	{"setrequestsize", `{"leg":{"local":"10.9.0.1:7","remote":"10.2.0.2:80"},"size":90}`, `{}`, 0, "", "size invalid AddrPort 10.9.0.1:7 90 "},
	{"setrequestsize", `{"size":78}`, "", -32602, "client and service name a session", "-"},
	{"setrequestsize", `{"client":"10.1.0.2:4","service":"10.9.9.9:80","size":0}`, "", -32602, "size is the number", "-"},
	{"setrequestsize", `{"client":"10.1.0.2:4","service":"10.9.9.9:80","size":-1}`, "", -32602, "size may not be", "-"},
	{"setrequestsize", `{"client":"ten","service":"10.9.9.9:80","size":1}`, "", -32602, "", "-"},
	{"getmatchingsess", `{"client":"10.1.0.2:4","service":"10.9.9.9:80"}`, `"surrogate":"se1"`, 0, "", "match 10.1.0.2:4"},
	{"getmatchingsess", `{}`, "", -32602, "client and service are addresses", "-"},
	{"proxied", `{"client":"10.1.0.2:4","service":"10.9.9.9:80","why":"chunked"}`, `{}`, 0, "", "proxied 10.1.0.2:4 chunked"},
	{"proxied", `{"client":"10.1.0.2:4","service":"10.9.9.9:80","why":"panic"}`, "", -32603, "internal error", "-"},
	{"setsurrogate", `{"name":"se1","change":{"weight":7}}`, `"weight":7`, 0, "", "set se1 by the-operator"},
	{"setsurrogate", `{"name":"se9","change":{"weight":7}}`, "", 4404, `surrogate "se9": not found`, "-"},
	{"setsurrogate", `{"name":"se1","change":{}}`, "", -32602, "change has a weight or a state", "-"},
	{"setsurrogate", `{"name":"se1","change":{"weight":-1}}`, "", -32602, "change.weight is from 0", "-"},
	{"setsurrogate", `{"name":"se1","change":{"state":"asleep"}}`, "", -32602, "change.state is one of", "-"},
	{"subscribe", `{"topics":[]}`, "", -32602, "topics are a list", "-"},
	{"subscribe", `{"topics":["weather"]}`, "", -32602, `topics have no "weather"`, "-"},
	{"format", `{}`, "", -32601, `no method "format"`, "-"},
}

// TestCalls: each call, its result, and what the modules get.
func TestCalls(t *testing.T) {
	f := start(t, nil)
	p := f.dial(t, Operator)
	for _, tt := range calls {
		t.Run(tt.method+" "+tt.params, func(t *testing.T) {
			p.t = t
			f.mu.Lock()
			f.calls = nil
			f.mu.Unlock()
			result, code, message := p.call(tt.method, tt.params)
			if !strings.Contains(result, tt.result) || code != tt.code || !strings.Contains(message, tt.message) {
				t.Errorf("%s, %d %q; want %s, %d %q", result, code, message, tt.result, tt.code, tt.message)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if called := strings.Join(f.calls, ";"); called != strings.Trim(tt.called, "-") {
				t.Errorf("the modules got %q, want %q", called, tt.called)
			}
		})
	}
	p.t = t
	if !strings.Contains(f.log.String(), "a module fails") {
		t.Error("the panic is not in the log")
	}
	_ = p.Close(websocket.StatusNormalClosure, "")
	eventually(t, "the request router is gone", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.gone) == 1 && f.gone[0].Router == "rr1"
	})
}

// TestErrorsOfModules: an error's kind is its code, by both ways.
func TestErrorsOfModules(t *testing.T) {
	for _, tt := range []struct {
		err    error
		code   int
		status int
	}{
		{api.ControllerErrorf(api.ControllerNotFound, "no such session"), 4404, 404},
		{api.ControllerErrorf(api.ControllerUnavailable, "no surrogate"), 4503, 503},
		{errors.Join(errors.New("x"), api.ErrConflict), 4409, 409},
		{api.ErrInvalid, -32602, 400},
		{context.DeadlineExceeded, 4503, 503},
		{errors.New("broken"), -32603, 500},
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			f := start(t, nil)
			f.fail = tt.err
			if _, code, message := f.dial(t, Operator).call("setsurrogate", `{"name":"se1","change":{"weight":7}}`); code != tt.code || message != tt.err.Error() {
				t.Errorf("JSON-RPC: %d %q", code, message)
			}
			if status, body, _ := f.request(t, Operator, "PATCH", "/v1/surrogates/se1", `{"weight":7}`); status != tt.status {
				t.Errorf("REST: %d %s", status, body)
			}
			if log := f.log.String(); strings.Count(log, "a change was refused") != 2 {
				t.Errorf("the log has no two refusals: %s", log)
			}
		})
	}
}

// TestRoles: each call from each role.
func TestRoles(t *testing.T) {
	f := start(t, nil)
	for role := range secrets {
		p := f.dial(t, role)
		for method, call := range f.methods {
			_, code, message := p.call(method, `{"an unknown":"field"}`)
			want := -32602 // allowed, and the parameters are wrong
			if role < call.role {
				want = 4403
			}
			if code != want {
				t.Errorf("%s by a %s: %d %s, want %d", method, role, code, message, want)
			}
		}
		_, code, _ := p.call("subscribe", `{"topics":["distances"]}`)
		if (code == 0) != (role >= Router) {
			t.Errorf("distances to a %s: %d", role, code)
		}
	}
	for path, status := range map[string]map[Role]int{
		"GET /v1/topology":         {Nobody: 401, Viewer: 200, Router: 200, Operator: 200},
		"PATCH /v1/surrogates/se1": {Nobody: 401, Viewer: 403, Router: 403, Operator: 200},
	} {
		method, path, _ := strings.Cut(path, " ")
		for role, want := range status {
			if got, body, _ := f.request(t, role, method, path, map[string]string{"PATCH": `{"weight":1}`}[method]); got != want {
				t.Errorf("%s %s by %s: %d %s, want %d", method, path, role, got, body, want)
			}
		}
	}
}

// TestMalformed: the answers of JSON-RPC to what is no call; the connection goes on.
func TestMalformed(t *testing.T) {
	f := start(t, func(c *Config) { c.Limits.Batch = 3 })
	p := f.dial(t, Viewer)
	for _, tt := range []struct{ name, message, answer string }{
		{"not JSON", `{"jsonrpc":`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"this is not JSON"}}`},
		{"empty", ``, `"code":-32700`},
		{"binary", "\x00\x01", `"code":-32700`},
		{"a number", `1`, `"id":null,"error":{"code":-32600`},
		{"empty batch", `[]`, `"id":null,"error":{"code":-32600`},
		{"batch of numbers", `[1,2]`, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600`},
		{"long batch", `[1,2,3,4]`, `a batch has at most 3 calls`},
		{"version", `{"jsonrpc":"1.0","id":1,"method":"topology"}`, `"id":1,"error":{"code":-32600`},
		{"no method", `{"jsonrpc":"2.0","id":1}`, `"id":1,"error":{"code":-32600,"message":"no method"}`},
		{"method of a wrong type", `{"jsonrpc":"2.0","id":1,"method":1}`, `"id":1,"error":{"code":-32600`},
		{"parameters of a wrong type", `{"jsonrpc":"2.0","id":"a","method":"topology","params":1}`, `"id":"a","error":{"code":-32600`},
		{"id of a wrong type", `{"jsonrpc":"2.0","id":{},"method":"topology"}`, `"id":null,"error":{"code":-32600`},
		{"an answer", `{"jsonrpc":"2.0","id":1,"result":1}`, `"code":-32600`},
		{"unknown", `{"jsonrpc":"2.0","id":1,"method":"rpc.serverInfo"}`, `"code":-32601`},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"handoffs","params":{"limit":1}},{"jsonrpc":"2.0","method":"topology"},{"jsonrpc":"2.0","id":2,"method":"no"}]`,
			`"id":2,"error":{"code":-32601`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.t = t
			p.send(tt.message)
			if answer := p.receive(); !strings.Contains(answer, tt.answer) {
				t.Errorf("%s, want %s", answer, tt.answer)
			}
		})
	}
	p.t = t
	p.send(`{"jsonrpc":"2.0","method":"topology"}`) // a notification has no answer
	p.send(`[{"jsonrpc":"2.0","method":"topology"},{"jsonrpc":"2.0","method":"no"}]`)
	if result, _, _ := p.call("handoffs", `{"limit":1}`); !strings.HasPrefix(result, "[{") {
		t.Errorf("afterwards: %s", result)
	}
}

// TestTransportLimits: what is too large, or no text, ends the connection with the code for it.
func TestTransportLimits(t *testing.T) {
	f := start(t, func(c *Config) { c.Limits.Message = 1000; c.Limits.Connections = 3 })
	p := f.dial(t, Viewer)
	p.send(`{"x":"` + strings.Repeat("a", 2000) + `"}`)
	if code := p.closedWith(); code != websocket.StatusMessageTooBig {
		t.Errorf("a large message: %v", code)
	}
	p = f.dial(t, Viewer)
	if err := p.Write(t.Context(), websocket.MessageBinary, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if code := p.closedWith(); code != websocket.StatusUnsupportedData {
		t.Errorf("a binary message: %v", code)
	}
	if status, _, _ := f.request(t, Operator, "PATCH", "/v1/surrogates/se1", `{"state":"`+strings.Repeat("a", 2000)+`"}`); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d", status)
	}
	eventually(t, "the two are gone", func() bool { return f.Counts().Connections == 0 })
	for range 3 {
		f.dial(t, Viewer)
	}
	_, res, err := websocket.Dial(t.Context(), "ws://"+f.address+"/v1/ws", &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + secrets[Viewer]}}, Subprotocols: []string{"jsonrpc"},
	})
	if err == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("one more connection: %v", err)
	}
}

// TestHandshake: who gets a WebSocket.
func TestHandshake(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Origins = []string{"https://noc.example.net"}
		c.Names = []string{"ctl.example.net"}
	})
	encoded := "bearer." + base64.RawURLEncoding.EncodeToString([]byte(secrets[Viewer]))
	for _, tt := range []struct {
		name   string
		header http.Header
		host   string
		path   string
		status int
	}{
		{"a token", http.Header{"Authorization": {"Bearer " + secrets[Viewer]}}, "", "", 101},
		{"scheme in small letters", http.Header{"Authorization": {"bearer " + secrets[Viewer]}}, "", "", 101},
		{"a browser's token", http.Header{"Sec-Websocket-Protocol": {"jsonrpc, " + encoded}}, "", "", 101},
		{"no token", http.Header{}, "", "", 401},
		{"a wrong token", http.Header{"Authorization": {"Bearer x"}}, "", "", 401},
		{"another scheme", http.Header{"Authorization": {"Basic " + secrets[Viewer]}}, "", "", 401},
		{"a browser's wrong token", http.Header{"Sec-Websocket-Protocol": {"jsonrpc, bearer.eA"}}, "", "", 401},
		{"a browser's token that is not base64url", http.Header{"Sec-Websocket-Protocol": {"jsonrpc, bearer.+"}}, "", "", 401},
		{"a token in the address", http.Header{}, "", "?token=" + secrets[Viewer], 401},
		{"a page elsewhere", http.Header{"Authorization": {"Bearer " + secrets[Viewer]}, "Origin": {"https://evil.example"}}, "", "", 403},
		{"a page that may", http.Header{"Authorization": {"Bearer " + secrets[Viewer]}, "Origin": {"https://noc.example.net"}}, "", "", 101},
		{"a name that may", http.Header{"Authorization": {"Bearer " + secrets[Viewer]}}, "ctl.example.net:8080", "", 101},
		{"a name that resolves to the server", http.Header{"Authorization": {"Bearer " + secrets[Viewer]}, "Origin": {"http://evil.example"}}, "evil.example", "", 421},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, res, err := websocket.Dial(t.Context(), "ws://"+f.address+"/v1/ws"+tt.path, &websocket.DialOptions{
				HTTPHeader: tt.header, Host: tt.host, Subprotocols: map[bool][]string{true: {"jsonrpc"}}[tt.header.Get("Sec-Websocket-Protocol") == ""],
			})
			if err == nil {
				_ = c.CloseNow()
			}
			if res == nil || res.StatusCode != tt.status {
				t.Fatalf("%+v, %v; want %d", res, err, tt.status)
			}
			if p := res.Header.Get("Sec-WebSocket-Protocol"); tt.status == 101 && p != "jsonrpc" {
				t.Errorf("the subprotocol is %q", p)
			}
		})
	}
	for _, secret := range secrets {
		if strings.Contains(f.log.String(), secret) || strings.Contains(f.log.String(), encoded) {
			t.Error("a token is in the log")
		}
	}
	c, _, err := websocket.Dial(t.Context(), "ws://"+f.address+"/v1/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + secrets[Viewer]}}})
	if err != nil {
		t.Fatal(err)
	}
	if code := (&peer{Conn: c, t: t}).closedWith(); code != websocket.StatusProtocolError {
		t.Errorf("without the subprotocol: %v", code)
	}
}

// TestSubscriptions: the whole first, then what changes, of the topics alone, until they are left.
func TestSubscriptions(t *testing.T) {
	f := start(t, nil)
	p := f.dial(t, Router)
	all := `["topology","sessions","handoffs","surrogates","decisions","rates","distances"]`
	result, _, _ := p.call("subscribe", `{"topics":`+all+`}`)
	var whole map[string]json.RawMessage
	if err := json.Unmarshal([]byte(result), &whole); err != nil || len(whole) != 7 {
		t.Fatalf("%s, %v", result, err)
	}
	f.hub.Publish(api.TopicHandoffs, api.ControllerHandoff{ID: 9})
	if e := p.receive(); !strings.HasPrefix(e, `{"jsonrpc":"2.0","method":"event","params":{"topic":"handoffs","value":{"id":9,`) {
		t.Error(e)
	}
	f.hub.Publish(api.TopicRates, math.NaN()) // dropped
	if result, _, _ := p.call("unsubscribe", `{"topics":["handoffs"]}`); result != "{}" {
		t.Error(result)
	}
	if f.hub.Watched(api.TopicHandoffs) || !f.hub.Watched(api.TopicRates) {
		t.Error("the hub has other topics")
	}
	f.hub.Publish(api.TopicHandoffs, api.ControllerHandoff{ID: 10})
	f.hub.Publish(api.TopicRates, api.ControllerRates{})
	if e := p.receive(); !strings.Contains(e, `"topic":"rates"`) {
		t.Error(e)
	}
	_ = p.Close(websocket.StatusNormalClosure, "")
	eventually(t, "nobody watches", func() bool { return !f.hub.Watched(api.TopicRates) })
}

// TestTheWholeIsFirst: events of a topic that is published all the time come after the answer.
func TestTheWholeIsFirst(t *testing.T) {
	f := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for i := uint64(1); ctx.Err() == nil; i++ {
			f.hub.Publish(api.TopicHandoffs, api.ControllerHandoff{ID: i})
			time.Sleep(20 * time.Microsecond)
		}
	}()
	p := f.dial(t, Viewer)
	p.call("subscribe", `{"topics":["rates"]}`)
	for range 50 {
		if result, code, _ := p.call("subscribe", `{"topics":["handoffs"]}`); code != 0 { // fails on an event
			t.Fatal(result, code)
		}
		p.send(`{"jsonrpc":"2.0","id":0,"method":"unsubscribe","params":{"topics":["handoffs"]}}`)
		for !strings.Contains(p.receive(), `"id":0`) {
		}
		for range 3 { // events that were on their way
			f.hub.Publish(api.TopicRates, api.ControllerRates{PacketIns: 5})
		}
		for left := 3; left > 0; {
			if strings.Contains(p.receive(), `"packet_ins":5`) {
				left--
			}
		}
	}
}

// TestSlowSubscriber: one that does not read is cut off, and holds up neither the publisher nor others.
func TestSlowSubscriber(t *testing.T) {
	f := start(t, nil)
	slow, quick := f.dial(t, Viewer), f.dial(t, Viewer)
	for _, p := range []*peer{slow, quick} {
		if _, code, _ := p.call("subscribe", `{"topics":["sessions"]}`); code != 0 {
			t.Fatal(code)
		}
	}
	got := make(chan struct{})
	var read atomic.Int64
	go func() {
		defer close(got)
		for !strings.Contains(quick.receive(), `"last"`) {
			read.Add(1)
		}
	}()
	large := api.ControllerSession{Surrogate: strings.Repeat("x", 20_000)}
	for i := 0; f.Counts().Cut == 0; i++ {
		f.hub.Publish(api.TopicSessions, large)
		if i > 20_000 {
			t.Fatal("it was never cut off")
		}
		for int64(i)-read.Load() > 500 {
			time.Sleep(100 * time.Microsecond) // this machine is busy: the quick one keeps up
		}
	}
	f.hub.Publish(api.TopicSessions, api.ControllerSession{Surrogate: "last"})
	<-got
	if code := slow.closedWith(); code != api.ControllerSlow {
		t.Errorf("the slow one was closed with %v", code)
	}
	if n := f.Counts().Cut; n != 1 {
		t.Errorf("%d were cut off", n)
	}
	if !strings.Contains(f.log.String(), "a subscriber was cut off") {
		t.Error("it is not in the log")
	}
}

// TestManyConnections: 200 callers at the same time, all with events.
func TestManyConnections(t *testing.T) {
	f := start(t, nil)
	var peers []*peer
	for range 200 {
		p := f.dial(t, Viewer)
		if _, code, _ := p.call("subscribe", `{"topics":["handoffs"]}`); code != 0 {
			t.Fatal(code)
		}
		peers = append(peers, p)
	}
	if n := f.Counts().Connections; n != 200 {
		t.Errorf("%d connections", n)
	}
	for i := range uint64(10) {
		f.hub.Publish(api.TopicHandoffs, api.ControllerHandoff{ID: i})
	}
	for _, p := range peers {
		for range 10 {
			if e := p.receive(); !strings.Contains(e, `"event"`) {
				t.Fatal(e)
			}
		}
	}
}

// TestMutePeer: one that answers no ping is dropped.
func TestMutePeer(t *testing.T) {
	f := start(t, func(c *Config) { c.Limits.Ping = 50 * time.Millisecond })
	f.dial(t, Viewer) // the library answers pings while it reads
	eventually(t, "it is dropped", func() bool { return f.Counts().Connections == 0 })
	var n exporter.Numbers
	f.Series(&n)
	if !hasNumber(n, "northbound_refused_total", map[string]string{"reason": "silent"}, 1) {
		t.Errorf("%+v", n)
	}
}

func hasNumber(n exporter.Numbers, name string, labels map[string]string, value float64) bool {
	for _, x := range n {
		if x.Name == name && cmp.Equal(x.Labels, labels) && x.Value == value {
			return true
		}
	}
	return false
}

// TestSeries: calls are counted by method and result, and callers choose no label.
func TestSeries(t *testing.T) {
	f := start(t, nil)
	p := f.dial(t, Viewer)
	p.call("topology", "{}")
	p.call("setsurrogate", "{}")
	p.call("anything", "{}")
	f.request(t, Nobody, "GET", "/v1/topology", "")
	f.request(t, Viewer, "GET", "/v1/topology", "")
	var n exporter.Numbers
	f.Series(&n)
	for labels, value := range map[[2]string]float64{{"topology", "ok"}: 2, {"setsurrogate", "forbidden"}: 1, {"unknown", "no-method"}: 1} {
		if !hasNumber(n, "northbound_calls_total", map[string]string{"method": labels[0], "result": labels[1]}, value) {
			t.Errorf("%v is not %v: %+v", labels, value, n)
		}
	}
	if !hasNumber(n, "northbound_connections", nil, 1) || !hasNumber(n, "northbound_refused_total", map[string]string{"reason": "credentials"}, 1) {
		t.Errorf("%+v", n)
	}
}
