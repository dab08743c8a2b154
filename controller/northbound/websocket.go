package northbound

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/creachadair/jrpc2"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"baton/api"
)

// The close codes of RFC 6455 and of ours.
const (
	closeGoing  = websocket.StatusGoingAway
	closeSlow   = websocket.StatusCode(api.ControllerSlow)
	closeAccess = websocket.StatusPolicyViolation
)

// parsed is about what a call has in memory, in bytes, besides its text.
const parsed = 512

// connection is a caller's WebSocket.
type connection struct {
	server  *Server
	socket  *websocket.Conn
	request *http.Request // the handshake: who it is
	limiter *rate.Limiter
	sub     *subscriber
	holder  *holder

	// What bounds messages that are answered: their number, their bytes, and how many ask for lists.
	slots, unanswered, lists *semaphore.Weighted

	writes sync.Mutex // held for a message

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
		server: s, request: r, who: who, ctx: ctx, cancel: cancel, closed: make(chan struct{}),
		limiter: rate.NewLimiter(rate.Limit(s.limits.Rate), s.limits.Rate), slots: semaphore.NewWeighted(int64(s.limits.InFlight)),
		unanswered: semaphore.NewWeighted(s.limits.Message), lists: semaphore.NewWeighted(int64(s.limits.ListCalls)),
	}
	c.sub = s.hub.join(c.cutOff)
	c.holder = s.budget.join(&holder{queued: c.sub.bytes.Load, end: c.unread})
	s.open[c] = struct{}{}
	s.ended.Add(1)
	return c
}

func (s *Server) gone(c *connection) {
	c.cancel()
	s.hub.leave(c.sub)
	_ = c.slots.Acquire(context.Background(), int64(s.limits.InFlight)) // the calls have ended
	s.budget.leave(c.holder)
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
	hangUp(c.request)
}

// hangUp closes a request's TCP connection.
func hangUp(r *http.Request) {
	raw, _ := r.Context().Value(rawKey{}).(net.Conn)
	if encrypted, ok := raw.(*tls.Conn); ok {
		raw = encrypted.NetConn() // without the farewell, which would wait as well
	}
	if raw != nil {
		_ = raw.Close()
	}
}

// serve reads messages until the connection ends. A message waits until the connection may have one more answered: a caller who sends
// more than is answered is not read from.
func (c *connection) serve() {
	c.socket.SetReadLimit(c.server.limits.Message)
	go c.events()
	go c.pings()
	for {
		kind, text, err := c.socket.Read(c.ctx)
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
		requests, refusal := c.server.parse(text)
		done, err := c.reserve(len(text)+parsed*len(requests), slices.ContainsFunc(requests, c.server.lists))
		if err != nil {
			return
		}
		go func() {
			defer done()
			c.answer(requests, refusal)
		}()
	}
}

// reserve waits until one more message may be answered. The function that it returns is called when it has been.
func (c *connection) reserve(size int, lists bool) (done func(), err error) {
	type taken struct {
		of *semaphore.Weighted
		n  int64
	}
	all := []taken{{c.slots, 1}, {c.unanswered, min(int64(size), c.server.limits.Message)}}
	if lists {
		all = append(all, taken{c.lists, 1})
	}
	for i, t := range all {
		if err := t.of.Acquire(c.ctx, t.n); err != nil {
			for _, t := range all[:i] {
				t.of.Release(t.n)
			}
			return nil, err
		}
	}
	return func() {
		for _, t := range all {
			t.of.Release(t.n)
		}
	}, nil
}

// answer carries out a message's calls, one after another, and sends the results.
func (c *connection) answer(requests []*jrpc2.ParsedRequest, refusal *reply) {
	if slices.ContainsFunc(requests, func(r *jrpc2.ParsedRequest) bool { return r.Method == api.CallSubscribe }) {
		c.order.RLock()
		defer c.order.RUnlock()
	}
	answer := refusal
	if requests != nil {
		answer = c.server.handle(c.ctx, c, requests)
		defer func() { c.server.budget.taken(c.holder, answer.bytes) }()
	}
	if answer.bytes > 0 && c.write(answer.parts) != nil {
		c.cancel()
	}
}

// events sends events.
func (c *connection) events() {
	for {
		select {
		case <-c.closed:
			return
		case <-c.ctx.Done():
			return
		case m := <-c.sub.queue:
			ok := c.event(m.text)
			c.server.hub.sent(c.sub, m)
			if !ok {
				c.cancel()
				return
			}
		}
	}
}

func (c *connection) event(text []byte) bool {
	c.order.Lock()
	defer c.order.Unlock()
	select {
	case <-c.closed:
		return true
	default:
		return c.write([][]byte{text}) == nil
	}
}

func (c *connection) cutOff() {
	who := c.caller()
	c.server.log.Warn("a subscriber was cut off: it reads events too slowly", "caller", who.Name, "from", who.Remote)
	c.end(closeSlow, "events were not read fast enough")
}

// unread ends the connection of a caller that does not read.
func (c *connection) unread() {
	c.server.cutUnread(c.caller())
	c.kill()
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
