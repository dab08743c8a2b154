package northbound

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"baton/api"
)

// secrets are the tokens of the tests, by role.
var secrets = map[Role]string{Viewer: "viewer-0123456789abcdef", Router: "router-0123456789abcdef", Operator: "operator-0123456789abcd"}

func tokens() []Token {
	var all []Token
	for role, secret := range secrets {
		all = append(all, NewToken(role, secret, "the-"+role.String()))
	}
	return all
}

func port(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// fixture is a server with a state of the network.
type fixture struct {
	*Server
	hub     *Hub
	address string
	log     *syncBuffer

	mu    sync.Mutex
	calls []string // of the controller's modules
	gone  []Caller
	fail  error
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (f *fixture) called(format string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.fail
}

func (f *fixture) source() Source {
	return Source{
		Topology: func() api.ControllerTopology {
			return api.ControllerTopology{Switches: []api.ControllerSwitch{{ID: "0000000000000001", Name: "access"}}}
		},
		Sessions: func() []api.ControllerSession {
			return []api.ControllerSession{
				{Client: port("10.1.0.3:1"), Service: port("10.9.9.9:80"), State: api.ControllerClosed},
				{Client: port("10.1.0.2:40000"), Service: port("10.9.9.9:80"), State: api.ControllerEstablished, Since: t0},
			}
		},
		Handoffs: func() []api.ControllerHandoff { return []api.ControllerHandoff{{ID: 1}, {ID: 2}, {ID: 3}} },
		Surrogates: func() []api.ControllerSurrogate {
			return []api.ControllerSurrogate{{Name: "se2", Weight: 1}, {Name: "se1", Weight: 100}}
		},
		Decisions: func() []api.RoutingDecision {
			return []api.RoutingDecision{{Time: t0, Method: "dns"}, {Time: t0.Add(time.Second), Method: "handoff"}}
		},
		Rates:     func() api.ControllerRates { return api.ControllerRates{PacketIns: 3} },
		Distances: func() api.ControllerDistances { return api.ControllerDistances{} },
	}
}

func (f *fixture) modules() Calls {
	return Calls{
		Hello: func(_ context.Context, c Caller, p api.ControllerHello) (api.ControllerWelcome, error) {
			return api.ControllerWelcome{Version: "v", Strip: true}, f.called("hello %s %s %s", c.Router, p.Name, p.Service)
		},
		SetRequestSize: func(_ context.Context, c Caller, p api.ControllerRequestSize) error {
			return f.called("size %s %s %d %s", p.Client, p.Leg.Local, p.Size, p.Request)
		},
		GetMatchingSession: func(_ context.Context, c Caller, p api.ControllerSessionKey) (api.ControllerMatch, error) {
			return api.ControllerMatch{Surrogate: "se1", Host: "se1.example", Leg: api.RouterLeg{Local: port("10.9.0.1:7"), Remote: port("10.2.0.2:80")}},
				f.called("match %s", p.Client)
		},
		Proxied: func(_ context.Context, c Caller, p api.ControllerProxied) error {
			if p.Why == "panic" {
				panic("a module fails")
			}
			return f.called("proxied %s %s", p.Client, p.Why)
		},
		SetSurrogate: func(_ context.Context, c Caller, p api.ControllerSurrogateSet) (api.ControllerSurrogate, error) {
			if p.Name != "se1" {
				return api.ControllerSurrogate{}, fmt.Errorf("surrogate %q: %w", p.Name, api.ErrNotFound)
			}
			return api.ControllerSurrogate{Name: p.Name, Weight: 7}, f.called("set %s by %s", p.Name, c.Name)
		},
		Gone: func(c Caller) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.gone = append(f.gone, c)
		},
	}
}

// start starts a server; change may alter what it is made of.
func start(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{hub: NewHub(), log: &syncBuffer{}}
	c := Config{
		Source: f.source(), Calls: f.modules(), Hub: f.hub, Access: Access{Tokens: tokens()}, Version: "v1.2",
		Log: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&c)
	}
	f.Server = New(c)
	f.serveOn(t, nil)
	return f
}

func (f *fixture) request(t testing.TB, role Role, method, path, text string) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+f.address+path, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if role != Nobody {
		r.Header.Set("Authorization", "Bearer "+secrets[role])
	}
	if text != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(all), res.Header
}

// peer is a caller's end of a WebSocket.
type peer struct {
	*websocket.Conn
	t    testing.TB
	next int
}

func (f *fixture) dial(t testing.TB, role Role) *peer {
	t.Helper()
	header := http.Header{}
	if role != Nobody {
		header.Set("Authorization", "Bearer "+secrets[role])
	}
	c, _, err := websocket.Dial(t.Context(), "ws://"+f.address+"/v1/ws", &websocket.DialOptions{
		HTTPHeader: header, Subprotocols: []string{api.ControllerSubprotocol},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	return &peer{Conn: c, t: t}
}

func (p *peer) send(text string) {
	p.t.Helper()
	if err := p.Write(p.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	_, text, err := p.Read(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// call returns a result, or the error's code and text.
func (p *peer) call(method, params string) (result string, code int, message string) {
	p.t.Helper()
	p.next++
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, p.next, method, params))
	var answer struct {
		ID     int
		Result json.RawMessage
		Error  struct {
			Code    int
			Message string
		}
	}
	text := p.receive()
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.ID != p.next {
		p.t.Fatalf("the answer to %d is %s (%v)", p.next, text, err)
	}
	return string(answer.Result), answer.Error.Code, answer.Error.Message
}

// closedWith reads until the connection ends, and returns the code.
func (p *peer) closedWith() websocket.StatusCode {
	ctx, cancel := context.WithTimeout(p.t.Context(), 20*time.Second)
	defer cancel()
	for {
		if _, _, err := p.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within ten seconds: %s", what)
		}
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
