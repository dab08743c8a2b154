package northbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/creachadair/jrpc2"

	"baton/api"
)

// call is a call of the northbound: who may use it, and what it does.
type call struct {
	role  Role
	lists bool // its answer may have megabytes
	do    func(ctx context.Context, c *connection, params json.RawMessage) (any, error)
}

// unavailable is the answer for what the controller's modules have not given.
func unavailable(what string) error {
	return api.ControllerErrorf(api.ControllerUnavailable, "this controller has no %s", what)
}

// reads makes a call of a function that reads.
func reads[T any](what string, f func() T) func(context.Context, *connection, none) (T, error) {
	return func(context.Context, *connection, none) (v T, err error) {
		if f == nil {
			return v, unavailable(what)
		}
		return f(), nil
	}
}

// none are the parameters of a call without any.
type none struct{}

// strictly makes a call of a function with typed parameters. Fields that are not known are refused: they are a caller's mistake.
func strictly[P, R any](role Role, f func(context.Context, *connection, P) (R, error)) call {
	return call{role: role, do: func(ctx context.Context, c *connection, params json.RawMessage) (any, error) {
		var p P
		if len(params) == 0 {
			params = json.RawMessage("{}")
		}
		if params[0] != '{' {
			return nil, jrpc2.Errorf(jrpc2.InvalidParams, "parameters are an object, by name")
		}
		d := json.NewDecoder(bytes.NewReader(params))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil {
			return nil, jrpc2.Errorf(jrpc2.InvalidParams, "%s", plain(err))
		}
		return f(ctx, c, p)
	}}
}

// listing is a call whose answer has lists. Whoever reads may call it.
func listing[P, R any](f func(context.Context, *connection, P) (R, error)) call {
	c := strictly(Viewer, f)
	c.lists = true
	return c
}

// plain returns the text of an error in parameters without names of Go.
func plain(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Sprintf("%s may not be a JSON %s", cmpField(wrong.Field), wrong.Value)
	}
	text, _ := bytes.CutPrefix([]byte(err.Error()), []byte("json: "))
	return string(text)
}

func cmpField(name string) string {
	if name == "" {
		return "the object"
	}
	return name
}

// calls are the calls of a server by their method.
func (s *Server) calls() map[string]call {
	return map[string]call{
		api.CallTopology: listing(reads("topology", s.source.Topology)),
		api.CallSessions: listing(func(_ context.Context, _ *connection, p api.ControllerPage) ([]api.ControllerSession, error) {
			return s.sessions(p)
		}),
		api.CallHandoffs: listing(func(_ context.Context, _ *connection, p api.ControllerPage) ([]api.ControllerHandoff, error) {
			return s.handoffs(p)
		}),
		api.CallSurrogates: listing(func(_ context.Context, _ *connection, p api.ControllerPage) ([]api.ControllerSurrogate, error) {
			return s.surrogates(p)
		}),
		api.CallDecisions: listing(func(_ context.Context, _ *connection, p api.ControllerPage) ([]api.RoutingDecision, error) {
			return s.decisions(p)
		}),
		api.CallSubscribe:   listing(s.subscribe),
		api.CallUnsubscribe: strictly(Viewer, s.unsubscribe),
		api.CallHello:       strictly(Router, s.hello),
		api.CallSetRequestSize: strictly(Router, func(ctx context.Context, c *connection, p api.ControllerRequestSize) (none, error) {
			return none{}, s.setRequestSize(ctx, c, p)
		}),
		api.CallGetMatchingSession: strictly(Router, s.getMatchingSession),
		api.CallProxied: strictly(Router, func(ctx context.Context, c *connection, p api.ControllerProxied) (none, error) {
			return none{}, s.proxied(ctx, c, p)
		}),
		api.CallSetSurrogate: strictly(Operator, func(ctx context.Context, c *connection, p api.ControllerSurrogateSet) (api.ControllerSurrogate, error) {
			return s.setSurrogate(ctx, c.caller(), p)
		}),
	}
}

// call carries out one request.
func (s *Server) call(ctx context.Context, c *connection, method string, params json.RawMessage) (result any, err error) {
	m, ok := s.methods[method]
	if !ok {
		s.counts.call("unknown", jrpc2.MethodNotFound)
		return nil, jrpc2.Errorf(jrpc2.MethodNotFound, "no method %q", cut(method, 64))
	}
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("a call of the northbound has failed", "method", method, "panic", p, "stack", string(debug.Stack()))
			result, err = nil, errors.New("internal error")
		}
		if err != nil {
			err = rpcError(err)
		}
		s.counts.call(method, jrpc2.ErrorCode(err))
	}()
	if err := permit(c.who.Role, m.role, method); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limits.Call)
	defer cancel()
	return m.do(ctx, c, params)
}

// rpcError gives an error its code.
func rpcError(err error) *jrpc2.Error {
	var ready *jrpc2.Error
	var ours *api.ControllerError
	code := jrpc2.InternalError
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.As(err, &ours):
		code = jrpc2.Code(ours.Code)
	case errors.Is(err, api.ErrNotFound):
		code = api.ControllerNotFound
	case errors.Is(err, api.ErrInvalid):
		code = api.ControllerBadRequest
	case errors.Is(err, api.ErrConflict):
		code = api.ControllerConflict
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		code = api.ControllerUnavailable
	}
	return &jrpc2.Error{Code: code, Message: err.Error()}
}

func (s *Server) hello(ctx context.Context, c *connection, p api.ControllerHello) (w api.ControllerWelcome, err error) {
	defer func() { s.audit(c.caller(), api.CallHello, err, "router", cut(p.Name, maxName), "service", p.Service) }()
	switch {
	case !label(p.Name):
		return w, invalid("name", "has 1 to %d printable characters without blanks", maxName)
	case !p.Service.IsValid():
		return w, invalid("service", "is an address and a port: 10.9.9.9:80")
	case s.serve.Hello == nil:
		return w, unavailable("request routers")
	}
	if had := c.introduce(p.Name); had != p.Name {
		return w, api.ControllerErrorf(api.ControllerConflict, "this connection is that of %s already", had)
	}
	return s.serve.Hello(ctx, c.caller(), p)
}

func (s *Server) setRequestSize(ctx context.Context, c *connection, p api.ControllerRequestSize) error {
	bySession, byLeg := session(p.Client, p.Service), session(p.Leg.Local, p.Leg.Remote)
	switch {
	case bySession == byLeg:
		return invalid("client", "and service name a session, or leg names one of the request router: one of the two")
	case p.Size == 0:
		return invalid("size", "is the number of the request's bytes")
	case s.serve.SetRequestSize == nil:
		return unavailable("handoffs")
	}
	return s.serve.SetRequestSize(ctx, c.caller(), p)
}

func (s *Server) getMatchingSession(ctx context.Context, c *connection, p api.ControllerSessionKey) (m api.ControllerMatch, err error) {
	if !session(p.Client, p.Service) {
		return m, invalid("client", "and service are addresses with ports: 10.1.0.2:40000")
	}
	if s.serve.GetMatchingSession == nil {
		return m, unavailable("handoffs")
	}
	return s.serve.GetMatchingSession(ctx, c.caller(), p)
}

func (s *Server) proxied(ctx context.Context, c *connection, p api.ControllerProxied) error {
	switch {
	case !session(p.Client, p.Service):
		return invalid("client", "and service are addresses with ports: 10.1.0.2:40000")
	case len(p.Why) > maxText:
		return invalid("why", "has at most %d bytes", maxText)
	case s.serve.Proxied == nil:
		return unavailable("handoffs")
	}
	return s.serve.Proxied(ctx, c.caller(), p)
}

func (s *Server) setSurrogate(ctx context.Context, who Caller, p api.ControllerSurrogateSet) (out api.ControllerSurrogate, err error) {
	defer func() {
		attributes := []any{"surrogate", cut(p.Name, maxName)}
		if p.Change.Weight != nil {
			attributes = append(attributes, "weight", *p.Change.Weight)
		}
		if p.Change.State != nil {
			attributes = append(attributes, "state", cut(*p.Change.State, maxName))
		}
		s.audit(who, api.CallSetSurrogate, err, attributes...)
	}()
	switch w, state := p.Change.Weight, p.Change.State; {
	case p.Name == "":
		return out, invalid("name", "is the surrogate's")
	case w == nil && state == nil:
		return out, invalid("change", "has a weight or a state")
	case w != nil && (*w < 0 || *w > maxWeight):
		return out, invalid("change.weight", "is from 0 to %d", maxWeight)
	case state != nil && !slices.Contains(states, *state):
		return out, invalid("change.state", "is one of %v", states)
	case s.serve.SetSurrogate == nil:
		return out, unavailable("surrogates to change")
	}
	return s.serve.SetSurrogate(ctx, who, p)
}

const (
	maxName   = 64
	maxText   = 1024
	maxWeight = 1000
)

var states = []string{api.InService, api.Maintenance}

func invalid(field, format string, args ...any) error {
	return api.ControllerErrorf(api.ControllerBadRequest, "%s %s", field, fmt.Sprintf(format, args...))
}

func session(a, b netip.AddrPort) bool { return a.IsValid() && b.IsValid() }

// label reports whether a name can stand in a log and in a label of a metric.
func label(name string) bool {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return false
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || r == ' ' {
			return false
		}
	}
	return true
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
