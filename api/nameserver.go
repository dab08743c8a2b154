package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// NameserverStatus is the status of a name server. Counters start with the process.
type NameserverStatus struct {
	Process

	Listen   []netip.AddrPort    `json:"listen"`
	Zones    []NameserverZone    `json:"zones"`
	Services []NameserverService `json:"services"`

	Surrogates []NameserverSurrogate `json:"surrogates"`
	Controller *NameserverController `json:"controller,omitempty"` // nil: none is configured
	Sites      []NameserverSite      `json:"sites,omitempty"`

	Queries   uint64            `json:"queries"`
	Answers   map[string]uint64 `json:"answers"` // by kind: positive, no-data, no-such-name, referral, routed
	Refused   map[string]uint64 `json:"refused"` // by code: FORMERR, REFUSED, ...
	Ignored   uint64            `json:"ignored"` // messages that are no queries
	Truncated uint64            `json:"truncated"`
	Omitted   uint64            `json:"omitted"` // answers above the limits that were not sent
	Slipped   uint64            `json:"slipped"` // answers above the limits that were sent without records
	Unsent    uint64            `json:"unsent"`  // answers that the kernel did not take
	Subnets   uint64            `json:"subnets"` // queries with a client's subnet that was heeded
	Cookies   uint64            `json:"cookies"` // queries with a valid cookie
	DNSSEC    uint64            `json:"dnssec"`  // queries for signatures
	Transfers uint64            `json:"transfers"`

	Connections        Usage  `json:"connections"` // over TCP
	ConnectionsRefused uint64 `json:"connections_refused"`
}

// NameserverZone is a zone of a name server.
type NameserverZone struct {
	Name    string          `json:"name"`
	File    string          `json:"file"`
	Serial  uint32          `json:"serial"`
	Records int             `json:"records"`
	Routed  int             `json:"routed"` // names
	Signed  bool            `json:"signed"`
	Keys    []NameserverKey `json:"keys,omitempty"`
	Loaded  time.Time       `json:"loaded"`
	Error   string          `json:"error,omitempty"` // why the file is not served as it is; an older content is
}

// NameserverKey is a key of a zone, and what it does.
type NameserverKey struct {
	Tag       uint16     `json:"tag"`
	Algorithm string     `json:"algorithm"`
	Role      string     `json:"role"` // KSK, ZSK, or both
	Now       string     `json:"now"`  // in words: "published, signs"
	Signs     bool       `json:"signs"`
	Next      string     `json:"next,omitempty"` // in words: "stops signing"; "": nothing is planned
	At        *time.Time `json:"at,omitempty"`   // of Next
}

// NameserverService is how routed names are answered.
type NameserverService struct {
	Name      string `json:"name"`
	Decisions uint64 `json:"decisions"`
	Fallbacks uint64 `json:"fallbacks"` // decisions without a usable surrogate
}

// NameserverSurrogate is a surrogate as a name server sees it.
type NameserverSurrogate struct {
	Name      string       `json:"name"`
	Site      string       `json:"site,omitempty"`
	Addresses []netip.Addr `json:"addresses"`
	Up        bool         `json:"up"`
	Error     string       `json:"error,omitempty"` // of the last check
	State     string       `json:"state"`           // in-service or maintenance
	Weight    int          `json:"weight"`
	Sessions  int          `json:"sessions"` // as the controller counts them
	Source    string       `json:"source"`   // of its health: controller, kept, checks, or none
	Chosen    uint64       `json:"chosen"`   // answers with its addresses
}

// NameserverController is the controller that a name server has the state of the surrogates from.
type NameserverController struct {
	URL         string        `json:"url,omitempty"` // of the one that was connected last
	Connected   bool          `json:"connected"`
	Source      string        `json:"source"`          // in force: controller, kept (its last word), or checks
	Heard       *time.Time    `json:"heard,omitempty"` // when it was connected last; nil: never
	Keep        time.Duration `json:"keep_ns"`         // for how long its last word counts
	Error       string        `json:"error,omitempty"`
	Connections uint64        `json:"connections"` // that were made
	Malformed   uint64        `json:"malformed"`   // messages that could not be read
	Surrogates  int           `json:"surrogates"`  // that it has
	Zones       int           `json:"zones"`       // with distances
}

// NameserverSite is a site of the policy.
type NameserverSite struct {
	Name     string `json:"name"`
	Sessions int    `json:"sessions"`
	Capacity int    `json:"capacity,omitempty"` // 0: no limit
	Full     bool   `json:"full"`               // it takes no clients
	Serves   int    `json:"serves"`             // surrogates that can serve
}

// NameserverQuestion is a question to explain.
type NameserverQuestion struct {
	Name   string
	Type   string       // A if empty
	Client netip.Prefix // invalid: no client subnet
	DNSSEC bool
}

// NameserverExplanation is the answer to a question, and why.
type NameserverExplanation struct {
	Code       string   `json:"code"` // NOERROR, ...
	Authority  bool     `json:"authority"`
	Answer     []string `json:"answer"`
	Nameserver []string `json:"nameserver"`
	Additional []string `json:"additional"`
	Scope      *int     `json:"scope,omitempty"` // of the client subnet
	Because    []string `json:"because"`
}

// NameserverBackend serves the requests to a name server.
type NameserverBackend struct {
	Status    func(ctx context.Context) (NameserverStatus, error)
	Query     func(ctx context.Context, q NameserverQuestion) (NameserverExplanation, error)
	Decisions func(ctx context.Context) ([]RoutingDecision, error) // the last ones, newest first
	Change    func(ctx context.Context, c NameserverChange) (NameserverSurrogate, error)
}

// NameserverChange changes a surrogate until the next start; nil fields stay.
type NameserverChange struct {
	Surrogate string  `json:"surrogate"`
	State     *string `json:"state,omitempty"`
	Weight    *int    `json:"weight,omitempty"`
}

func (NameserverBackend) name() string { return "nameserver" }

func (b NameserverBackend) handle(mux *http.ServeMux) {
	handleStatus(mux, b.name(), b.Status)
	mux.HandleFunc("GET /v1/nameserver/query", func(w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		q := NameserverQuestion{Name: v.Get("name"), Type: v.Get("type"), DNSSEC: v.Get("dnssec") == "true"}
		var err error
		if c := v.Get("client"); c != "" {
			if q.Client, err = netip.ParsePrefix(c); err != nil {
				err = fmt.Errorf("%w: client: %v", ErrInvalid, err)
			}
		}
		serveOne(w, r, with(b.Query, q, err))
	})
	mux.HandleFunc("GET /v1/nameserver/decisions", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Decisions)
	})
	mux.HandleFunc("POST /v1/nameserver/surrogate", func(w http.ResponseWriter, r *http.Request) {
		c, err := parseBody[NameserverChange](w, r)
		serveOne(w, r, with(b.Change, c, err))
	})
}

// Nameserver returns the status of the name server.
func (c *Client) Nameserver(ctx context.Context) (NameserverStatus, error) {
	return ask[NameserverStatus](ctx, c, http.MethodGet, "/v1/nameserver", nil)
}

// NameserverQuery returns how the name server answers a question.
func (c *Client) NameserverQuery(ctx context.Context, q NameserverQuestion) (NameserverExplanation, error) {
	v := url.Values{"name": {q.Name}}
	if q.Type != "" {
		v.Set("type", q.Type)
	}
	if q.Client.IsValid() {
		v.Set("client", q.Client.String())
	}
	if q.DNSSEC {
		v.Set("dnssec", "true")
	}
	return ask[NameserverExplanation](ctx, c, http.MethodGet, "/v1/nameserver/query?"+v.Encode(), nil)
}

// NameserverDecisions returns the name server's last decisions, the newest first.
func (c *Client) NameserverDecisions(ctx context.Context) ([]RoutingDecision, error) {
	return ask[[]RoutingDecision](ctx, c, http.MethodGet, "/v1/nameserver/decisions", nil)
}

// NameserverChange changes a surrogate of the name server.
func (c *Client) NameserverChange(ctx context.Context, change NameserverChange) (NameserverSurrogate, error) {
	return ask[NameserverSurrogate](ctx, c, http.MethodPost, "/v1/nameserver/surrogate", change)
}
