package test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"baton/lab"
	"baton/lab/peers"
)

// quicServer answers each stream, on which a number comes, with its own name, the client's address as it sees it, and so many bytes. A
// client's pause stands before the last of them.
type quicServer struct {
	name      string
	transport *quicgo.Transport
	at        netip.AddrPort
	close     func()
}

const quicProtocol = "bytes"

type quicOptions struct {
	v6    bool
	retry bool
	ids   quicgo.ConnectionIDGenerator
}

// quicServe serves QUIC on port 443 of the site.
func (n *network) quicServe(a *peers.Authority, s *site, o quicOptions, names ...string) *quicServer {
	n.t.Helper()
	certificate, key := a.Sign(names...)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		n.t.Fatal(err)
	}
	server := &quicServer{name: s.name, at: netip.AddrPortFrom(s.address(o.v6).Addr(), 443)}
	c, err := s.ListenPacket("udp", server.at.String())
	if err != nil {
		n.t.Fatal(err)
	}
	server.transport = &quicgo.Transport{
		Conn: c, VerifySourceAddress: func(net.Addr) bool { return o.retry }, ConnectionIDGenerator: o.ids,
	}
	l, err := server.transport.ListenEarly(&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{quicProtocol}}, &quicgo.Config{
		Allow0RTT: true, Versions: []quicgo.Version{quicgo.Version1, quicgo.Version2},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	go server.serve(l)
	server.close = sync.OnceFunc(func() {
		l.Close()
		server.transport.Close()
		c.Close()
	})
	n.t.Cleanup(server.close)
	return server
}

func (s *quicServer) serve(l *quicgo.EarlyListener) {
	for {
		conn, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		go func() {
			for {
				stream, err := conn.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go s.answer(conn, stream)
			}
		}()
	}
}

func (s *quicServer) answer(conn *quicgo.Conn, stream *quicgo.Stream) {
	defer stream.Close()
	var size uint64
	if binary.Read(stream, binary.BigEndian, &size) != nil {
		return
	}
	fmt.Fprintf(stream, "%s %s\n", s.name, conn.RemoteAddr())
	b := make([]byte, 32<<10)
	for i := range b {
		b[i] = byte(i * 7)
	}
	for left := int(size); left > 0; {
		n, err := stream.Write(b[:min(left, len(b))])
		if err != nil {
			return
		}
		left -= n
	}
}

// quicClient is a client's socket, which may change its port.
type quicClient struct {
	n         *network
	host      *lab.Host
	config    *tls.Config
	transport *quicgo.Transport
	socket    *movingSocket // nil: the transport has a socket of its own
}

// movingSocket is a socket that is replaced by another one, as a NAT that forgets makes it look.
type movingSocket struct {
	mu  sync.Mutex
	now net.PacketConn
	in  chan arrived
}

type arrived struct {
	b    []byte
	from net.Addr
}

func (m *movingSocket) use(c net.PacketConn) {
	m.mu.Lock()
	old := m.now
	m.now = c
	m.mu.Unlock()
	if old != nil {
		old.Close()
	}
	go func() {
		for {
			b := make([]byte, 2048)
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			m.in <- arrived{b[:n], from}
		}
	}()
}

func (m *movingSocket) socket() net.PacketConn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *movingSocket) ReadFrom(b []byte) (int, net.Addr, error) {
	a := <-m.in
	if a.from == nil {
		return 0, nil, os.ErrDeadlineExceeded
	}
	return copy(b, a.b), a.from, nil
}

func (m *movingSocket) WriteTo(b []byte, to net.Addr) (int, error) { return m.socket().WriteTo(b, to) }
func (m *movingSocket) LocalAddr() net.Addr                        { return m.socket().LocalAddr() }
func (m *movingSocket) Close() error                               { return m.socket().Close() }
func (m *movingSocket) SetDeadline(time.Time) error                { return nil }
func (m *movingSocket) SetReadDeadline(at time.Time) error {
	if !at.IsZero() && at.Before(time.Now()) {
		m.in <- arrived{} // ends the transport's read
	}
	return nil
}
func (m *movingSocket) SetWriteDeadline(time.Time) error { return nil }

// quicClient opens a socket on the client's host.
func (n *network) quicClient(a *peers.Authority, moving bool) *quicClient {
	n.t.Helper()
	c := &quicClient{n: n, host: n.client, config: &tls.Config{RootCAs: a.Pool, NextProtos: []string{quicProtocol}, ClientSessionCache: tls.NewLRUClientSessionCache(8)}}
	if moving {
		c.socket = &movingSocket{in: make(chan arrived, 4096)}
		c.move()
		c.transport = &quicgo.Transport{Conn: c.socket}
	} else {
		c.transport = &quicgo.Transport{Conn: c.open()}
	}
	n.t.Cleanup(func() {
		c.transport.Close()
		c.transport.Conn.Close()
	})
	return c
}

func (c *quicClient) open() net.PacketConn {
	c.n.t.Helper()
	s, err := c.host.ListenPacket("udp", ":0")
	if err != nil {
		c.n.t.Fatal(err)
	}
	return s
}

// move takes another port.
func (c *quicClient) move() { c.socket.use(c.open()) }

func (c *quicClient) dial(t *testing.T, vip, name string, o *quicgo.Config) *quicgo.Conn {
	t.Helper()
	config := c.config.Clone()
	config.ServerName = name
	conn, err := c.transport.DialEarly(deadline(t), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(vip)), config, o)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Cleanup(func() { conn.CloseWithError(0, "") })
	return conn
}

// reply is a response that is being read.
type reply struct {
	t         *testing.T
	stream    *quicgo.Stream
	r         *bufio.Reader
	surrogate string
	seen      netip.AddrPort // the client's address, as the surrogate sees it
	got, size int
}

func begin(t *testing.T, conn *quicgo.Conn, size int) *reply {
	t.Helper()
	stream, err := conn.OpenStreamSync(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := binary.Write(stream, binary.BigEndian, uint64(size)); err != nil {
		t.Fatal(err)
	}
	stream.Close()
	at, _ := deadline(t).Deadline()
	stream.SetReadDeadline(at)
	r := &reply{t: t, stream: stream, r: bufio.NewReader(stream), size: size}
	line, err := r.r.ReadString('\n')
	if err != nil {
		t.Fatalf("read the response's first line: %v", err)
	}
	var seen string
	r.surrogate, seen, _ = strings.Cut(strings.TrimSpace(line), " ")
	r.seen = netip.MustParseAddrPort(seen)
	return r
}

// read reads so many bytes of the response; -1: all.
func (r *reply) read(n int) {
	r.t.Helper()
	if n < 0 {
		n = r.size - r.got
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r.r, b); err != nil {
		r.t.Fatalf("read byte %d of %d: %v", r.got, r.size, err)
	}
	for i, have := range b {
		if want := byte((r.got + i) % (32 << 10) * 7); have != want {
			r.t.Fatalf("byte %d of the response is %d, want %d", r.got+i, have, want)
		}
	}
	r.got += n
}

func fetchQUIC(t *testing.T, conn *quicgo.Conn, size int) (surrogate string, seen netip.AddrPort) {
	t.Helper()
	r := begin(t, conn, size)
	r.read(-1)
	return r.surrogate, r.seen
}

// quicConfig has VIPs of QUIC for a.test, b.test and other names, with a pool for each.
func (n *network) quicConfig(vip string, v6 bool, more string, a, b *quicServer) string {
	family := map[bool]string{false: "4", true: "6"}[v6]
	return fmt.Sprintf(`vips:
  - address: %q
    interfaces: [%s]
    protocol: quic
    routes:
      - {match: {sni: a.test}, pool: a%[3]s}
      - {match: {sni: "*.b.test"}, pool: b%[3]s}
pools:
  a%[3]s: {%[4]ssurrogates: [{name: a%[3]s, address: %[5]q}]}
  b%[3]s: {%[4]ssurrogates: [{name: b%[3]s, address: %[6]q}]}
`, vip, n.front.Name, family, more, a.at, b.at)
}

// endQUIC ends the router, whose QUIC sessions' ends it cannot see, and removes what they have left.
func (r *running) endQUIC() {
	t := r.n.t
	t.Helper()
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if out, err := r.n.baton(context.Background(), "router", "cleanup", "-c", r.file); err != nil {
		t.Errorf("clean up: %v\n%s", err, out)
	}
	if err := r.left(); err != nil {
		t.Errorf("left behind: %v\n%s", err, r.Log())
	}
}

// TestQUIC: connections go to the surrogates of the names in their hellos.
func TestQUIC(t *testing.T) {
	t.Parallel() // judges by results
	for _, tt := range []struct {
		name, vip string
		v6        bool
	}{{"IPv4", "10.9.9.9:443", false}, {"IPv6", "[fd09::9]:443", true}} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t)
			ca := peers.NewAuthority(n.Lab)
			a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{v6: tt.v6}, "a.test")
			b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{v6: tt.v6, retry: true}, "x.b.test", "*.b.test")
			r := n.start(n.quicConfig(tt.vip, tt.v6, "", a, b))
			defer r.endQUIC()

			for _, version := range []quicgo.Version{quicgo.Version1, quicgo.Version2} {
				for name, want := range map[string]string{"a.test": "a", "x.b.test": "b", "y.b.test": "b"} {
					t.Run(fmt.Sprintf("%s/%s", version, name), func(t *testing.T) {
						c := n.quicClient(ca, false)
						conn := c.dial(t, tt.vip, name, &quicgo.Config{Versions: []quicgo.Version{version}})
						surrogate, seen := fetchQUIC(t, conn, 10<<20)
						if surrogate != want {
							t.Errorf("answered by %q, want %q", surrogate, want)
						}
						if ip := seen.Addr().Unmap(); !strings.HasPrefix(ip.String(), "10.2.") && !strings.HasPrefix(ip.String(), "fd02:") {
							t.Errorf("the surrogate sees %v, want the router", seen)
						}
						if got := conn.ConnectionState().Version; got != version {
							t.Errorf("version %v", got)
						}
					})
				}
			}
		})
	}
}

// TestQUICMoves: a connection whose client's port changes goes on at the same surrogate, which sees and validates the new address.
func TestQUICMoves(t *testing.T) {
	t.Parallel() // judges by results
	for _, source := range []string{"router", "keep"} {
		t.Run(source, func(t *testing.T) {
			const vip = "10.9.9.9:443"
			n := newNetwork(t)
			ca := peers.NewAuthority(n.Lab)
			a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{}, "a.test")
			b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "x.b.test")
			r := n.start(n.quicConfig(vip, false, "source: "+source+", ", a, b))
			defer r.endQUIC()
			c := n.quicClient(ca, true)
			conn := c.dial(t, vip, "x.b.test", nil)
			reply := begin(t, conn, 20<<20)
			first := reply.seen
			if kept := first.Addr().String() == "10.1.0.2"; kept != (source == "keep") {
				t.Errorf("the surrogate sees %v", first)
			}
			for i := range 3 {
				reply.read(5 << 20)
				c.move()
				fetchQUIC(t, conn, 100) // a surrogate learns the address from what the client sends, and here it only waits for the download
				if q := r.status().QUIC; q.Moved != uint64(i+1) {
					t.Errorf("moved %d times: %+v", i+1, q)
				}
			}
			reply.read(-1)
			surrogate, seen := fetchQUIC(t, conn, 1<<20)
			if surrogate != "b" || seen == first {
				t.Errorf("then answered by %q, which sees %v, and first saw %v", surrogate, seen, first)
			}
			if q := r.status().QUIC; q.Made != 1 || q.Moved != 3 || len(q.Refused) != 0 {
				t.Errorf("%+v", q)
			}
		})
	}
}

// TestQUICEarlyData: a client that comes back sends its request with its hello.
func TestQUICEarlyData(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{}, "a.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "x.b.test")
	r := n.start(n.quicConfig(vip, false, "", a, b))
	defer r.endQUIC()
	first := n.quicClient(ca, false)
	conn := first.dial(t, vip, "a.test", nil)
	fetchQUIC(t, conn, 100)
	time.Sleep(100 * time.Millisecond) // the ticket comes behind the response
	conn.CloseWithError(0, "")
	c := n.quicClient(ca, false)
	c.config = first.config
	conn = c.dial(t, vip, "a.test", nil)
	if surrogate, _ := fetchQUIC(t, conn, 100000); surrogate != "a" {
		t.Errorf("answered by %q", surrogate)
	}
	if !conn.ConnectionState().Used0RTT {
		t.Error("no early data: the test is not about it")
	}
}

// TestQUICRestart: downloads go on while the router restarts, and when it has been killed; then their clients may move.
func TestQUICRestart(t *testing.T) {
	t.Parallel() // judges by results
	const vip = "10.9.9.9:443"
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{}, "a.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "x.b.test")
	config := n.quicConfig(vip, false, "", a, b)
	r := n.start(config)
	c := n.quicClient(ca, true)
	conn := c.dial(t, vip, "a.test", nil)
	reply := begin(t, conn, 20<<20)
	for i, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		reply.read(3 << 20)
		if err := r.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		reply.read(3 << 20)
		before := r.before
		var err error
		if r, err = n.startWith(config); err != nil {
			t.Fatal(err)
		}
		r.before = before
		if q := r.status().QUIC; q.Sessions != 1+2*i { // the second connection, and the first one's other address
			t.Errorf("after %v: %+v", signal, q)
		}
		if surrogate, _ := fetchQUIC(t, n.quicClient(ca, false).dial(t, vip, "x.b.test", nil), 1<<20); surrogate != "b" {
			t.Errorf("after %v a new connection is answered by %q", signal, surrogate)
		}
		c.move()
		fetchQUIC(t, conn, 100)
	}
	reply.read(-1)
	r.endQUIC()
}

// TestQUICIsLogged: a session is listed while it lives, and leaves a record with the name in its hello when it has ended.
func TestQUICIsLogged(t *testing.T) {
	t.Parallel() // judges by results
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	a := n.quicServe(ca, n.site("a", lab.LinkOptions{}), quicOptions{}, "a.test")
	b := n.quicServe(ca, n.site("b", lab.LinkOptions{}), quicOptions{}, "x.b.test")
	file := filepath.Join(n.Dir(), "access.log")
	r := n.start(fmt.Sprintf("timeouts: {quic_idle: 2s}\nlog: {access: [{to: file, path: %q, format: json}]}\n", file) + n.quicConfig("10.9.9.9:443", false, "", a, b))
	defer r.endQUIC()
	c := n.quicClient(ca, false)
	fetchQUIC(t, c.dial(t, "10.9.9.9:443", "x.b.test", &quicgo.Config{}), 1<<20)
	out, err := n.baton(deadline(t), "router", "sessions", "--control", r.socket, "-o", "json")
	if err != nil || !strings.Contains(out, `"surrogate":"b4"`) {
		t.Errorf("sessions: %v\n%s", err, out)
	}
	lab.Eventually(t, answersWithin, func() error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, want := range []string{`"protocol":"quic"`, `"host":"x.b.test"`, `"surrogate":"b4"`, `"end":"timeout"`, `"client_address":"10.1.0.2"`} {
			if !strings.Contains(string(text), want) {
				return fmt.Errorf("no %s in %q", want, text)
			}
		}
		return nil
	})
}
