package worker

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/secure"
	"baton/relay/secure/securetest"
	"baton/relay/trunkproto"
)

// tlsConfig is how the test itself is an end of trunks: with a certificate of its own, and with crypto/tls over ordinary connections.
func (c *chain) tlsConfig(name string, change func(*tls.Config)) *tls.Config {
	c.t.Helper()
	files := c.authority.Issue(c.t, securetest.Certificate{Names: []string{name}})
	pair, authorities, err := files.Read()
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: authorities, ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert,
		ServerName: fmt.Sprintf("r%d", len(c.hops)), NextProtos: []string{secure.Protocol},
	}
	if change != nil {
		change(cfg)
	}
	return cfg
}

// dialTrunkListener opens a connection to the last relay's listener for trunks.
func (c *chain) dialTrunkListener() *net.TCPConn {
	c.t.Helper()
	conn, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", c.trunkListeners[len(c.trunkListeners)-1].String())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(soon))
	return conn.(*net.TCPConn)
}

// openTrunk opens a trunk as a relay of that name, up to its header.
func (c *chain) openTrunk(cfg *tls.Config, name string) (*tls.Conn, *net.TCPConn) {
	c.t.Helper()
	raw := c.dialTrunkListener()
	conn := tls.Client(raw, cfg)
	hello := make([]byte, trunkproto.HelloSize)
	if _, err := io.ReadFull(conn, hello); err != nil {
		c.t.Fatal(err)
	}
	h, _, err := trunkproto.ParseHello(hello)
	if err != nil {
		c.t.Fatal(err)
	}
	own := raw.LocalAddr().(*net.TCPAddr).AddrPort()
	header := trunkproto.Header{Client: own, Server: addrOf(c.server), Via: trunkproto.Names(cfg.ServerName)}
	b, err := header.Append(nil, name, &h, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
	return conn, raw
}

func (c *chain) answer(conn net.Conn) trunkproto.Answer {
	c.t.Helper()
	b := make([]byte, trunkproto.AnswerSize)
	if _, err := io.ReadFull(conn, b); err != nil {
		c.t.Fatal(err)
	}
	a, _, err := trunkproto.ParseAnswer(b)
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *chain) handshakes() uint64 {
	return c.sum(func(w *Worker) uint64 { return w.count.BadHandshakes.Load() })
}

// Who opens trunks must be a relay by its certificate, and one that the header names.
func TestOpenersOfTrunks(t *testing.T) {
	c := newChainOf(t, config.TLS, 1, nil)
	conn, _ := c.openTrunk(c.tlsConfig("r7", nil), "r7")
	if a := c.answer(conn); a.Status != trunkproto.Connected {
		t.Errorf("got %v", a.Status)
	}
	c.accept().Close()
	conn.Close()

	conn, _ = c.openTrunk(c.tlsConfig("r7", nil), "r8")
	if a := c.answer(conn); a.Status != trunkproto.BadHeader {
		t.Errorf("another's name: got %v", a.Status)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("behind a refusal: %d, %v, want its end", n, err)
	}
	conn.Close()

	shows := func(by *securetest.Authority, what securetest.Certificate) func(*tls.Config) {
		files := by.Issue(t, what)
		pair, _, err := files.Read()
		if err != nil {
			t.Fatal(err)
		}
		return func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*tls.Config)
		want   string
	}{
		{"no certificate", func(c *tls.Config) { c.Certificates = nil }, "certificate required"},
		{"another authority's", shows(securetest.NewAuthority(t), securetest.Certificate{Names: []string{"r7"}}),
			"unknown certificate authority"},
		{"a certificate that has ended", shows(c.authority, securetest.Certificate{Names: []string{"r7"}, Ended: true}), "expired certificate"},
		{"TLS 1.2", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, "protocol version not supported"},
		{"no protocol", func(c *tls.Config) { c.NextProtos = nil }, "bad certificate"},
	} {
		before := c.handshakes()
		conn := tls.Client(c.dialTrunkListener(), c.tlsConfig("r7", tt.change))
		_, err := conn.Read(make([]byte, 1))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		eventually(t, "it is counted", func() bool { return c.handshakes() == before+1 })
	}
	before := c.handshakes()
	raw := c.dialTrunkListener()
	say(t, raw, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if b, err := io.ReadAll(raw); err == nil && len(b) > 7 {
		t.Errorf("got %q", b)
	}
	eventually(t, "it is counted", func() bool { return c.handshakes() == before+1 })
	c.settled()
}

// A FIN that TLS has not announced cuts what was said: the server, or the client, hears a reset. One that it has is an end.
func TestTruncation(t *testing.T) {
	for _, whole := range []bool{false, true} {
		want := error(unix.ECONNRESET)
		if whole {
			want = io.EOF
		}
		t.Run(fmt.Sprintf("opener says its end: %t", whole), func(t *testing.T) {
			c := newChainOf(t, config.TLS, 1, nil)
			conn, raw := c.openTrunk(c.tlsConfig("r7", nil), "r7")
			server := c.accept()
			if _, err := conn.Write([]byte("a request")); err != nil {
				t.Fatal(err)
			}
			expectRead(t, server, "a request")
			if whole {
				_ = conn.CloseWrite()
			}
			_ = raw.CloseWrite()
			expectEnd(t, server, want)
			server.Close()
			c.settled()
		})
		t.Run(fmt.Sprintf("acceptor says its end: %t", whole), func(t *testing.T) {
			far := listenTCP(t)
			c := newChainOf(t, config.TLS, 2, func(hop int, cfg *config.Config) {
				if hop == 1 {
					cfg.Peers[0].Address = addrOf(far)
				}
			})
			cfg := c.tlsConfig("r2", nil)
			var accepting errgroup.Group
			accepting.Go(func() error { return acceptTrunks(far, cfg, whole) })
			client := c.dial()
			say(t, client, "a request")
			expectRead(t, client, "an answer")
			expectEnd(t, client, want)
			client.Close()
			c.settled()
			far.Close()
			if err := accepting.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// acceptTrunks is a relay that answers one request on each trunk, and ends it in one of two ways.
func acceptTrunks(l net.Listener, cfg *tls.Config, whole bool) error {
	var trunks errgroup.Group
	var open []net.Conn
	for {
		raw, err := l.Accept()
		if err != nil {
			for _, raw := range open {
				raw.Close()
			}
			return trunks.Wait()
		}
		open = append(open, raw)
		trunks.Go(func() error {
			defer raw.Close()
			conn := tls.Server(raw, cfg)
			hello := trunkproto.NewHello([trunkproto.NonceSize]byte{1})
			if _, err := conn.Write(hello[:]); err != nil {
				return nil // the trunk was not wanted
			}
			var b []byte
			for in := make([]byte, 1000); !bytes.HasSuffix(b, []byte("a request")); {
				n, err := conn.Read(in)
				if err != nil {
					return nil
				}
				b = append(b, in[:n]...)
			}
			if _, err := conn.Write(append(trunkproto.Answer{Status: trunkproto.Connected}.Append(nil), "an answer"...)); err != nil {
				return err
			}
			if whole {
				if err := conn.CloseWrite(); err != nil {
					return err
				}
			}
			return raw.(*net.TCPConn).CloseWrite()
		})
	}
}

// waiting returns when so many bytes have come that nobody has read.
func waiting(t *testing.T, c *net.TCPConn, size int) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if err := raw.Read(func(fd uintptr) bool {
		n, _, _ := unix.Recvfrom(int(fd), b, unix.MSG_PEEK)
		return n == size
	}); err != nil {
		t.Fatal(err)
	}
}

// A peer changes its key before a flow and in the middle of it, and has the relay change its own.
func TestKeyUpdate(t *testing.T) {
	c := newChainOf(t, config.TLS, 1, nil)
	var log bytes.Buffer
	raw := c.dialTrunkListener()
	conn := tls.Client(raw, c.tlsConfig("r7", func(cfg *tls.Config) { cfg.KeyLogWriter = &log }))
	hello := make([]byte, trunkproto.HelloSize)
	if _, err := io.ReadFull(conn, hello); err != nil {
		t.Fatal(err)
	}
	header := trunkproto.Header{Client: addrOf(c.server), Server: addrOf(c.server), Via: trunkproto.Names("r1")}
	b, err := header.Append(nil, "r7", (*trunkproto.Hello)(hello), nil)
	if err != nil {
		t.Fatal(err)
	}
	rogue := securetest.NewRogue(t, conn.ConnectionState(), log.String())
	tell := func(record []byte) {
		t.Helper()
		if _, err := raw.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		const answer = 27 // bytes of a record
		tell(rogue.KeyUpdate(true))
		waiting(t, raw, (i+1)*answer) // nothing else has the relay write
	}
	tell(rogue.Say(b))
	server := c.accept()
	if a := c.answer(conn); a.Status != trunkproto.Connected {
		t.Fatalf("got %v", a.Status)
	}
	for round := range 5 {
		tell(rogue.Say([]byte("ask")))
		tell(rogue.KeyUpdate(round%2 == 0))
		expectRead(t, server, "ask")
		say(t, server, "answer")
		got := make([]byte, 6)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "answer" {
			t.Fatalf("round %d: got %q, %v", round, got, err)
		}
	}
	tell(rogue.End())
	expectEnd(t, server, io.EOF)
	server.Close()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	c.settled()
}

// What the peer has acknowledged of a trunk's handshake is nothing of the flow's.
func TestReadAfterHandshake(t *testing.T) {
	c := newChainOf(t, config.TLS, 2, nil)
	c.ready()
	for _, w := range c.hops[0] {
		err := w.ask(func(w *Worker) error {
			ready := w.pools["r2"].ready[0]
			said := ready.tls.TotalOutput()
			if acknowledged(ready.fd, said) {
				t.Errorf("something was heard behind the %d bytes of the handshake", said)
			}
			if !acknowledged(ready.fd, 0) || !acknowledged(ready.fd, said-1) {
				t.Error("the handshake was not heard")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A flow that is over keeps the connection on which the kernel has no room for TLS's last words, until they are said: no reset overtakes
// the bytes in front of them.
func TestLastWordsWait(t *testing.T) {
	c := newChainOf(t, config.TLS, 1, nil)
	conn, raw := c.openTrunk(c.tlsConfig("r7", nil), "r7")
	c.answer(conn)
	server := c.accept()
	filled := 0
	fill := func(w *Worker, s *split, e *end) { // with what is no TLS: the test reads it
		for {
			n, errno := write(e.fd, make([]byte, 1<<16))
			if errno != 0 {
				break
			}
			filled += n
		}
		w.do(s, s.state.EOF(flow.Client))
		w.do(s, s.state.EOF(flow.Server))
		if s.stage != stageEnding || e.fd < 0 || e.pending() == 0 || len(w.aborting) > 0 {
			t.Errorf("stage %v, descriptor %d, %d bytes are pending, %d flows are aborted", s.stage, e.fd, e.pending(), len(w.aborting))
		}
	}
	for _, w := range c.workers {
		if err := w.ask(func(w *Worker) error {
			for s := range w.flows {
				fill(w, s, &s.ends[flow.Client])
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	expectEnd(t, server, io.EOF)
	got, err := io.ReadAll(raw)
	const closeNotify = 24 // bytes of a record
	if err != nil || len(got) != filled+closeNotify {
		t.Errorf("got %d bytes, %v, want %d and %d", len(got), err, filled, closeNotify)
	}
	c.settled()
}

// Trunks with buffers so small that TLS nearly always waits for the kernel: every byte arrives, and every end behind it.
func TestSmallBuffers(t *testing.T) {
	newChainOf(t, config.TLS, 3, buffers(8<<10)).echoes(16, 8)
}

// buffers gives trunks buffers of that size, in bytes.
func buffers(size int) func(int, *config.Config) {
	return func(_ int, cfg *config.Config) {
		cfg.Trunks.Tuning.Buffer = size
		for i := range cfg.Peers {
			cfg.Peers[i].Tuning.Buffer = size
		}
	}
}

// What comes in front of a server's reset arrives in front of it over trunks of any kind, also while the client does not read.
func TestResetOverTrunks(t *testing.T) {
	securely(t, func(t *testing.T, security config.Security) {
		c := newChainOf(t, security, 2, buffers(8<<10))
		client, server := c.pair()
		_ = client.SetReadBuffer(16 << 10)
		sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<13)
		if _, err := server.Write(sent); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the last relay has all", func() bool {
			var n uint64
			for _, w := range c.hops[1] {
				n += w.count.Copied.Load() + w.count.Spliced.Load()
			}
			return n >= uint64(len(sent))
		})
		reset(t, server)
		got, err := io.ReadAll(client)
		if !errors.Is(err, unix.ECONNRESET) || !bytes.Equal(got, sent) {
			t.Errorf("got %d bytes, %v, want %d and a reset", len(got), err, len(sent))
		}
		c.settled()
	})
}
