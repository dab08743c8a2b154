package rpc

import (
	"context"
	"encoding/json"

	"baton/api"
)

// Calls has the calls by their types.
type Calls struct {
	call func(ctx context.Context, method string, params, result any) error
}

// Topology returns the network.
func (c Calls) Topology(ctx context.Context) (t api.ControllerTopology, err error) {
	return t, c.call(ctx, api.CallTopology, struct{}{}, &t)
}

// Sessions returns a page of sessions.
func (c Calls) Sessions(ctx context.Context, p api.ControllerPage) (list []api.ControllerSession, err error) {
	return list, c.call(ctx, api.CallSessions, p, &list)
}

// Handoffs returns a page of handoffs, the newest first.
func (c Calls) Handoffs(ctx context.Context, p api.ControllerPage) (list []api.ControllerHandoff, err error) {
	return list, c.call(ctx, api.CallHandoffs, p, &list)
}

// Surrogates returns a page of surrogates.
func (c Calls) Surrogates(ctx context.Context, p api.ControllerPage) (list []api.ControllerSurrogate, err error) {
	return list, c.call(ctx, api.CallSurrogates, p, &list)
}

// Decisions returns a page of decisions, the newest first.
func (c Calls) Decisions(ctx context.Context, p api.ControllerPage) (list []api.RoutingDecision, err error) {
	return list, c.call(ctx, api.CallDecisions, p, &list)
}

// Subscribe follows topics, and returns what they are.
func (c Calls) Subscribe(ctx context.Context, topics ...api.ControllerTopic) (whole map[api.ControllerTopic]json.RawMessage, err error) {
	return whole, c.call(ctx, api.CallSubscribe, api.ControllerSubscription{Topics: topics}, &whole)
}

// Unsubscribe leaves topics.
func (c Calls) Unsubscribe(ctx context.Context, topics ...api.ControllerTopic) error {
	return c.call(ctx, api.CallUnsubscribe, api.ControllerSubscription{Topics: topics}, &struct{}{})
}

// Hello introduces a request router.
func (c Calls) Hello(ctx context.Context, p api.ControllerHello) (w api.ControllerWelcome, err error) {
	return w, c.call(ctx, api.CallHello, p, &w)
}

// SetRequestSize reports the size of a request.
func (c Calls) SetRequestSize(ctx context.Context, p api.ControllerRequestSize) error {
	return c.call(ctx, api.CallSetRequestSize, p, &struct{}{})
}

// GetMatchingSession returns the leg that the controller has chosen for a session.
func (c Calls) GetMatchingSession(ctx context.Context, p api.ControllerSessionKey) (m api.ControllerMatch, err error) {
	return m, c.call(ctx, api.CallGetMatchingSession, p, &m)
}

// Proxied says that the request router serves a session itself.
func (c Calls) Proxied(ctx context.Context, p api.ControllerProxied) error {
	return c.call(ctx, api.CallProxied, p, &struct{}{})
}

// SetSurrogate changes a surrogate.
func (c Calls) SetSurrogate(ctx context.Context, p api.ControllerSurrogateSet) (s api.ControllerSurrogate, err error) {
	return s, c.call(ctx, api.CallSetSurrogate, p, &s)
}
