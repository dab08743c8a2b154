package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Site handles the requests to a site. Errors of Propose and Instruct are sent to the caller as conflicts.
type Site struct {
	Planner  func() string // the planner whose proposals and instructions are accepted; "": none
	Report   func() Report
	Propose  func(p Proposal) error
	Instruct func(i Instruction) error
}

// maxBody limits requests and responses, in bytes.
const maxBody = 64 << 10

// maxConnections limits concurrent connections of peers.
const maxConnections = 256

// Serve handles requests on l, which it closes, until ctx is done.
func Serve(ctx context.Context, l net.Listener, own *Identity, s Site) error {
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0), // failed handshakes of unknown clients are not logged
	}
	down := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(down)
		grace, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	err := server.Serve(own.Listener(limit(l, maxConnections)))
	if !stop() {
		<-down
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve sites: %w", err)
}

func (s Site) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/report", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.Report()) })
	mux.HandleFunc("PUT /v1/proposal", func(w http.ResponseWriter, r *http.Request) { accept(s, w, r, s.Propose) })
	mux.HandleFunc("POST /v1/instruction", func(w http.ResponseWriter, r *http.Request) { accept(s, w, r, s.Instruct) })
	return mux
}

// accept passes a request of the planner to the site.
func accept[T any](s Site, w http.ResponseWriter, r *http.Request, apply func(T) error) {
	planner := s.Planner()
	if planner == "" || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].VerifyHostname(planner) != nil {
		answer(w, http.StatusForbidden, refusal{"only the planner that the site is configured for may do this"})
		return
	}
	var v T
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&v); err != nil {
		answer(w, http.StatusBadRequest, refusal{"body: " + err.Error()})
		return
	}
	if err := apply(v); err != nil {
		answer(w, http.StatusConflict, refusal{err.Error()})
		return
	}
	answer(w, http.StatusOK, s.Report())
}

type refusal struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // fails only if the caller has disconnected
}

// limited accepts at most cap(slots) connections at a time.
type limited struct {
	net.Listener
	slots chan struct{}
}

func limit(l net.Listener, n int) net.Listener { return &limited{l, make(chan struct{}, n)} }

func (l *limited) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &counted{Conn: c, leave: func() { <-l.slots }}, nil
}

// counted frees its slot on the first Close.
type counted struct {
	net.Conn
	once  sync.Once
	leave func()
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.leave)
	return err
}
