package passthrough

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/packet/hello"
)

const within = 5 * time.Second

// world is a Server before surrogates of TLS that answer with their own name.
type world struct {
	*Server
	t    *testing.T
	addr string

	mu       sync.Mutex
	sessions []Session
	refused  []string
	failures []string
	idle     time.Duration
}

// start starts a server whose Decide returns the surrogate called as the hello's name.
func start(t *testing.T, surrogates map[string]string, limit time.Duration) *world {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, addr: l.Addr().String(), idle: time.Minute}
	w.Server, err = New(Options{
		VIP: netip.MustParseAddrPort("10.9.9.9:443"), Hello: limit,
		Decide: func(h *hello.Hello, client netip.AddrPort, exclude []string) Decision {
			at, ok := surrogates[h.ServerName]
			switch {
			case len(exclude) > 0:
				return Decision{Surrogate: "spare", Address: netip.MustParseAddrPort(surrogates["spare"])}
			case !ok:
				return Decision{Alert: hello.UnrecognizedName, Reason: "no_route"}
			}
			return Decision{Surrogate: h.ServerName, Address: netip.MustParseAddrPort(at)}
		},
		Dial: (&net.Dialer{}).DialContext,
		Idle: func() time.Duration { w.mu.Lock(); defer w.mu.Unlock(); return w.idle },
		Hooks: Hooks{
			Session: func(x Session) { w.mu.Lock(); defer w.mu.Unlock(); w.sessions = append(w.sessions, x) },
			Refused: func(_ netip.AddrPort, why string) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.refused = append(w.refused, why)
			},
			Failure: func(name string, _ error) { w.mu.Lock(); defer w.mu.Unlock(); w.failures = append(w.failures, name) },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- w.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = w.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return w
}

// last waits for a refusal, or "".
func (w *world) lastRefused() string {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		w.mu.Lock()
		n := len(w.refused)
		last := ""
		if n > 0 {
			last = w.refused[n-1]
		}
		w.mu.Unlock()
		if last != "" {
			return last
		}
	}
	return ""
}

func (w *world) ended() Session {
	w.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		w.mu.Lock()
		if n := len(w.sessions); n > 0 {
			defer w.mu.Unlock()
			return w.sessions[n-1]
		}
		w.mu.Unlock()
	}
	w.t.Fatal("no session has ended")
	return Session{}
}

func certificate(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// surrogate echoes what comes after a handshake, and closes when its client has.
func surrogate(t *testing.T, name string) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate(t, name)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// dead is an address where nothing listens.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// cut sends each write in pieces of so many bytes, or each byte of the hello in a record of its own.
type cut struct {
	net.Conn
	size    int
	records bool
	begun   bool
}

func (c *cut) Write(b []byte) (int, error) {
	n := len(b)
	if c.records && !c.begun {
		c.begun = true
		var cut []byte
		for _, x := range b[5:] {
			cut = append(cut, 22, 3, 1, 0, 1, x)
		}
		b = cut
	}
	for len(b) > 0 {
		k := min(c.size, len(b))
		if _, err := c.Conn.Write(b[:k]); err != nil {
			return 0, err
		}
		b = b[k:]
	}
	return n, nil
}

// TestSessions: sessions reach the surrogate of their name, whole in both directions, however their hello is cut.
func TestSessions(t *testing.T) {
	w := start(t, map[string]string{"a.net": surrogate(t, "a.net"), "b.net": surrogate(t, "b.net")}, 0)
	for _, tt := range []struct {
		name    string
		size    int
		records bool
	}{{"a.net", 1 << 20, false}, {"b.net", 1 << 20, false}, {"a.net", 1, false}, {"b.net", 100, true}, {"a.net", 7, true}} {
		plain, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		c := tls.Client(&cut{Conn: plain, size: tt.size, records: tt.records}, &tls.Config{ServerName: tt.name, InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			t.Fatalf("%+v: %v", tt, err)
		}
		if got := c.ConnectionState().PeerCertificates[0].DNSNames[0]; got != tt.name {
			t.Errorf("%+v: reached %s", tt, got)
		}
		sent := bytes.Repeat([]byte("0123456789"), 20_000)
		go func() { _, _ = c.Write(sent) }()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%+v: echo of %d bytes differs: %v", tt, len(sent), err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(got); err != io.EOF {
			t.Fatalf("%+v: after the end: %v", tt, err)
		}
		c.Close()
		if x := w.ended(); x.Name != tt.name || x.Surrogate != tt.name || x.Err != nil || x.Sent < int64(len(sent)) || x.Received < int64(len(sent)) {
			t.Errorf("%+v: session %+v", tt, x)
		}
		w.mu.Lock()
		w.sessions = nil
		w.mu.Unlock()
	}
}

// TestRefusals: a client learns by an alert why it is refused, one without TLS by a response.
func TestRefusals(t *testing.T) {
	w := start(t, map[string]string{"a.net": surrogate(t, "a.net")}, 200*time.Millisecond)
	hello := func(name string) []byte {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _ = tls.Client(theirs, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake() }()
		b := make([]byte, 1<<14)
		n, _ := ours.Read(b)
		return b[:n]
	}
	whole := hello("a.net")
	for name, tt := range map[string]struct {
		sends  []byte
		answer string // "": reset
		reason string
	}{
		"unknown name": {hello("c.net"), "\x15\x03\x03\x00\x02\x02\x70", "no_route"},
		"request":      {[]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1.1 400 Bad Request\r\n", "plain_http"},
		"not TLS":      {[]byte("SSH-2.0-x\r\n"), "\x15\x03\x03\x00\x02\x02\x0a", "not_tls"},
		"half a hello": {whole[:100], "", "incomplete"},
		"huge":         {[]byte{22, 3, 1, 64, 0, 1, 0xff, 0xff, 0xff}, "\x15\x03\x03\x00\x02\x02\x2f", "too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			w.mu.Lock()
			w.refused = nil
			w.mu.Unlock()
			c, err := net.Dial("tcp", w.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(tt.sends); err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(within))
			got, err := io.ReadAll(c)
			if !strings.HasPrefix(string(got), tt.answer) || (tt.answer == "") != (err != nil) {
				t.Errorf("answer %q, %v", got, err)
			}
			if reason := w.lastRefused(); reason != tt.reason {
				t.Errorf("counted as %q", reason)
			}
		})
	}
}

// TestNextSurrogate: another surrogate is tried when one does not take the connection.
func TestNextSurrogate(t *testing.T) {
	w := start(t, map[string]string{"a.net": dead(t), "spare": surrogate(t, "spare")}, 0)
	c, err := tls.Dial("tcp", w.addr, &tls.Config{ServerName: "a.net", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if x := w.ended(); x.Surrogate != "spare" || w.failures[0] != "a.net" {
		t.Errorf("session %+v, failures %v", x, w.failures)
	}
}

// TestHalfClosed: a FIN in one direction leaves the other open.
func TestHalfClosed(t *testing.T) {
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	w := start(t, map[string]string{"a.net": up.Addr().String()}, 0)
	ours, theirs := net.Pipe()
	go func() { _ = tls.Client(theirs, &tls.Config{ServerName: "a.net", InsecureSkipVerify: true}).Handshake() }()
	flight := make([]byte, 1<<14)
	n, err := ours.Read(flight)
	ours.Close()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Write(flight[:n])
	err = errors.Join(err, c.(*net.TCPConn).CloseWrite())
	if err != nil {
		t.Fatal(err)
	}
	s, err := up.Accept()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(got, flight[:n]) {
		t.Fatalf("the surrogate reads %d bytes of %d: %v", len(got), n, err)
	}
	_, _ = s.Write([]byte("late"))
	s.Close()
	if got, err := io.ReadAll(c); string(got) != "late" || err != nil {
		t.Errorf("the client reads %q, %v", got, err)
	}
	if x := w.ended(); x.Err != nil {
		t.Errorf("session %+v", x)
	}
}

// TestBroken: a reset of one end reaches the other, which must not take the stream for complete.
func TestBroken(t *testing.T) {
	w := start(t, map[string]string{"a.net": surrogate(t, "a.net")}, 0)
	c, err := tls.Dial("tcp", w.addr, &tls.Config{ServerName: "a.net", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.NetConn().(*net.TCPConn).SetLinger(0)
	c.NetConn().Close()
	if x := w.ended(); x.Err == nil {
		t.Errorf("session %+v", x)
	}
}

// TestIdle: a session without bytes ends.
func TestIdle(t *testing.T) {
	w := start(t, map[string]string{"a.net": surrogate(t, "a.net")}, 0)
	w.mu.Lock()
	w.idle = 50 * time.Millisecond
	w.mu.Unlock()
	c, err := tls.Dial("tcp", w.addr, &tls.Config{ServerName: "a.net", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read: %v", err)
	}
}

// TestCrowd: clients without a whole hello are bounded, by prefix and in all, and one that sends its own is served at any time.
func TestCrowd(t *testing.T) {
	w := start(t, map[string]string{"a.net": surrogate(t, "a.net")}, time.Minute)
	var crowd []net.Conn
	defer func() {
		for _, c := range crowd {
			c.Close()
		}
	}()
	for range maxOfPrefix {
		c, err := net.Dial("tcp", w.addr)
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, c)
	}
	for end := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		w.Server.mu.Lock()
		n := w.undecided.Len()
		w.Server.mu.Unlock()
		if n == maxOfPrefix {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d undecided", n)
		}
	}
	if c, err := net.Dial("tcp", w.addr); err == nil { // else it is reset at once
		_ = c.SetReadDeadline(time.Now().Add(within))
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("one more of the prefix is read")
		}
		c.Close()
	}
	crowd[0].Close()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if c, err := tls.Dial("tcp", w.addr, &tls.Config{ServerName: "a.net", InsecureSkipVerify: true}); err == nil {
			c.Close()
			return
		}
	}
	t.Error("no client is served")
}
