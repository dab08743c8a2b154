package northbound

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/creachadair/jrpc2"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"baton/api"
)

// The keys of an operation's metadata.
const (
	metaRole = "role"
	metaCall = "call" // of JSON-RPC: for metrics and the documentation
)

// callerKey is that of a request's Caller in its context.
type callerKey struct{}

// pageInput are the query parameters of lists.
type pageInput struct {
	Limit int    `query:"limit" minimum:"1" maximum:"1000" doc:"Items at most; the default is 1,000."`
	After string `query:"after" maxLength:"128" doc:"The last item of the page before: a session's \"client service\", a handoff's number, a surrogate's name, a decision's time."`
}

func (p *pageInput) page() api.ControllerPage {
	return api.ControllerPage{Limit: p.Limit, After: p.After}
}

type body[T any] struct{ Body T }

// rest adds the REST view: the same functions as the calls, described by their types.
func (s *Server) rest(mux *http.ServeMux) {
	c := huma.DefaultConfig("Baton controller", s.version)
	c.Info.Description = "What the controller of a content delivery network knows, and what operators change. " +
		"The same by JSON-RPC 2.0 over a WebSocket at /v1/ws, with events; see the page of this description."
	c.DocsPath, c.SchemasPath, c.OpenAPIPath, c.CreateHooks = "", "", "", nil // huma's page loads its scripts from elsewhere
	c.Formats = map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat}
	c.RejectUnknownQueryParameters = true
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":       {Type: "http", Scheme: "bearer", Description: "A token of the controller's file."},
		"certificate": {Type: "mutualTLS", Description: "A client certificate whose alternative name has a role."},
	}
	c.Security = []map[string][]string{{"token": {}}, {"certificate": {}}}
	a := humago.New(mux, c)
	a.UseMiddleware(s.restCaller(a))

	get(a, "topology", "Switches, links and hosts", func(context.Context, *struct{}) (api.ControllerTopology, error) {
		return reads("topology", s.source.Topology)(context.Background(), nil, none{})
	})
	get(a, "switches", "Switches", func(context.Context, *struct{}) ([]api.ControllerSwitch, error) {
		t, err := reads("topology", s.source.Topology)(context.Background(), nil, none{})
		if t.Switches == nil {
			t.Switches = []api.ControllerSwitch{}
		}
		return t.Switches, err
	})
	get(a, "sessions", "Clients' sessions, by address", func(_ context.Context, in *pageInput) ([]api.ControllerSession, error) {
		return s.sessions(in.page())
	})
	get(a, "handoffs", "Handoffs, the newest first", func(_ context.Context, in *pageInput) ([]api.ControllerHandoff, error) {
		return s.handoffs(in.page())
	})
	get(a, "surrogates", "Surrogates, by name", func(_ context.Context, in *pageInput) ([]api.ControllerSurrogate, error) {
		return s.surrogates(in.page())
	})
	get(a, "decisions", "Routing decisions and why, the newest first", func(_ context.Context, in *pageInput) ([]api.RoutingDecision, error) {
		return s.decisions(in.page())
	})
	huma.Register(a, huma.Operation{
		OperationID: api.CallSetSurrogate, Method: http.MethodPatch, Path: "/v1/surrogates/{name}", Summary: "Change a surrogate's weight or state",
		MaxBodyBytes: s.limits.Message, Errors: []int{400, 401, 403, 404, 409, 422, 503},
		Metadata: map[string]any{metaRole: Operator, metaCall: api.CallSetSurrogate},
	}, func(ctx context.Context, in *struct {
		Name string `path:"name" maxLength:"64"`
		Body api.ControllerSurrogateChange
	}) (*body[api.ControllerSurrogate], error) {
		who, _ := ctx.Value(callerKey{}).(Caller)
		ctx, cancel := context.WithTimeout(ctx, s.limits.Call)
		defer cancel()
		out, err := s.setSurrogate(ctx, who, api.ControllerSurrogateSet{Name: in.Name, Change: in.Body})
		return &body[api.ControllerSurrogate]{out}, restError(err)
	})
	s.describe(mux, a.OpenAPI())
}

// get adds an operation that reads; it has the name of the call.
func get[In, Out any](a huma.API, name, summary string, f func(context.Context, *In) (Out, error)) {
	huma.Register(a, huma.Operation{
		OperationID: name, Method: http.MethodGet, Path: "/v1/" + name, Summary: summary, Errors: []int{401, 403, 422, 503},
		Metadata: map[string]any{metaRole: Viewer, metaCall: name},
	}, func(ctx context.Context, in *In) (*body[Out], error) {
		out, err := f(ctx, in)
		return &body[Out]{out}, restError(err)
	})
}

// restCaller answers those who may not call, and counts.
func (s *Server) restCaller(a huma.API) func(huma.Context, func(huma.Context)) {
	slots := make(chan struct{}, s.limits.InFlight) // of calls that wait or run: not of answers that are written
	return func(ctx huma.Context, next func(huma.Context)) {
		op := ctx.Operation()
		name, _ := op.Metadata[metaCall].(string)
		need, _ := op.Metadata[metaRole].(Role)
		r, w := humago.Unwrap(ctx)
		who, err := s.identify(r)
		if err != nil {
			ctx.SetHeader("WWW-Authenticate", `Bearer realm="baton"`)
			_ = huma.WriteErr(a, ctx, http.StatusUnauthorized, err.Error())
			return
		}
		ctx.SetHeader("Cache-Control", "no-store")
		ctx.SetHeader("X-Content-Type-Options", "nosniff")
		if err := permit(who.Role, need, op.Method+" "+op.Path); err != nil {
			s.counts.call(name, api.ControllerForbidden)
			_ = huma.WriteErr(a, ctx, http.StatusForbidden, err.Error())
			return
		}
		h := s.budget.join(&holder{queued: func() int64 { return 0 }, end: func() { s.cutUnread(who); hangUp(r) }})
		defer s.budget.leave(h)
		answer := &made{operation: huma.WithValue(ctx, callerKey{}, who)}
		select {
		case slots <- struct{}{}:
			err = s.make(r.Context(), h, op.Method == http.MethodGet, answer, next, func() { <-slots })
		default:
			err = errors.New("too many requests at the same time")
		}
		if err != nil {
			s.counts.call(name, api.ControllerTooMany)
			ctx.SetHeader("Retry-After", "1")
			_ = huma.WriteErr(a, ctx, http.StatusTooManyRequests, err.Error())
			return
		}
		s.counts.call(name, codeOf(ctx.Status()))
		s.send(w, h, answer.body.Bytes())
	}
}

// made is an answer that is not written yet.
type made struct {
	operation
	body bytes.Buffer
}

// operation is the library's context under another name: as a field it would hide its method.
type operation = huma.Context

func (m *made) BodyWriter() io.Writer { return &m.body }

// Unwrap is what the library looks for.
func (m *made) Unwrap() huma.Context { return m.operation }

// make has an answer made when there is room for it, and calls done when it is.
func (s *Server) make(ctx context.Context, h *holder, lists bool, answer *made, next func(huma.Context), done func()) error {
	defer done()
	if err := s.budget.enter(ctx, h, lists, false); err != nil {
		return err
	}
	defer func() { s.budget.made(h, lists, int64(answer.body.Len())) }()
	next(answer)
	return nil
}

// send writes an answer in parts, each of which has the time of a write.
func (s *Server) send(w http.ResponseWriter, h *holder, text []byte) {
	deadline := http.NewResponseController(w)
	h.begins()
	defer h.ends()
	for piece := range slices.Chunk(text, part) {
		h.writes()
		_ = deadline.SetWriteDeadline(time.Now().Add(s.limits.Write)) // a recorder of tests has none
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// restError gives an error the status of HTTP that its code has.
func restError(err error) error {
	if err == nil {
		return nil
	}
	e := rpcError(err)
	return huma.NewError(statusOf(e.Code), e.Message)
}

func statusOf(code jrpc2.Code) int {
	switch {
	case code == jrpc2.InvalidParams:
		return http.StatusBadRequest
	case code > 4400 && code < 4600:
		return int(code) - 4000
	}
	return http.StatusInternalServerError
}

func codeOf(status int) jrpc2.Code {
	switch {
	case status < http.StatusBadRequest:
		return jrpc2.NoError
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
		return jrpc2.InvalidParams
	case results[jrpc2.Code(4000+status)] != "":
		return jrpc2.Code(4000 + status)
	case status < http.StatusInternalServerError:
		return jrpc2.InvalidRequest
	}
	return jrpc2.InternalError
}

// describe serves the description and its page, which are made once.
func (s *Server) describe(mux *http.ServeMux, o *huma.OpenAPI) {
	text, err := json.MarshalIndent(o, "", "  ")
	page, pageErr := s.document(o)
	if err = errors.Join(err, pageErr); err != nil {
		s.log.Error("the REST view has no description", "err", err)
		return
	}
	mux.HandleFunc("GET /v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oai.openapi+json;version=3.1")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(text)
	})
	mux.HandleFunc("GET /v1/docs", func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Content-Type", "text/html; charset=utf-8")
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no such path: see /v1/docs", http.StatusNotFound)
	})
}
