package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// maxRequestBody bounds what a client may post, in octets.
const maxRequestBody = 64 << 10

// Backend is what a daemon supplies. A nil function is answered 501. An error may wrap ErrNotFound, ErrInvalid or
// ErrConflict; its text goes to the user.
type Backend struct {
	Status   func(ctx context.Context) (Status, error)
	Counters func(ctx context.Context) ([]Counter, error)
	Explain  func(ctx context.Context, q Question) (Explanation, error)
	Drain    func(ctx context.Context, r DrainRequest) (DrainResult, error)
	Reload   func(ctx context.Context) (ReloadResult, error)
	// Forwarder is the status of an OpenFlow switch.
	Forwarder func(ctx context.Context) (ForwarderStatus, error)
	Trace     func(ctx context.Context, r TraceRequest) (Trace, error)
	// Relay is the status of a relay; RelayDrain has it stop.
	Relay      func(ctx context.Context) (RelayStatus, error)
	RelayDrain func(ctx context.Context) (RelayDrainResult, error)
	Plan       func(ctx context.Context, r PlanRequest) (Plan, error)
	Distances  func(ctx context.Context) (Distances, error)
	// Purge is the status of a purge.
	Purge func(ctx context.Context) (PurgeStatus, error)
	// Balance is the status of a balance.
	Balance func(ctx context.Context) (BalanceStatus, error)
	// Anycast is the status of a site or a planner; AnycastOrder is an operator's.
	Anycast      func(ctx context.Context) (AnycastStatus, error)
	AnycastOrder func(ctx context.Context, o AnycastOrder) (AnycastStatus, error)
	// Sessions and Flows call yield for each, and stop when yield returns false: the client has gone.
	Sessions func(ctx context.Context, yield func(Session) bool) error
	Flows    func(ctx context.Context, yield func(Flow) bool) error
}

// Handler serves a Backend.
func Handler(b Backend) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Status)
	})
	mux.HandleFunc("GET /v1/counters", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Counters)
	})
	mux.HandleFunc("GET /v1/forwarder", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Forwarder)
	})
	mux.HandleFunc("POST /v1/trace", func(w http.ResponseWriter, r *http.Request) {
		q, err := parseBody[TraceRequest](w, r)
		serveOne(w, r, with(b.Trace, q, err))
	})
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Reload)
	})
	mux.HandleFunc("GET /v1/explain", func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuestion(r)
		serveOne(w, r, with(b.Explain, q, err))
	})
	mux.HandleFunc("POST /v1/drain", func(w http.ResponseWriter, r *http.Request) {
		d, err := parseDrain(w, r)
		serveOne(w, r, with(b.Drain, d, err))
	})
	mux.HandleFunc("GET /v1/relay", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Relay)
	})
	mux.HandleFunc("POST /v1/relay/drain", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.RelayDrain)
	})
	mux.HandleFunc("GET /v1/purge", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Purge)
	})
	mux.HandleFunc("GET /v1/balance", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Balance)
	})
	mux.HandleFunc("POST /v1/plan", func(w http.ResponseWriter, r *http.Request) {
		q, err := parsePlan(w, r)
		serveOne(w, r, with(b.Plan, q, err))
	})
	mux.HandleFunc("GET /v1/distances", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Distances)
	})
	mux.HandleFunc("GET /v1/anycast", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Anycast)
	})
	mux.HandleFunc("POST /v1/anycast/order", func(w http.ResponseWriter, r *http.Request) {
		o, err := parseBody[AnycastOrder](w, r)
		serveOne(w, r, with(b.AnycastOrder, o, err))
	})
	mux.HandleFunc("GET /v1/sessions", func(w http.ResponseWriter, r *http.Request) {
		serveLines(w, r, b.Sessions)
	})
	mux.HandleFunc("GET /v1/flows", func(w http.ResponseWriter, r *http.Request) {
		serveLines(w, r, b.Flows)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrNotFound))
	})
	return mux
}

// with binds a parsed argument, or the error in parsing it.
func with[A, R any](f func(context.Context, A) (R, error), arg A, err error) func(context.Context) (R, error) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context) (R, error) {
		if err != nil {
			var none R
			return none, err
		}
		return f(ctx, arg)
	}
}

func serveOne[R any](w http.ResponseWriter, r *http.Request, f func(context.Context) (R, error)) {
	if f == nil {
		unsupported(w, r)
		return
	}
	out, err := f(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// serveLines writes items as they come, a line each, so that a table of a million is held nowhere. The first error can still have a
// status; one that ends the list early is its last line, an errorBody.
func serveLines[T any](w http.ResponseWriter, r *http.Request, f func(context.Context, func(T) bool) error) {
	if f == nil {
		unsupported(w, r)
		return
	}
	const flushEvery = time.Second
	started, flushed := false, time.Now()
	out := json.NewEncoder(w)
	control := http.NewResponseController(w)
	err := f(r.Context(), func(item T) bool {
		if !started {
			started = true
			w.Header().Set("Content-Type", "application/jsonl")
		}
		control.SetWriteDeadline(time.Now().Add(30 * time.Second)) // for each line, not for the list
		if out.Encode(item) != nil || r.Context().Err() != nil {
			return false
		}
		if now := time.Now(); now.Sub(flushed) > flushEvery {
			flushed = now
			control.Flush()
		}
		return true
	})
	switch {
	case err != nil && !started:
		fail(w, err)
	case err != nil:
		out.Encode(errorBody{err.Error()})
	case !started:
		w.Header().Set("Content-Type", "application/jsonl")
	}
}

func parseQuestion(r *http.Request) (Question, error) {
	query := r.URL.Query()
	q := Question{URL: query.Get("url"), Method: query.Get("method")}
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
		q.Headers = append(q.Headers, Header{name, strings.TrimSpace(value)})
	}
	return q, nil
}

func parseBody[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var v T
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBody))
	body.DisallowUnknownFields() // a misspelt undo must not drain
	if err := body.Decode(&v); err != nil {
		return v, fmt.Errorf("%w: body: %v", ErrInvalid, err)
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		return v, fmt.Errorf("%w: body: more than one value", ErrInvalid)
	}
	return v, nil
}

func parseDrain(w http.ResponseWriter, r *http.Request) (DrainRequest, error) {
	d, err := parseBody[DrainRequest](w, r)
	if err == nil && d.Surrogate == "" {
		err = fmt.Errorf("%w: surrogate is missing", ErrInvalid)
	}
	return d, err
}

func parsePlan(w http.ResponseWriter, r *http.Request) (PlanRequest, error) {
	q, err := parseBody[PlanRequest](w, r)
	switch {
	case err != nil:
	case !q.Client.IsValid() || !q.Server.IsValid():
		err = fmt.Errorf("%w: client and server are needed", ErrInvalid)
	}
	return q, err
}

type errorBody struct {
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, err error) { writeJSON(w, statusOf(err), errorBody{err.Error()}) }

func unsupported(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusNotImplemented, errorBody{r.Method + " " + r.URL.Path + " is not supported by this daemon"})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a value that JSON cannot hold: the daemon's mistake
		status, body = http.StatusInternalServerError, []byte(`{"error":"encode answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // fails only when the client has gone
}

// Serve answers on l, which it closes, until ctx is done. Answers under way have a second to end.
func Serve(ctx context.Context, l net.Listener, b Backend) error {
	server := &http.Server{Handler: Handler(b), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 256 << 10}
	down := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(down)
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-down
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve control socket: %w", err)
}
