package northbound

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/creachadair/jrpc2"
	"golang.org/x/time/rate"

	"baton/api"
)

// The close codes of RFC 6455 and of ours.
const (
	closeGoing  = websocket.StatusGoingAway
	closeSlow   = websocket.StatusCode(api.ControllerSlow)
	closeAccess = websocket.StatusPolicyViolation
)

// connection is a caller's WebSocket.
type connection struct {
	server  *Server
	socket  *websocket.Conn
	request *http.Request // the handshake: who it is
	limiter *rate.Limiter
	slots   chan struct{} // messages that are answered
	sub     *subscriber

	ctx    context.Context
	cancel context.CancelFunc
	ending sync.Once
	closed chan struct{}        // it is being closed: no more events
	why    websocket.CloseError // set before closed is closed

	// order is held for reading from a subscription until its answer has been sent, and for writing by each event: events come after
	// the whole that they change.
	order sync.RWMutex

	mu  sync.Mutex
	who Caller
}

// webSocket admits a caller and serves it until it goes.
func (s *Server) webSocket(w http.ResponseWriter, r *http.Request) {
	who, err := s.identify(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", `Bearer realm="baton"`)
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	c := s.admit(r, who)
	if c == nil {
		s.counts.refuse("connections")
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	defer s.gone(c)
	socket, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.ControllerSubprotocol}, OriginPatterns: s.origins})
	if err != nil {
		s.counts.refuse("handshake") // answered: not a WebSocket, or a page of another origin
		s.log.Debug("a WebSocket was refused", "from", who.Remote, "err", err)
		return
	}
	defer func() { _ = socket.CloseNow() }()
	c.mu.Lock()
	c.socket = socket
	c.mu.Unlock()
	select {
	case <-c.closed: // meanwhile
		_ = socket.Close(c.why.Code, c.why.Reason)
		return
	default:
	}
	if socket.Subprotocol() != api.ControllerSubprotocol {
		_ = socket.Close(websocket.StatusProtocolError, "the subprotocol is "+api.ControllerSubprotocol)
		return
	}
	c.serve()
}

// admit registers a connection, or returns nil if there are too many.
func (s *Server) admit(r *http.Request, who Caller) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.open) >= s.limits.Connections {
		return nil
	}
	s.number++
	who.Connection = s.number
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // that of the request ends at the hijacking
	c := &connection{
		server: s, request: r, who: who, ctx: ctx, cancel: cancel, slots: make(chan struct{}, s.limits.InFlight),
		limiter: rate.NewLimiter(rate.Limit(s.limits.Rate), s.limits.Rate), closed: make(chan struct{}),
	}
	c.sub = s.hub.join(c.cutOff)
	s.open[c] = struct{}{}
	s.ended.Add(1)
	return c
}

func (s *Server) gone(c *connection) {
	c.cancel()
	s.hub.leave(c.sub)
	for range s.limits.InFlight {
		c.slots <- struct{}{} // the calls have ended
	}
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	if who := c.caller(); who.Router != "" && s.serve.Gone != nil {
		s.log.Info("a request router is gone", "router", who.Router, "caller", who.Name, "from", who.Remote)
		s.serve.Gone(who)
	}
	s.ended.Done()
}

func (c *connection) caller() Caller {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.who
}

// introduce gives the connection a request router's name, unless it has one, and returns the one that it has.
func (c *connection) introduce(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.who.Router == "" {
		c.who.Router = name
	}
	return c.who.Router
}

// end closes the connection with a reason. It does not wait: a peer that does not read would hold it for seconds.
func (c *connection) end(code websocket.StatusCode, reason string) {
	c.ending.Do(func() {
		c.why = websocket.CloseError{Code: code, Reason: reason}
		close(c.closed)
		c.mu.Lock()
		socket := c.socket
		c.mu.Unlock()
		if socket == nil {
			return // it is being admitted
		}
		go func() {
			_ = socket.Close(code, reason)
			c.cancel()
		}()
	})
}

// rawKey is that of a request's TCP or TLS connection in its context.
type rawKey struct{}

// kill ends the connection at once. The library, once it closes, waits five seconds for a peer that does not answer, whatever it is told.
func (c *connection) kill() {
	c.cancel()
	raw, _ := c.request.Context().Value(rawKey{}).(net.Conn)
	if encrypted, ok := raw.(*tls.Conn); ok {
		raw = encrypted.NetConn() // without the farewell, which would wait as well
	}
	if raw != nil {
		_ = raw.Close()
	}
}

// serve reads messages until the connection ends. A message waits for one of the slots: a caller who sends more than is answered is
// not read from.
func (c *connection) serve() {
	c.socket.SetReadLimit(c.server.limits.Message)
	go c.events()
	go c.pings()
	for {
		kind, message, err := c.socket.Read(c.ctx)
		if err != nil {
			return
		}
		if kind != websocket.MessageText {
			_ = c.socket.Close(websocket.StatusUnsupportedData, "messages are text")
			return
		}
		if err := c.limiter.Wait(c.ctx); err != nil {
			return
		}
		select {
		case c.slots <- struct{}{}:
		case <-c.ctx.Done():
			return
		}
		go func() {
			defer func() { <-c.slots }()
			c.answer(message)
		}()
	}
}

// response is an answer to a call. An id of null belongs to what was not read as a call.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *jrpc2.Error    `json:"error,omitempty"`
}

// answer carries out a message's calls, one after another, and sends the results.
func (c *connection) answer(message []byte) {
	requests, refusal := c.server.parse(message)
	if slices.ContainsFunc(requests, func(r *jrpc2.ParsedRequest) bool { return r.Method == api.CallSubscribe }) {
		c.order.RLock()
		defer c.order.RUnlock()
	}
	reply := refusal
	if requests != nil {
		reply = c.server.handle(c.ctx, c, requests)
	}
	if len(reply) > 0 && c.write(reply) != nil {
		c.cancel()
	}
}

// parse returns a message's requests, or the answer to what has none.
func (s *Server) parse(message []byte) (requests []*jrpc2.ParsedRequest, refusal []byte) {
	requests, err := jrpc2.ParseRequests(message)
	var refused *jrpc2.Error
	switch {
	case err != nil:
		refused = &jrpc2.Error{Code: jrpc2.ParseError, Message: "this is not JSON"}
	case len(requests) == 0:
		refused = &jrpc2.Error{Code: jrpc2.InvalidRequest, Message: "a batch without calls"}
	case len(requests) > s.limits.Batch:
		refused = jrpc2.Errorf(jrpc2.InvalidRequest, "a batch has at most %d calls", s.limits.Batch)
	default:
		return requests, nil
	}
	s.counts.call("unknown", refused.Code)
	return nil, encode(failed("", refused))
}

// handle returns the answer to requests, or nothing if all are notifications.
func (s *Server) handle(ctx context.Context, c *connection, requests []*jrpc2.ParsedRequest) []byte {
	answers := make([]response, 0, len(requests))
	for _, r := range requests {
		if a, ok := s.one(ctx, c, r); ok {
			answers = append(answers, a)
		}
	}
	switch {
	case len(answers) == 0:
		return nil
	case !requests[0].Batch:
		return encode(answers[0])
	}
	return encode(answers)
}

// one carries out one call. There is no answer to a notification.
func (s *Server) one(ctx context.Context, c *connection, r *jrpc2.ParsedRequest) (response, bool) {
	switch {
	case r.Error != nil:
		s.counts.call("unknown", r.Error.Code)
		wrong := *r.Error
		if wrong.Code == jrpc2.ParseError {
			wrong.Code = jrpc2.InvalidRequest // it is JSON, and no request
		}
		return failed(r.ID, &wrong), true
	case r.Method == "":
		s.counts.call("unknown", jrpc2.InvalidRequest)
		return failed(r.ID, &jrpc2.Error{Code: jrpc2.InvalidRequest, Message: "no method"}), true
	}
	result, err := s.call(ctx, c, r.Method, r.Params)
	if r.ID == "" {
		return response{}, false
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(result)
	}
	if err != nil {
		return failed(r.ID, rpcError(err)), true
	}
	return response{Version: jrpc2.Version, ID: json.RawMessage(r.ID), Result: text}, true
}

func failed(id string, err *jrpc2.Error) response {
	if id == "" {
		id = "null"
	}
	return response{Version: jrpc2.Version, ID: json.RawMessage(id), Error: err}
}

// encode writes an answer. What is not JSON in it is a mistake of ours, and told as such.
func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	return out
}

func (c *connection) write(message []byte) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.server.limits.Write)
	defer cancel()
	return c.socket.Write(ctx, websocket.MessageText, message)
}

// events sends events.
func (c *connection) events() {
	for {
		select {
		case <-c.closed:
			return
		case <-c.ctx.Done():
			return
		case message := <-c.sub.queue:
			c.sub.bytes.Add(-int64(len(message)))
			if !c.event(message) {
				c.cancel()
				return
			}
		}
	}
}

func (c *connection) event(message []byte) bool {
	c.order.Lock()
	defer c.order.Unlock()
	select {
	case <-c.closed:
		return true
	default:
		return c.write(message) == nil
	}
}

func (c *connection) cutOff() {
	who := c.caller()
	c.server.log.Warn("a subscriber was cut off: it reads events too slowly", "caller", who.Name, "from", who.Remote)
	c.end(closeSlow, "events were not read fast enough")
}

// pings notices a caller that has vanished.
func (c *connection) pings() {
	tick := time.NewTicker(c.server.limits.Ping)
	defer tick.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.server.limits.Ping)
		err := c.socket.Ping(ctx)
		cancel()
		if err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				c.server.counts.refuse("silent")
			}
			c.cancel()
			return
		}
	}
}

// subscribe follows topics, and returns what they are. Events that arrive meanwhile wait for the answer: nothing is missed, and an
// event may be older than what the answer has.
func (s *Server) subscribe(_ context.Context, c *connection, p api.ControllerSubscription) (map[api.ControllerTopic]any, error) {
	if err := c.topics(p); err != nil {
		return nil, err
	}
	values, err := s.begin(c, p.Topics)
	if err != nil {
		for _, t := range p.Topics {
			s.hub.follow(c.sub, t, false)
		}
		return nil, err
	}
	return values, nil
}

func (s *Server) begin(c *connection, all []api.ControllerTopic) (map[api.ControllerTopic]any, error) {
	values := map[api.ControllerTopic]any{}
	for _, t := range all {
		s.hub.follow(c.sub, t, true)
		v, err := s.snapshot(t)
		if err != nil {
			return nil, err
		}
		values[t] = v
	}
	return values, s.master(all) // after following: whoever is not the master any more dismisses those that follow
}

func (s *Server) unsubscribe(_ context.Context, c *connection, p api.ControllerSubscription) (none, error) {
	if err := c.topics(p); err != nil {
		return none{}, err
	}
	for _, t := range p.Topics {
		s.hub.follow(c.sub, t, false)
	}
	return none{}, nil
}

func (c *connection) topics(p api.ControllerSubscription) error {
	if len(p.Topics) == 0 {
		return invalid("topics", "are a list of at least one: %v", allTopics())
	}
	for _, t := range p.Topics {
		role, ok := topics[t]
		if !ok {
			return invalid("topics", "have no %q: they are %v", cut(string(t), maxName), allTopics())
		}
		if err := permit(c.who.Role, role, "the topic "+string(t)); err != nil {
			return err
		}
	}
	return nil
}

// master refuses topics of request routers where another controller is the master.
func (s *Server) master(all []api.ControllerTopic) error {
	if s.source.Master == nil || !slices.ContainsFunc(all, ofRouters) {
		return nil
	}
	return s.source.Master()
}

func allTopics() []api.ControllerTopic {
	var all []api.ControllerTopic
	for t := range topics {
		all = append(all, t)
	}
	slices.Sort(all)
	return all
}
