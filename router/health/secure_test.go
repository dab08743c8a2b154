package health

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"baton/router/certs"
	"baton/router/config"
	"baton/router/proxyheader"
)

// secureServer serves HTTPS with httptest's certificate, for example.com.
func secureServer(t *testing.T, h http.HandlerFunc, config *tls.Config) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = config == nil || config.NextProtos == nil
	s.TLS = config
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func named(name string) []certs.Ask { return []certs.Ask{{Name: name, Route: name}} }

func handshakes() *config.Health {
	h := quick()
	h.Path, h.Host = "", ""
	return h
}

// TestSecureCheck: which surrogates with TLS are up, and what is seen of them.
func TestSecureCheck(t *testing.T) {
	strict := &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if h.ServerName != "example.com" {
			return nil, errors.New("unknown name")
		}
		return nil, nil
	}}
	answer := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Alt-Svc", `h3=":443"; ma=60`)
			if want := "example.com"; r.Host != want || r.URL.Path != "/healthz" {
				status = 400
			}
			w.WriteHeader(status)
		}
	}
	path := func() *config.Health { h := quick(); h.Path, h.Host = "/healthz", ""; return h }
	guess := []certs.Ask{{Name: "baton-check.example.com", Route: "*.example.com", MadeUp: true}}
	for _, tt := range []struct {
		name     string
		handler  http.HandlerFunc
		config   *tls.Config
		check    *config.Health
		names    []certs.Ask
		failure  string
		protocol string
		http3    bool
		refused  bool
	}{
		{"handshake", nil, nil, handshakes(), named("example.com"), "", "h2", false, false},
		{"another name than the certificate's", nil, nil, handshakes(), named("a.test"), "", "h2", false, false},
		{"no name", nil, nil, handshakes(), []certs.Ask{{}}, "", "h2", false, false},
		{"request by h2", answer(200), nil, path(), named("example.com"), "", "h2", true, false},
		{"request by http/1.1", answer(204), &tls.Config{NextProtos: []string{"http/1.1"}}, path(), named("example.com"), "", "http/1.1", true, false},
		{"status", answer(503), nil, path(), named("example.com"), "status 503", "h2", false, false},
		{"refuses the name", nil, strict, handshakes(), named("a.test"), "refuses the handshake for a.test", "", false, true},
		{"refuses one of two", nil, strict, handshakes(), append(named("a.test"), named("example.com")...), "", "h2", false, true},
		{"refuses a made-up name", nil, strict, handshakes(), guess, "", "", false, true},
		{"refuses a made-up name, with a path", answer(200), strict, path(), guess, "set health.host", "", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := secureServer(t, tt.handler, tt.config)
			c, _ := start(t, Options{Targets: []Target{{Name: "s1", Address: addrOf(s), Check: tt.check, Names: tt.names}}})
			poll(t, "checked", func() bool { return c.State("s1").Phase != Checking })
			got := c.State("s1")
			if got.Up != (tt.failure == "") || !strings.Contains(got.LastError, tt.failure) {
				t.Errorf("state %+v, want failure %q", got, tt.failure)
			}
			protocol, http3, refused := "", false, false
			for _, seen := range c.Seen("s1") {
				protocol += seen.Protocol
				http3 = http3 || seen.HTTP3
				refused = refused || seen.Refused != ""
			}
			if protocol != tt.protocol || http3 != tt.http3 || refused != tt.refused {
				t.Errorf("protocol %q, HTTP/3 %v, refused %v", protocol, http3, refused)
			}
		})
	}
	t.Run("without TLS", func(t *testing.T) {
		s := httptest.NewServer(http.NotFoundHandler())
		defer s.Close()
		c, _ := start(t, Options{Targets: []Target{{Name: "s1", Address: addrOf(s), Check: handshakes(), Names: named("a.test")}}})
		poll(t, "down", func() bool { return c.State("s1").Phase == Down })
		if got, want := c.State("s1").LastError, "check "+addrOf(s).String()+": answers without TLS on "+addrOf(s).String(); got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	})
	t.Run("silent", func(t *testing.T) {
		s := httptest.NewUnstartedServer(nil) // its listener takes connections that nobody accepts
		defer s.Close()
		check := handshakes()
		check.Timeout = 50 * time.Millisecond
		c, _ := start(t, Options{Targets: []Target{{Name: "s1", Address: addrOf(s), Check: check, Names: named("a.test")}}})
		poll(t, "down", func() bool { return c.State("s1").Phase == Down })
		if got := c.State("s1").LastError; !strings.HasSuffix(got, "no answer within 50ms") {
			t.Errorf("error %q", got)
		}
	})
}

// TestSeen: another certificate is reported, the same one is not.
func TestSeen(t *testing.T) {
	var second atomic.Bool
	other := &tls.Config{NextProtos: []string{"http/1.1"}}
	s := secureServer(t, nil, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if second.Load() {
			return other, nil
		}
		return nil, nil
	}})
	other.Certificates = s.TLS.Certificates
	var reports, checks atomic.Int32
	c, _ := start(t, Options{
		Targets: []Target{{Name: "s1", Address: addrOf(s), Check: handshakes(), Names: named("example.com")}},
		OnSeen:  func() { reports.Add(1) }, OnCheck: func(string, time.Duration, error) { checks.Add(1) },
	})
	poll(t, "five checks", func() bool { return checks.Load() >= 5 })
	if n := reports.Load(); n != 1 {
		t.Errorf("%d reports of one certificate", n)
	}
	second.Store(true)
	poll(t, "another report", func() bool { return reports.Load() == 2 })
	if got := c.Seen("s1"); len(got) != 1 || got[0].Protocol != "http/1.1" {
		t.Errorf("seen %+v", got)
	}
	if got := c.Seen("s9"); got != nil {
		t.Errorf("seen of an unknown surrogate: %+v", got)
	}
	if err := c.Update([]Target{{Name: "s1", Address: addrOf(s), Check: handshakes(), Names: named("www.example.com")}}); err != nil {
		t.Fatal(err)
	}
	poll(t, "seen by the new name", func() bool { got := c.Seen("s1"); return len(got) == 1 && got[0].Name == "www.example.com" })
}

// TestOwnHeader: the connections of checks begin with the header that surrogates expect, with TLS and without.
func TestOwnHeader(t *testing.T) {
	for version, want := range map[proxyheader.Version]string{
		proxyheader.V1: "PROXY UNKNOWN\r\n", proxyheader.V2: "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00", proxyheader.None: "",
	} {
		for _, secure := range []bool{false, true} {
			var s *httptest.Server
			got := make(chan string, 1)
			s = httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Listener = &headedListener{s.Listener, len(want), got}
			target := Target{Name: "s1", Address: addrOf(s), Check: quick(), Header: version}
			if secure {
				target.Check, target.Names = handshakes(), named("example.com")
				s.StartTLS()
			} else {
				s.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
				s.Start()
			}
			c, _ := start(t, Options{Targets: []Target{target}})
			poll(t, "up", func() bool { return c.State("s1").Up })
			if header := <-got; header != want {
				t.Errorf("version %d, TLS %v: header %q, want %q", version, secure, header, want)
			}
			c.Close()
			s.Close()
		}
	}
}

// headedListener takes so many bytes off the front of each connection.
type headedListener struct {
	net.Listener
	length int
	got    chan<- string
}

func (l *headedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	header := make([]byte, l.length)
	if _, err := io.ReadFull(c, header); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	select {
	case l.got <- string(header):
	default:
	}
	return c, nil
}

func TestTurn(t *testing.T) {
	var names []certs.Ask
	for _, n := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		names = append(names, named(n)...)
	}
	text := func(asks []certs.Ask) (s string) {
		for _, a := range asks {
			s += a.Name
		}
		return s
	}
	var own turn
	if got := text(own.choose(names[:maxHandshakes])); got != "abcd" {
		t.Errorf("few names: %q", got)
	}
	var got []string
	for _, good := range []string{"", "b", "b", "gone"} {
		own.good = good
		got = append(got, text(own.choose(names)))
	}
	if want := []string{"abcd", "befg", "bacd", "efga"}; !slices.Equal(got, want) {
		t.Errorf("turns %q, want %q", got, want)
	}
}
