package northbound

import (
	"context"
	"net/netip"

	"baton/api"
)

// Source has the functions that read the controller's state. They are called concurrently and return copies. A nil function's calls
// are answered as unavailable.
type Source struct {
	Topology   func() api.ControllerTopology
	Sessions   func() []api.ControllerSession
	Handoffs   func() []api.ControllerHandoff // by number, the oldest first
	Surrogates func() []api.ControllerSurrogate
	Decisions  func() []api.RoutingDecision // the oldest first
	Rates      func() api.ControllerRates
	Distances  func() api.ControllerDistances // of the native mode
	// Master returns why request routers are to go to another controller; nil: they are not. Without the function they never are.
	Master func() error
}

// Calls has the functions of request routers and operators. They are called concurrently, and their context ends with the caller's
// connection. An error may be an api.ControllerError, or wrap api.ErrNotFound, api.ErrInvalid or api.ErrConflict; its text goes to the
// caller. A nil function's calls are answered as unavailable.
type Calls struct {
	Hello              func(context.Context, Caller, api.ControllerHello) (api.ControllerWelcome, error)
	SetRequestSize     func(context.Context, Caller, api.ControllerRequestSize) error
	GetMatchingSession func(context.Context, Caller, api.ControllerSessionKey) (api.ControllerMatch, error)
	Proxied            func(context.Context, Caller, api.ControllerProxied) error
	SetSurrogate       func(context.Context, Caller, api.ControllerSurrogateSet) (api.ControllerSurrogate, error)
	// Gone is called when the connection of a request router has ended that said hello. It may be nil.
	Gone func(Caller)
}

// Caller is who calls.
type Caller struct {
	Connection uint64 // its number; 0: a request of the REST view
	Name       string // of the token or the certificate; "" where everybody may call
	Role       Role
	Remote     netip.AddrPort
	Router     string // the name in its hello; "" before
}
