package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// maxRequestBody bounds what a client may post, in octets.
const maxRequestBody = 64 << 10

// Backend holds the functions of a daemon. The answer for a nil function is 501. An error may wrap ErrNotFound, ErrInvalid or
// ErrConflict; its text goes to the user.
type Backend struct {
	Part     Part
	Counters func(ctx context.Context) ([]Counter, error)
	// Reload rereads the configuration. Its error wraps ErrConflict if the old one stays in force.
	Reload func(ctx context.Context) (ReloadResult, error)
}

// Part holds the functions of one part: a RouterBackend, ForwarderBackend, RelayBackend, BalanceBackend, AnycastBackend,
// PurgeBackend, NameserverBackend or ControllerBackend.
type Part interface {
	name() string
	handle(mux *http.ServeMux)
}

// Handler serves a Backend.
func Handler(b Backend) http.Handler {
	mux := http.NewServeMux()
	b.Part.handle(mux)
	mux.HandleFunc("GET /v1/counters", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Counters)
	})
	mux.HandleFunc("POST /v1/reload", func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, b.Reload)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, fmt.Errorf("%s %s: %w: this is baton %s", r.Method, r.URL.Path, ErrNotFound, b.Part.name()))
	})
	return mux
}

// handleStatus serves a part's status under the part's name, and the common fields as the daemon's status.
func handleStatus[S interface{ process() Process }](mux *http.ServeMux, part string, status func(context.Context) (S, error)) {
	mux.HandleFunc("GET /v1/"+part, func(w http.ResponseWriter, r *http.Request) {
		serveOne(w, r, status)
	})
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		if status == nil {
			unsupported(w, r)
			return
		}
		serveOne(w, r, func(ctx context.Context) (Process, error) {
			s, err := status(ctx)
			return s.process(), err
		})
	})
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

// serveLines writes items as they are found, one per line, so that a table of a million entries is never in memory. An error before the
// first item gets a status; one that ends the list early is the last line, an errorBody.
func serveLines[T any](w http.ResponseWriter, r *http.Request, f func(context.Context, func(T) bool) error) {
	if f == nil {
		unsupported(w, r)
		return
	}
	const often, patience = time.Second, 30 * time.Second
	started, flushed, dated := false, time.Now(), time.Time{}
	out := json.NewEncoder(w)
	control := http.NewResponseController(w)
	err := f(r.Context(), func(item T) bool {
		if !started {
			started = true
			w.Header().Set("Content-Type", "application/jsonl")
		}
		now := time.Now()
		if now.Sub(dated) > often {
			dated = now
			control.SetWriteDeadline(now.Add(patience)) // for what comes next, not for the list
		}
		if out.Encode(item) != nil || r.Context().Err() != nil {
			return false
		}
		if now.Sub(flushed) > often {
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

func parseBody[T any](w http.ResponseWriter, r *http.Request) (T, error) {
	var v T
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequestBody))
	body.DisallowUnknownFields() // so that a misspelt undo does not drain
	if err := body.Decode(&v); err != nil {
		return v, fmt.Errorf("%w: body: %v", ErrInvalid, err)
	}
	if _, err := body.Token(); !errors.Is(err, io.EOF) {
		return v, fmt.Errorf("%w: body: more than one value", ErrInvalid)
	}
	return v, nil
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
	if err != nil { // a value that JSON cannot represent: a bug of the daemon
		status, body = http.StatusInternalServerError, []byte(`{"error":"encode answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // fails only if the client has gone
}

// Serve serves requests on l, which it closes, until ctx is done. Requests in progress then have a second to finish.
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
