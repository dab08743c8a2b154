package nameserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"baton/api"
)

// northbound is a controller as the name server sees it.
type northbound struct {
	t  *testing.T
	at string

	mu                    sync.Mutex
	surrogates, distances string // JSON
	conns                 []*websocket.Conn
	server                *http.Server
}

func (c *northbound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.ControllerSubprotocol}})
	if err != nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	for {
		_, message, err := conn.Read(context.Background())
		if err != nil {
			return
		}
		var call struct{ ID json.RawMessage }
		_ = json.Unmarshal(message, &call)
		c.mu.Lock()
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"surrogates":%s,"distances":%s}}`, call.ID, c.surrogates, c.distances)
		_ = conn.Write(context.Background(), websocket.MessageText, []byte(text))
		c.conns = append(c.conns, conn)
		c.mu.Unlock()
	}
}

func (c *northbound) open() {
	c.t.Helper()
	l, err := net.Listen("tcp", c.at)
	if err != nil {
		c.t.Fatal(err)
	}
	c.at = l.Addr().String()
	c.server = &http.Server{Handler: c}
	go func() { _ = c.server.Serve(l) }()
}

func (c *northbound) close() {
	_ = c.server.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.CloseNow()
	}
	c.conns = nil
}

func (c *northbound) tell(topic, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"event","params":{"topic":%q,"value":%s}}`, topic, value))
	}
}

func told(name string, up bool, state string, weight, sessions int) string {
	text, _ := json.Marshal(api.ControllerSurrogate{Name: name, Up: up, State: state, Weight: weight, Sessions: sessions, Error: "as the controller says"})
	return string(text)
}

// source waits until the state of the surrogates has a source.
func (n *network) source(want string) api.NameserverStatus {
	n.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		s, err := n.Status()
		if err != nil {
			n.t.Fatal(err)
		}
		if s.Controller.Source == want {
			return s
		}
		if time.Now().After(until) {
			n.t.Fatalf("source %+v, want %s", s.Controller, want)
		}
	}
}

// TestController: health, weights, maintenance, sessions and distances are the controller's while it is there, and for a bounded time after; then the checks'.
// What an operator has decided there holds on.
func TestController(t *testing.T) {
	c := &northbound{t: t, at: "127.0.0.1:0", surrogates: "[" + told("se1", false, "in-service", 1, 0) + "," + told("se2", true, "in-service", 1, 0) + "]", distances: `{"zones":[]}`}
	c.open()
	c.close() // it is not there yet
	n := &network{t: t, dir: t.TempDir()}
	token := n.write("token", "secret\n")
	n = startWith(t, fmt.Sprintf("controller: {url: \"ws://%s\", token_file: %s, keep: 1s}\n", c.at, token))
	const west, east = "192.0.2.0/26", "192.0.2.200/32"
	n.source("checks")
	n.eventually(west, "127.0.0.2")

	c.open()
	defer func() { c.close() }()
	n.source("controller")
	n.eventually(west, "127.0.0.3") // the checks pass
	c.tell("surrogates", told("se1", true, "in-service", 1, 4))
	n.eventually(west, "127.0.0.2")
	c.tell("surrogates", told("se1", true, "in-service", 1, 5)) // the site's capacity
	n.eventually(west, "127.0.0.3")
	if x, err := n.Query(api.NameserverQuestion{Name: "cdn.example.test"}); err != nil || !strings.Contains(strings.Join(x.Because, "\n"), "west is at 100 % of 5 sessions: spills to east") {
		t.Errorf("%+v, %v", x, err)
	}
	if s := n.source("controller"); len(s.Sites) != 2 || !s.Sites[0].Full || s.Sites[0].Sessions != 5 || s.Surrogates[0].Source != "controller" || !s.Controller.Connected {
		t.Errorf("%+v, %+v, %+v", s.Sites, s.Surrogates, s.Controller)
	}
	c.tell("surrogates", told("se1", true, "maintenance", 1, 0))
	c.tell("surrogates", `"nonsense"`)
	c.tell("distances", `{"zones":[{"prefix":"203.0.113.0/24","surrogates":["se2","se1"]},{"prefix":"","surrogates":["se1"]}]}`)
	for until := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		s := n.source("controller")
		if s.Controller.Malformed == 1 && s.Controller.Zones == 1 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%+v", s.Controller)
		}
	}
	c.tell("surrogates", told("se1", true, "in-service", 1, 0))
	n.eventually(west, "127.0.0.2")
	n.eventually("203.0.113.0/24", "127.0.0.3") // by distance
	c.tell("surrogates", told("se2", false, "maintenance", 1, 0))
	n.eventually(east, "127.0.0.2")
	c.tell("surrogates", told("se1", false, "in-service", 1, 0))
	n.eventually(east, "192.0.2.99")

	c.close()
	n.source("kept")
	if got, _ := n.addresses("cdn.example.test.", west); got != "192.0.2.99" {
		t.Errorf("its last word: %s", got)
	}
	s := n.source("checks")
	if s.Controller.Connected || s.Controller.Heard == nil || s.Controller.Error == "" || s.Surrogates[1].State != "maintenance" || s.Surrogates[1].Source != "checks" {
		t.Errorf("%+v, %+v", s.Controller, s.Surrogates)
	}
	n.eventually(west, "127.0.0.2")
	n.eventually(east, "127.0.0.2") // se2 passes its checks, and is in maintenance

	c.mu.Lock()
	c.surrogates = "[" + told("se2", true, "in-service", 1, 0) + "]"
	c.mu.Unlock()
	c.open()
	s = n.source("controller")
	n.eventually(east, "127.0.0.3")
	if s, _ = n.Status(); s.Surrogates[0].Source != "checks" || s.Controller.Connections < 2 {
		t.Errorf("a surrogate that the controller lacks: %+v", s.Surrogates)
	}
}
