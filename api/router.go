package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// RouterSessionState is the state of a session.
type RouterSessionState string

// The states of a session.
const (
	RouterSessionPending RouterSessionState = "pending" // the client's request is not decided yet
	RouterSessionSpliced RouterSessionState = "spliced"
	RouterSessionClosing RouterSessionState = "closing" // FIN seen from one or both ends
)

// RouterSession is a client's session with a VIP, of TCP or QUIC; of QUIC, bytes are those of datagrams, and requests are not seen.
type RouterSession struct {
	Client    netip.AddrPort     `json:"client"`
	VIP       netip.AddrPort     `json:"vip"`
	Surrogate string             `json:"surrogate,omitempty"` // "" while pending
	Leg       RouterLeg          `json:"leg,omitzero"`
	State     RouterSessionState `json:"state"`
	Since     time.Time          `json:"since"`    // the client's SYN
	IdleFor   time.Duration      `json:"idle_ns"`  // since the last packet in either direction
	Received  uint64             `json:"received"` // bytes of TCP payload from the client, including retransmissions
	Sent      uint64             `json:"sent"`     // bytes of TCP payload to the client, including retransmissions
	Requests  uint64             `json:"requests"` // decided on this session
}

// RouterLeg is the server leg that a session is spliced onto.
type RouterLeg struct {
	Local  netip.AddrPort `json:"local"`  // the router's end
	Remote netip.AddrPort `json:"remote"` // the surrogate
}

// RouterStatus is the status of a router.
type RouterStatus struct {
	Process

	Features   []Feature         `json:"features"`
	Interfaces []RouterInterface `json:"interfaces"`
	VIPs       []RouterVIP       `json:"vips"`
	Pools      []RouterPool      `json:"pools"`
	Sessions   int               `json:"sessions"` // spliced or pending
	Limit      int               `json:"limit"`    // of places, for sessions and legs together
	Places     int               `json:"places"`   // in use: by sessions, idle legs and legs that are being opened
	Full       bool              `json:"full"`     // a leg has lacked a place within the last seconds

	Packets map[string]uint64 `json:"packets"` // by verdict

	AccessLogs []RouterAccessLog `json:"access_logs,omitempty"`

	Overlaps []RouterOverlap `json:"overlaps,omitempty"`
	Warnings []string        `json:"warnings,omitempty"` // about certificates, one line each: "file:line:column: key.path: what"; about surrogates that are not from the file

	LeftOut      []string       `json:"left_out,omitempty"` // surrogates that a source or the API has, but that cannot be in their pool; one line each
	Changes      []RouterChange `json:"changes,omitempty"`  // by API
	Merges       uint64         `json:"merges"`             // times that sources or the API have changed what is in force
	MergesFailed uint64         `json:"merges_failed"`

	QUIC *RouterQUIC `json:"quic,omitempty"` // nil without VIPs of protocol quic
}

// RouterQUIC is the data path for VIPs of protocol quic.
type RouterQUIC struct {
	Sessions int               `json:"sessions"` // clients' addresses with a surrogate
	Limit    int               `json:"limit"`    // of sessions
	Held     int               `json:"held"`     // first flights whose hello is not whole
	Made     uint64            `json:"made"`     // sessions by a hello
	Moved    uint64            `json:"moved"`    // sessions by a connection id: the client's address has changed
	Refused  map[string]uint64 `json:"refused"`  // connections, by reason
	Expired  uint64            `json:"expired"`  // first flights whose hello did not become whole in time
	Evicted  uint64            `json:"evicted"`  // first flights that made room for others
	Packets  map[string]uint64 `json:"packets"`  // by verdict

	Unproven     int               `json:"unproven"`      // sessions by a connection id whose client may be forged
	MovedEvicted map[string]uint64 `json:"moved_evicted"` // such sessions that had to go for others, by reason
}

// RouterAccessLog is one output of the access log, in records.
type RouterAccessLog struct {
	Output  string            `json:"output"` // "file /var/log/baton/access.log"
	Written uint64            `json:"written"`
	Skipped uint64            `json:"skipped"`         // not in the sample
	Lost    map[string]uint64 `json:"lost"`            // by reason: queue, size, rejected, closing, kernel
	Waiting int               `json:"waiting"`         // bytes
	Error   string            `json:"error,omitempty"` // why nothing is written now
}

// RouterInterface is an interface that the data path is attached to.
type RouterInterface struct {
	Name     string `json:"name"`
	Attached bool   `json:"attached"`
	Reason   string `json:"reason,omitempty"` // why not
}

// RouterVIP is an address that clients connect to.
type RouterVIP struct {
	Address    netip.AddrPort `json:"address"`
	Mode       string         `json:"mode"`          // handoff, redirect or proxy
	Protocol   string         `json:"protocol"`      // http, tls or quic
	TLS        bool           `json:"tls,omitempty"` // of protocol http: the router ends TLS
	Routes     int            `json:"routes"`
	Pipelining string         `json:"pipelining,omitempty"` // in mode handoff: hold or pass

	Certificates []RouterCertificate `json:"certificates,omitempty"` // the router's own
	Controller   *RouterController   `json:"controller,omitempty"`   // in mode reactive
	Proxied      *RouterProxied      `json:"proxied,omitempty"`      // in modes handoff and proxy
	// LeftOut are the hosts of its routes for which the kernel's tables have no room, and 1 for all others.
	LeftOut int `json:"left_out,omitempty"`
}

// RouterProxied counts the connections and requests that a VIP's socket proxies.
type RouterProxied struct {
	Live        int               `json:"live"`                 // connections
	Connections map[string]uint64 `json:"connections"`          // since the socket was opened, by reason
	Requests    uint64            `json:"requests"`             // of VIPs whose requests are read
	Interfaces  []string          `json:"interfaces,omitempty"` // on which connections have come in that are not the VIP's
}

// Total is the number of connections, for whatever reason.
func (p *RouterProxied) Total() (n uint64) {
	for _, one := range p.Connections {
		n += one
	}
	return n
}

// RouterController is what a VIP of mode reactive has of its controller.
type RouterController struct {
	Connected  bool              `json:"connected"`
	IdleLegs   int               `json:"idle_legs"`
	HandedOver uint64            `json:"handed_over"` // sessions
	Proxied    map[string]uint64 `json:"proxied"`     // sessions that were not handed over, by reason
}

// RouterPool is a set of surrogates.
type RouterPool struct {
	Name       string            `json:"name"`
	Policy     string            `json:"policy"`
	Reuse      string            `json:"reuse"`             // of legs: always, safe or never
	Sources    []netip.Addr      `json:"sources,omitempty"` // addresses that legs start from; none: the route's
	Surrogates []RouterSurrogate `json:"surrogates"`
	Discover   []RouterSource    `json:"discover,omitempty"` // where more of them come from
}

// RouterSurrogate is a surrogate and its state.
type RouterSurrogate struct {
	Name      string         `json:"name"`
	Address   netip.AddrPort `json:"address"`
	Weight    int            `json:"weight"`
	Phase     string         `json:"phase"` // checking, up or down
	Up        bool           `json:"up"`
	Draining  bool           `json:"draining"`
	Since     time.Time      `json:"since"` // of the phase
	LastError string         `json:"last_error,omitempty"`
	Origin    string         `json:"origin"` // router.yaml, api, or a source: "dns web.example.net:80"
	Priority  int            `json:"priority,omitempty"`
	Changed   []string       `json:"changed,omitempty"` // by API: weight, drain
	Leaving   bool           `json:"leaving,omitempty"` // it is removed with its last session
	Proxied   string         `json:"proxied,omitempty"` // why it cannot be spliced to, "" if it can
	Sessions  int            `json:"sessions"`
	QUIC      int            `json:"quic_sessions,omitempty"`
	IdleLegs  int            `json:"idle_legs"`

	OpeningLegs int    `json:"opening_legs"`
	LegsMode    string `json:"legs_mode,omitempty"`   // ready or on-demand; "" if it cannot be spliced to
	LegsReason  string `json:"legs_reason,omitempty"` // why the mode is not the configured one
	Handoffs    uint64 `json:"handoffs"`              // sessions spliced or moved to it by the kernel
	Recycled    uint64 `json:"recycled"`              // server legs returned to their pool
	Failed      uint64 `json:"failed"`                // handoffs that ended before the first response byte
	BytesTo     uint64 `json:"bytes_to"`              // TCP payload of ended sessions, to the surrogate
	BytesFrom   uint64 `json:"bytes_from"`            // and from it

	Certificates []RouterCertificate `json:"certificates,omitempty"` // of an encrypted pool with checks
}

// RouterCertificate is what a surrogate has shown in a TLS handshake, or a certificate of the router's own.
type RouterCertificate struct {
	File     string    `json:"file,omitempty"`     // of the router's own
	Server   string    `json:"server,omitempty"`   // the name asked for
	Names    []string  `json:"names,omitempty"`    // that it covers
	Expires  time.Time `json:"expires,omitzero"`   // zero: the handshake was refused
	Protocol string    `json:"protocol,omitempty"` // chosen by ALPN: h2 or http/1.1
	Warnings []string  `json:"warnings,omitempty"`
}

// RouterOverlap says that browsers may send requests for one of two pools over a connection to the other, as a certificate covers both.
type RouterOverlap struct {
	VIP   netip.AddrPort `json:"vip"`
	Pool  string         `json:"pool"`
	Other string         `json:"other"`
	Names []string       `json:"names"` // of the certificates
}

// RouterDrainRequest drains a surrogate, or undoes that.
type RouterDrainRequest struct {
	Surrogate string `json:"surrogate"`
	Undo      bool   `json:"undo,omitempty"`
}

// RouterDrainResult is the surrogate's state after a RouterDrainRequest.
type RouterDrainResult struct {
	Surrogate string `json:"surrogate"`
	Draining  bool   `json:"draining"`
	Sessions  int    `json:"sessions"` // that it still serves
}

// RouterQuestion is a request to explain.
type RouterQuestion struct {
	URL     string     // http://host[:port]/path, or https://host; selects the VIP by scheme, and by port or address
	ALPN    []string   // of https: the protocols that are offered; nil: h2 and http/1.1
	Method  string     // "" for GET
	Client  netip.Addr // the zero Addr for none
	Headers []RouterHeader
}

// RouterHeader is a field of a RouterQuestion's request.
type RouterHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// RouterExplanation is a decision with its reasons.
type RouterExplanation struct {
	VIP        netip.AddrPort    `json:"vip"`
	Mode       string            `json:"mode"`
	Line       int               `json:"line,omitempty"` // of the route in the configuration file
	Pool       string            `json:"pool,omitempty"`
	Policy     string            `json:"policy,omitempty"`
	Surrogate  string            `json:"surrogate,omitempty"`
	Address    netip.AddrPort    `json:"address,omitzero"`
	Where      string            `json:"where,omitempty"`  // kernel, router or proxy: what decides
	Status     int               `json:"status,omitempty"` // when the router itself answers
	Alert      string            `json:"alert,omitempty"`  // of TLS, when it refuses the session
	Steps      []string          `json:"steps"`            // the steps in order, a line each
	Candidates []RouterCandidate `json:"candidates,omitempty"`
}

// RouterCandidate is a surrogate of the pool that a RouterExplanation chose from.
type RouterCandidate struct {
	Surrogate string `json:"surrogate"`
	Usable    bool   `json:"usable"`
	Reason    string `json:"reason,omitempty"` // why not, or why preferred
}

// RouterBackend serves requests to a router.
type RouterBackend struct {
	Status  func(ctx context.Context) (RouterStatus, error)
	Explain func(ctx context.Context, q RouterQuestion) (RouterExplanation, error)
	Drain   func(ctx context.Context, r RouterDrainRequest) (RouterDrainResult, error)
	Backend func(ctx context.Context, c RouterBackendChange) (RouterBackendResult, error)
	// Decisions are the last ones by policies of files that the router's process made, the newest first.
	Decisions func(ctx context.Context) ([]RoutingDecision, error)
	// Sessions calls yield for each, and stops if yield returns false: the client has gone.
	Sessions func(ctx context.Context, yield func(RouterSession) bool) error
}

func (RouterBackend) name() string { return "router" }

func (b RouterBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
	mux.HandleFunc("GET /v1/router/sessions", func(w http.ResponseWriter, r *http.Request) {
		q, err := parseSessionsQuery(r)
		serveLines(w, r, b.selectedSessions(&q, err))
	})
	mux.HandleFunc("GET /v1/router/sessions/count", func(w http.ResponseWriter, r *http.Request) {
		q, err := parseSessionsQuery(r)
		serveOne(w, r, b.countedSessions(&q, err))
	})
	mux.HandleFunc("GET /v1/router/explain", func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuestion(r)
		serveOne(w, r, with(b.Explain, q, err))
	})
	mux.HandleFunc("GET /v1/router/decisions", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Decisions)
	})
	mux.HandleFunc("POST /v1/router/backend", func(w http.ResponseWriter, r *http.Request) {
		c, err := parseBackendChange(w, r)
		serveOne(w, r, with(b.Backend, c, err))
	})
	mux.HandleFunc("POST /v1/router/drain", func(w http.ResponseWriter, r *http.Request) {
		d, err := parseDrain(w, r)
		serveOne(w, r, with(b.Drain, d, err))
	})
}

func parseQuestion(r *http.Request) (RouterQuestion, error) {
	query := r.URL.Query()
	q := RouterQuestion{URL: query.Get("url"), Method: query.Get("method"), ALPN: query["alpn"]}
	if q.URL == "" {
		return q, fmt.Errorf("%w: url is missing", ErrInvalid)
	}
	if c := query.Get("client"); c != "" {
		addr, err := netip.ParseAddr(c)
		if err != nil {
			return q, fmt.Errorf("%w: client %q is not an IP address", ErrInvalid, c)
		}
		q.Client = addr
	}
	for _, line := range query["header"] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return q, fmt.Errorf("%w: header %q is not \"Name: value\"", ErrInvalid, line)
		}
		q.Headers = append(q.Headers, RouterHeader{name, strings.TrimSpace(value)})
	}
	return q, nil
}

func parseDrain(w http.ResponseWriter, r *http.Request) (RouterDrainRequest, error) {
	d, err := parseBody[RouterDrainRequest](w, r)
	if err == nil && d.Surrogate == "" {
		err = fmt.Errorf("%w: surrogate is missing", ErrInvalid)
	}
	return d, err
}

// Router returns the router's status.
func (c *Client) Router(ctx context.Context) (RouterStatus, error) {
	return ask[RouterStatus](ctx, c, http.MethodGet, "/v1/router", nil)
}

// RouterDecisions returns the last decisions by policies of files that the router's process made, the newest first.
func (c *Client) RouterDecisions(ctx context.Context) ([]RoutingDecision, error) {
	return ask[[]RoutingDecision](ctx, c, http.MethodGet, "/v1/router/decisions", nil)
}

// RouterExplain explains which surrogate a request would go to.
func (c *Client) RouterExplain(ctx context.Context, q RouterQuestion) (RouterExplanation, error) {
	query := url.Values{"url": {q.URL}}
	if q.Method != "" {
		query.Set("method", q.Method)
	}
	if q.Client.IsValid() {
		query.Set("client", q.Client.String())
	}
	for _, name := range q.ALPN {
		query.Add("alpn", name)
	}
	for _, h := range q.Headers {
		query.Add("header", h.Name+": "+h.Value)
	}
	return ask[RouterExplanation](ctx, c, http.MethodGet, "/v1/router/explain?"+query.Encode(), nil)
}

// RouterDrain drains a surrogate, or undoes that. The error is ErrNotFound for an unknown one.
func (c *Client) RouterDrain(ctx context.Context, r RouterDrainRequest) (RouterDrainResult, error) {
	return ask[RouterDrainResult](ctx, c, http.MethodPost, "/v1/router/drain", r)
}
