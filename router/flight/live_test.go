package flight

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"baton/packet/quic"
)

// wire is what a client writes to. Nothing ever comes back on it.
type wire struct {
	sent   chan []byte
	closed chan struct{}
}

func (w *wire) WriteTo(b []byte, _ net.Addr) (int, error) {
	select {
	case w.sent <- bytes.Clone(b):
	default: // retransmissions that nobody waits for
	}
	return len(b), nil
}

func (w *wire) ReadFrom([]byte) (int, net.Addr, error) {
	<-w.closed
	return 0, nil, net.ErrClosed
}

func (w *wire) Close() error        { close(w.closed); return nil }
func (w *wire) LocalAddr() net.Addr { return &net.UDPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 5000} }
func (w *wire) SetDeadline(time.Time) error {
	return os.ErrNoDeadline
}
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// firstFlight has a quic-go client write its first flight, and gives the datagrams up to the one with which its hello is whole. Early
// data, if any, is written as soon as can be, and there is a datagram of it at the end.
func firstFlight(t *testing.T, config *tls.Config, options *quicgo.Config, early []byte) (flight [][]byte, message []byte) {
	t.Helper()
	t.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
	w := &wire{sent: make(chan []byte, 64), closed: make(chan struct{})}
	transport := &quicgo.Transport{Conn: w}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	defer func() {
		cancel()
		w.Close()
		<-ended
		transport.Close()
	}()
	go func() {
		defer close(ended)
		conn, err := transport.DialEarly(ctx, net.UDPAddrFromAddrPort(vip), config, options)
		if err != nil || early == nil {
			return
		}
		if s, err := conn.OpenStream(); err == nil {
			s.Write(early)
		}
		<-ctx.Done()
		conn.CloseWithError(0, "")
	}()
	g := New(Defaults)
	for {
		select {
		case d := <-w.sent:
			flight = append(flight, d)
			if message != nil {
				return flight, message // with one of early data
			}
			r := g.Add(from("198.51.100.7:5000"), d, 0)
			if r.Outcome == Refused {
				t.Fatalf("datagram %d: %s", len(flight), r.text())
			}
			if r.Outcome == Hello {
				if message = bytes.Clone(r.Message); early == nil {
					return flight, message
				}
			}
		case <-ctx.Done():
			t.Fatalf("after %d datagrams: %v", len(flight), ctx.Err())
		}
	}
}

// inEveryOrder plays a first flight in each order of its datagrams, with a repetition of each.
func inEveryOrder(t *testing.T, flight [][]byte, message []byte) {
	t.Helper()
	for order := range orders(len(flight)) {
		g := New(Defaults)
		var r Result
		for i := 0; i < len(order) && r.Outcome != Hello; i++ {
			for range 2 {
				if r = g.Add(from("198.51.100.7:5000"), flight[order[i]], 0); r.Outcome == Hello {
					break
				}
			}
		}
		if r.Outcome != Hello || !bytes.Equal(r.Message, message) {
			t.Errorf("order %v: %s, message of %d bytes, want %d", order, r.text(), len(r.Message), len(message))
		}
	}
}

// orders yields the orders of 0 to n-1.
func orders(n int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		var extend func(done []int) bool
		extend = func(done []int) bool {
			if len(done) == n {
				return yield(done)
			}
			for i := range n {
				if !slices.Contains(done, i) && !extend(append(done[:len(done):len(done)], i)) {
					return false
				}
			}
			return true
		}
		extend(nil)
	}
}

// TestQUICGo reads the first flights of quic-go: it cuts the server name in two, and sends the halves in different packets.
func TestQUICGo(t *testing.T) {
	long := strings.Repeat("label.", 40) + "example"
	classic := []tls.CurveID{tls.X25519}
	many := make([]string, 120)
	for i := range many {
		many[i] = fmt.Sprintf("protocol-%03d", i)
	}
	tests := []struct {
		name     string
		config   *tls.Config
		versions []quicgo.Version
		least    int // datagrams
	}{
		{"version 1", &tls.Config{ServerName: "www.example.com", NextProtos: []string{"h3"}}, []quicgo.Version{quicgo.Version1}, 2},
		{"version 2", &tls.Config{ServerName: "www.example.com", NextProtos: []string{"h3"}}, []quicgo.Version{quicgo.Version2}, 2},
		{"long name", &tls.Config{ServerName: long, NextProtos: []string{"h3"}}, nil, 2},
		{"address", &tls.Config{ServerName: "192.0.2.1", NextProtos: []string{"h3"}}, nil, 2},
		{"small hello", &tls.Config{ServerName: "a.example", NextProtos: []string{"h3"}, CurvePreferences: classic}, nil, 1},
		{"large hello", &tls.Config{ServerName: "a.example", NextProtos: many}, nil, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			flight, message := firstFlight(t, tt.config, &quicgo.Config{Versions: tt.versions}, nil)
			if len(flight) < tt.least {
				t.Errorf("%d datagrams, the test wants %d", len(flight), tt.least)
			}
			name := tt.config.ServerName
			if net.ParseIP(name) != nil {
				name = "" // RFC 6066 section 3
			}
			if got, want := readByStd(t, message), name+" "+strings.Join(tt.config.NextProtos, ","); got != want {
				t.Errorf("crypto/tls reads %q, want %q", got, want)
			}
			inEveryOrder(t, flight, message)
			t.Logf("%d datagrams, hello of %d bytes", len(flight), len(message))
		})
	}
}

// server is a quic-go server that sends back what it gets.
func server(t *testing.T) (*quicgo.EarlyListener, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"www.example.com"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	l, err := quicgo.ListenAddrEarly("127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"echo"}},
		&quicgo.Config{Allow0RTT: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			go echo(conn)
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	return l, &tls.Config{ServerName: "www.example.com", NextProtos: []string{"echo"}, RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
}

func echo(conn *quicgo.Conn) {
	for {
		s, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		io.Copy(s, s)
		s.Close()
	}
}

func ask(t *testing.T, conn *quicgo.Conn, text string) {
	t.Helper()
	s, err := conn.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(s, text); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if got, err := io.ReadAll(s); err != nil || string(got) != text {
		t.Fatalf("got %q, %v, want %q", got, err, text)
	}
}

// TestReplay has a client reach a server through a first flight that was held, its datagrams swapped.
func TestReplay(t *testing.T) {
	l, config := server(t)
	front, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.DialUDP("udp", nil, l.Addr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- forward(front, back) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := quicgo.DialAddr(ctx, front.LocalAddr().String(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, conn, "through a held first flight")
	conn.CloseWithError(0, "")
	front.Close()
	back.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// forward is a router of one client: it holds the first flight, reads its second datagram before its first, and hands on the rest.
func forward(front, back *net.UDPConn) error {
	b := make([]byte, 2000)
	var swapped [][]byte
	var client *net.UDPAddr
	for len(swapped) < 2 {
		n, a, err := front.ReadFromUDP(b)
		if err != nil {
			return err
		}
		client = a
		swapped = append([][]byte{bytes.Clone(b[:n])}, swapped...)
	}
	g := New(Defaults)
	tuple := Tuple{client.AddrPort(), vip}
	if r := g.Add(tuple, swapped[0], 0); r.Outcome != More {
		return fmt.Errorf("second datagram: %s", r.text())
	}
	r := g.Add(tuple, swapped[1], 0)
	if r.Outcome != Hello || len(r.Datagrams) != 2 {
		return fmt.Errorf("first datagram: %s, %d datagrams", r.text(), len(r.Datagrams))
	}
	for _, d := range r.Datagrams {
		if _, err := back.Write(d); err != nil {
			return err
		}
	}
	go func() {
		b := make([]byte, 2000)
		for {
			n, err := back.Read(b)
			if err != nil {
				return
			}
			front.WriteToUDP(b[:n], client)
		}
	}()
	for {
		n, _, err := front.ReadFromUDP(b)
		if err != nil {
			return err
		}
		back.Write(b[:n])
	}
}

// TestQUICGoEarlyData: a client with a ticket sends 0-RTT packets, which are held with its Initials.
func TestQUICGoEarlyData(t *testing.T) {
	l, config := server(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stored := make(chan struct{}, 8)
	config.ClientSessionCache = &cache{config.ClientSessionCache, stored}
	conn, err := quicgo.DialAddr(ctx, l.Addr().String(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, conn, "a ticket, please")
	select {
	case <-stored:
	case <-ctx.Done():
		t.Fatal("no ticket came")
	}
	conn.CloseWithError(0, "")

	flight, message := firstFlight(t, config, nil, bytes.Repeat([]byte("early "), 100))
	if got := readByStd(t, message); got != "www.example.com echo" {
		t.Errorf("crypto/tls reads %q", got)
	}
	early := 0
	for _, d := range flight {
		for p, err := range quic.Packets(d) {
			if err == nil && p.Kind == quic.ZeroRTT {
				early++
			}
		}
	}
	if early == 0 {
		t.Error("the flight has no 0-RTT packets: the test is not about them")
	}
	inEveryOrder(t, flight, message)
	t.Logf("%d datagrams, %d 0-RTT packets, hello of %d bytes", len(flight), early, len(message))
}

// cache tells when a ticket is there.
type cache struct {
	tls.ClientSessionCache
	stored chan struct{}
}

func (c *cache) Put(key string, s *tls.ClientSessionState) {
	c.ClientSessionCache.Put(key, s)
	if s != nil {
		c.stored <- struct{}{}
	}
}
