package api

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// ControllerSubprotocol is the WebSocket subprotocol of a controller's northbound: JSON-RPC 2.0, one message a text frame.
const ControllerSubprotocol = "jsonrpc"

// ControllerSlow is the WebSocket close code of a subscriber that does not read its events fast enough.
const ControllerSlow = 4008

// The calls of a controller's northbound.
const (
	CallTopology           = "topology"
	CallSessions           = "sessions"
	CallHandoffs           = "handoffs"
	CallSurrogates         = "surrogates"
	CallDecisions          = "decisions"
	CallSubscribe          = "subscribe"
	CallUnsubscribe        = "unsubscribe"
	CallHello              = "hello"
	CallSetRequestSize     = "setrequestsize"
	CallGetMatchingSession = "getmatchingsess"
	CallProxied            = "proxied"
	CallSetSurrogate       = "setsurrogate"

	// EventMethod is the method of the notifications that subscribers get.
	EventMethod = "event"
)

// ControllerTopic is what a subscriber can follow.
type ControllerTopic string

// The topics, and the value of an event. A subscription begins with the whole: the same value, or a list of them.
const (
	TopicTopology   ControllerTopic = "topology"   // ControllerTopology: the whole
	TopicSessions   ControllerTopic = "sessions"   // ControllerSession that has changed
	TopicHandoffs   ControllerTopic = "handoffs"   // ControllerHandoff that has changed
	TopicSurrogates ControllerTopic = "surrogates" // ControllerSurrogate that has changed
	TopicDecisions  ControllerTopic = "decisions"  // RoutingDecision
	TopicRates      ControllerTopic = "rates"      // ControllerRates
	TopicDistances  ControllerTopic = "distances"  // ControllerDistances: the whole; for request routers
)

// ControllerPage asks for a part of a list.
type ControllerPage struct {
	Limit int `json:"limit,omitempty"` // items; 0: 1,000, which is the most
	// After is the last item of the page before: a session's "client service", a handoff's number, a surrogate's name, a decision's time.
	After string `json:"after,omitempty"`
}

// ControllerSubscription names topics.
type ControllerSubscription struct {
	Topics []ControllerTopic `json:"topics"`
}

// ControllerEvent is the parameter of an event.
type ControllerEvent struct {
	Topic ControllerTopic `json:"topic"`
	Value json.RawMessage `json:"value"`
}

// ControllerHello introduces a request router.
type ControllerHello struct {
	Name    string         `json:"name"`
	Service netip.AddrPort `json:"service"` // where clients reach it
}

// ControllerWelcome answers a request router's hello.
type ControllerWelcome struct {
	Version    string                `json:"version"`
	Surrogates []ControllerSurrogate `json:"surrogates"`
	Strip      bool                  `json:"strip"` // the controller removes TCP options from handshakes
}

// ControllerRequestSize reports the size of a request: of a client's, or of the one that goes to a surrogate if Leg is set.
type ControllerRequestSize struct {
	Client  netip.AddrPort `json:"client,omitzero"`
	Service netip.AddrPort `json:"service,omitzero"`
	Leg     RouterLeg      `json:"leg,omitzero"`
	Size    uint32         `json:"size"`              // bytes
	Request string         `json:"request,omitempty"` // "GET /path"
	Host    string         `json:"host,omitempty"`
}

// ControllerSessionKey names a client's session.
type ControllerSessionKey struct {
	Client  netip.AddrPort `json:"client"`
	Service netip.AddrPort `json:"service"`
}

// ControllerMatch is the leg that a controller has chosen for a session.
type ControllerMatch struct {
	Surrogate string    `json:"surrogate"`
	Host      string    `json:"host,omitempty"` // for the Host field of the request; "": unchanged
	Leg       RouterLeg `json:"leg"`
}

// ControllerProxied says that the request router serves a session itself.
type ControllerProxied struct {
	Client  netip.AddrPort `json:"client"`
	Service netip.AddrPort `json:"service"`
	Why     string         `json:"why"`
}

// ControllerSurrogateSet changes a surrogate.
type ControllerSurrogateSet struct {
	Name   string                    `json:"name"`
	Change ControllerSurrogateChange `json:"change"`
}

// ControllerRates are numbers of the last second.
type ControllerRates struct {
	Time       time.Time          `json:"time"`
	PacketIns  float64            `json:"packet_ins"`
	FlowMods   float64            `json:"flow_mods"`
	Handshakes float64            `json:"handshakes"`
	Handoffs   float64            `json:"handoffs"`
	Failures   float64            `json:"failures"`   // of handoffs
	Surrogates map[string]float64 `json:"surrogates"` // handoffs by the surrogate's name
}

// ControllerDistances is what request routers of the native mode decide by.
type ControllerDistances struct {
	Zones      []ControllerZone      `json:"zones"`
	Surrogates []ControllerSurrogate `json:"surrogates"`
}

// ControllerZone has the surrogates in the order of their distance from clients with a prefix.
type ControllerZone struct {
	Prefix     netip.Prefix `json:"prefix"`
	Surrogates []string     `json:"surrogates"` // names, nearest first
}

// The codes of a northbound's errors, besides those of JSON-RPC: 4000 + the status of HTTP that the REST view has for it.
const (
	ControllerBadRequest  = -32602 // invalid parameters
	ControllerForbidden   = 4403   // the caller's role does not allow it
	ControllerNotFound    = 4404   // no such session, surrogate, …
	ControllerConflict    = 4409   // not in this state
	ControllerTooMany     = 4429   // a limit of the caller
	ControllerUnavailable = 4503   // no surrogate, no quorum, not the master
)

// ControllerError is an error of a northbound's call. The functions behind a call return it to choose the code.
type ControllerError struct {
	Code    int
	Message string
}

func (e *ControllerError) Error() string { return e.Message }

// Is matches ErrNotFound, ErrInvalid and ErrConflict.
func (e *ControllerError) Is(target error) bool {
	switch target {
	case ErrNotFound:
		return e.Code == ControllerNotFound
	case ErrInvalid:
		return e.Code == ControllerBadRequest
	case ErrConflict:
		return e.Code == ControllerConflict
	}
	return false
}

// ControllerErrorf returns an error with a code.
func ControllerErrorf(code int, format string, args ...any) error {
	return &ControllerError{code, fmt.Sprintf(format, args...)}
}
