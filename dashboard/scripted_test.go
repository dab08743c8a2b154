package dashboard

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/api"

	"github.com/coder/websocket"
)

// script is a controller that says what a test wants.
type script struct {
	t       *testing.T
	address string
	server  *http.Server

	mu       sync.Mutex
	token    string // demanded, unless empty
	role     string // of every caller
	refuse   string // the error of setsurrogate
	missing  string // a topic that cannot be subscribed to
	state    map[string]any
	sessions []api.ControllerSession // in pages, if there are more than state has
	clients  map[*websocket.Conn]bool
	changes  []change
}

// change is a call of setsurrogate.
type change struct {
	Name   string                        `json:"name"`
	Change api.ControllerSurrogateChange `json:"change"`
}

// newScript is a controller with the scenario's data, at an address of its own.
func newScript(t *testing.T, state map[string]any) *script {
	s := &script{t: t, role: "operator", state: state, clients: map[*websocket.Conn]bool{}}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *script) start() {
	s.t.Helper()
	listener, err := net.Listen("tcp", cmp.Or(s.address, "127.0.0.1:0"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	page := Handler()
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/ws":
			s.accept(w, r)
		case "/v1/surrogates":
			if !s.allowed(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")) {
				http.Error(w, "a token is needed", http.StatusUnauthorized)
			}
		default:
			page.ServeHTTP(w, r)
		}
	})}
	go func(server *http.Server) {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.t.Error(err)
		}
	}(s.server)
}

// stop ends the controller as a killed process ends.
func (s *script) stop() {
	_ = s.server.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		_ = c.CloseNow()
	}
}

func (s *script) allowed(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token == "" || token == s.token
}

// tokenOf is the token in the subprotocols, where a page can put it.
func tokenOf(r *http.Request) string {
	for p := range strings.SplitSeq(r.Header.Get("Sec-WebSocket-Protocol"), ",") {
		if coded, ok := strings.CutPrefix(strings.TrimSpace(p), "bearer."); ok {
			token, _ := base64.RawURLEncoding.DecodeString(coded)
			return string(token)
		}
	}
	return ""
}

func (s *script) accept(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(tokenOf(r)) {
		http.Error(w, "a token is needed", http.StatusUnauthorized)
		return
	}
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"jsonrpc"}})
	if err != nil {
		s.t.Error(err)
		return
	}
	defer func() { _ = c.CloseNow() }()
	for {
		_, message, err := c.Read(context.Background())
		if err != nil {
			s.mu.Lock()
			delete(s.clients, c)
			s.mu.Unlock()
			return
		}
		s.answer(c, message)
	}
}

// answer answers a call.
func (s *script) answer(c *websocket.Conn, message []byte) {
	var call struct {
		ID     int             `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(message, &call); err != nil {
		s.t.Errorf("the page sent %q: %v", message, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := map[string]any{"jsonrpc": "2.0", "id": call.ID}
	switch call.Method {
	case "subscribe":
		var asked struct {
			Topics []string `json:"topics"`
		}
		if err := json.Unmarshal(call.Params, &asked); err != nil {
			s.t.Error(err)
		}
		if slices.Contains(asked.Topics, s.missing) {
			answer["error"] = map[string]any{"code": 4503, "message": "this controller has no " + s.missing}
			break
		}
		s.clients[c] = true
		whole := map[string]any{}
		for _, topic := range asked.Topics {
			whole[topic] = s.state[topic]
		}
		answer["result"] = whole
	case "setsurrogate":
		var asked change
		if s.role != "operator" {
			answer["error"] = map[string]any{"code": 4403, "message": "setsurrogate is for the role operator"}
			break
		}
		if err := json.Unmarshal(call.Params, &asked); err != nil {
			answer["error"] = map[string]any{"code": -32602, "message": err.Error()}
			break
		}
		if s.refuse != "" {
			answer["error"] = map[string]any{"code": 4409, "message": s.refuse}
			break
		}
		s.changes = append(s.changes, asked)
		answer["result"] = s.changed(asked)
	case "surrogates":
		answer["result"] = s.state["surrogates"]
	case "sessions":
		var page struct {
			Limit int    `json:"limit"`
			After string `json:"after"`
		}
		if err := json.Unmarshal(call.Params, &page); err != nil {
			s.t.Error(err)
		}
		at := slices.IndexFunc(s.sessions, func(one api.ControllerSession) bool {
			return one.Client.String()+" "+one.Service.String() == page.After
		})
		rest := s.sessions[at+1:]
		answer["result"] = rest[:min(page.Limit, len(rest))]
	default:
		answer["error"] = map[string]any{"code": -32601, "message": "no such call"}
	}
	s.write(c, answer)
}

func (s *script) changed(asked change) api.ControllerSurrogate {
	list := s.state["surrogates"].([]api.ControllerSurrogate)
	for i := range list {
		if list[i].Name != asked.Name {
			continue
		}
		if asked.Change.Weight != nil {
			list[i].Weight = *asked.Change.Weight
		}
		if asked.Change.State != nil {
			list[i].State = *asked.Change.State
		}
		return list[i]
	}
	s.t.Errorf("the page changed %q, which does not exist", asked.Name)
	return api.ControllerSurrogate{}
}

func (s *script) write(c *websocket.Conn, message any) {
	text, err := json.Marshal(message)
	if err != nil {
		s.t.Error(err)
		return
	}
	_ = c.Write(context.Background(), websocket.MessageText, text) // the page may be gone
}

// send tells every subscriber of a change.
func (s *script) send(topic string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		s.write(c, map[string]any{"jsonrpc": "2.0", "method": "event", "params": map[string]any{"topic": topic, "value": value}})
	}
}

// asked are the calls of setsurrogate so far.
func (s *script) asked() []change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]change(nil), s.changes...)
}

// set changes the script while the page may be connected.
func (s *script) set(f func(*script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// each does something to every connection, and waits for the first.
func (s *script) each(f func(*websocket.Conn)) {
	var all []*websocket.Conn
	for end := time.Now().Add(patience); len(all) == 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		s.set(func(s *script) { all = slices.Collect(maps.Keys(s.clients)) })
	}
	if len(all) == 0 {
		s.t.Fatal("no page has subscribed")
	}
	for _, c := range all {
		f(c)
	}
}
