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

	faults  sync.Mutex
	stopped bool // faults do not count any more

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
	s.faults.Lock()
	s.stopped = false
	s.faults.Unlock()
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
			s.fault("%v", err)
		}
	}(s.server)
}

// stop ends the controller as a killed process ends.
func (s *script) stop() {
	s.faults.Lock()
	s.stopped = true
	s.faults.Unlock()
	_ = s.server.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		_ = c.CloseNow()
	}
}

// fault fails the test, unless the controller has been stopped.
func (s *script) fault(format string, arguments ...any) {
	s.faults.Lock()
	defer s.faults.Unlock()
	if !s.stopped {
		s.t.Errorf(format, arguments...)
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
		s.fault("%v", err)
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
		s.fault("the page sent %q: %v", message, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	result, refused := s.call(c, call.Method, call.Params)
	if refused != nil {
		s.write(c, map[string]any{"jsonrpc": "2.0", "id": call.ID, "error": refused})
		return
	}
	s.write(c, map[string]any{"jsonrpc": "2.0", "id": call.ID, "result": result})
}

// refusal is an error of JSON-RPC.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// params are those of the calls that read.
type params struct {
	Topics []string `json:"topics"`
	Limit  int      `json:"limit"`
	After  string   `json:"after"`
}

func (s *script) call(c *websocket.Conn, method string, text json.RawMessage) (any, *refusal) {
	if method == "setsurrogate" {
		return s.setSurrogate(text)
	}
	var p params
	if err := json.Unmarshal(text, &p); err != nil {
		s.fault("%s has the parameters %s: %v", method, text, err)
	}
	switch method {
	case "subscribe":
		if slices.Contains(p.Topics, s.missing) {
			return nil, &refusal{4503, "this controller has no " + s.missing}
		}
		s.clients[c] = true
		whole := map[string]any{}
		for _, topic := range p.Topics {
			whole[topic] = s.state[topic]
		}
		return whole, nil
	case "surrogates":
		return s.state["surrogates"], nil
	case "sessions":
		at := slices.IndexFunc(s.sessions, func(one api.ControllerSession) bool {
			return one.Client.String()+" "+one.Service.String() == p.After
		})
		rest := s.sessions[at+1:]
		return rest[:min(p.Limit, len(rest))], nil
	}
	s.fault("the page called %q", method)
	return nil, &refusal{-32601, "no such call"}
}

// setSurrogate checks the role first, as controllers do.
func (s *script) setSurrogate(text json.RawMessage) (any, *refusal) {
	var asked change
	if s.role != "operator" {
		return nil, &refusal{4403, "setsurrogate is for the role operator"}
	}
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, &refusal{-32602, err.Error()}
	}
	if s.refuse != "" {
		return nil, &refusal{4409, s.refuse}
	}
	s.changes = append(s.changes, asked)
	return s.changed(asked), nil
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
	s.fault("the page changed %q, which does not exist", asked.Name)
	return api.ControllerSurrogate{}
}

func (s *script) write(c *websocket.Conn, message any) {
	text, err := json.Marshal(message)
	if err != nil {
		s.fault("%v", err)
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
