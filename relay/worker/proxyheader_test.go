package worker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"baton/document"
	"baton/relay/config"
	"baton/relay/trunkproto"
)

// entryOf is a relay whose entry has another mode.
func entryOf(t *testing.T, mode config.Mode, change func(*config.Config)) *relay {
	t.Helper()
	cfg := defaults()
	cfg.Timeouts.Header = soon
	cfg.Allow = []config.Allow{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}}
	if change != nil {
		change(cfg)
	}
	r := &relay{t: t, server: listenTCP(t)}
	r.entry = config.Entry{Name: "e", Mode: mode, Listen: reservePort(t)}
	r.workers = run(t, 1, cfg)
	r.open(r.workers)
	return r
}

func TestProxyHeaders(t *testing.T) {
	for _, tt := range []struct {
		mode         config.Mode
		ask, granted func(server netip.AddrPort) string
	}{
		{config.Proxy,
			func(s netip.AddrPort) string {
				return fmt.Sprintf("PROXY TCP4 192.0.2.1 %s 1234 %d\r\n", s.Addr(), s.Port())
			},
			func(netip.AddrPort) string { return "" }},
		{config.Connect,
			func(s netip.AddrPort) string { return fmt.Sprintf("CONNECT %v HTTP/1.1\r\nHost: %v\r\n\r\n", s, s) },
			func(netip.AddrPort) string { return "HTTP/1.1 200 Connection established\r\n\r\n" }},
		{config.Connect,
			func(s netip.AddrPort) string {
				return fmt.Sprintf("CONNECT localhost:%d HTTP/1.1\r\nHost: x\r\n\r\n", s.Port())
			},
			func(netip.AddrPort) string { return "HTTP/1.1 200 Connection established\r\n\r\n" }},
		{config.Connect,
			func(s netip.AddrPort) string {
				return fmt.Sprintf("CONNECT three-addresses:%d HTTP/1.1\r\nHost: x\r\n\r\n", s.Port())
			},
			func(netip.AddrPort) string { return "HTTP/1.1 200 Connection established\r\n\r\n" }},
		{config.SOCKS5,
			func(s netip.AddrPort) string {
				a := s.Addr().As4()
				return "\x05\x01\x00" + "\x05\x01\x00\x01" + string(a[:]) + string([]byte{byte(s.Port() >> 8), byte(s.Port())})
			},
			func(netip.AddrPort) string { return "\x05\x00" + "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00" }},
	} {
		for _, pieces := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s in pieces: %t", tt.mode, pieces), func(t *testing.T) {
				r := entryOf(t, tt.mode, nil)
				client := r.dial()
				text := tt.ask(addrOf(r.server)) + "first bytes"
				if pieces {
					for i := range text {
						say(t, client, text[i:i+1])
					}
				} else {
					say(t, client, text)
				}
				server := r.accept()
				expectRead(t, server, "first bytes")
				say(t, server, "answer")
				expectRead(t, client, tt.granted(addrOf(r.server))+"answer")
				client.Close()
				expectEnd(t, server, io.EOF)
				server.Close()
				r.settled()
			})
		}
	}
}

// Who asks in words is told in words.
func TestProxyHeadersRefused(t *testing.T) {
	r := entryOf(t, config.Connect, func(cfg *config.Config) {
		cfg.Allow = []config.Allow{{Prefix: netip.MustParsePrefix("127.0.0.0/8"), Ports: []document.Ports{{First: 1, Last: 1}}}}
	})
	for _, tt := range []struct {
		ask  string
		want string
	}{
		{"CONNECT 127.0.0.1:2 HTTP/1.1\r\nHost: x\r\n\r\n", "403"},
		{"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n", "502"},
		{"CONNECT two-that-refuse:1 HTTP/1.1\r\nHost: x\r\n\r\n", "502"},
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
	} {
		client := r.dial()
		say(t, client, tt.ask)
		line, err := bufio.NewReader(client).ReadString('\n')
		if err != nil || len(line) < 12 || line[9:12] != tt.want {
			t.Errorf("%q: got %q, %v, want status %s", tt.ask, line, err, tt.want)
		}
		client.Close()
	}
	r.settled()
	n := &r.workers[0].count
	if n.Refused[trunkproto.NotAllowed].Load() != 1 || n.Refused[trunkproto.Refused].Load() != 2 || n.BadClientHeaders.Load() != 1 {
		t.Errorf("counted: %d not allowed, %d refused, %d bad prefaces, want 1, 2, 1",
			n.Refused[trunkproto.NotAllowed].Load(), n.Refused[trunkproto.Refused].Load(), n.BadClientHeaders.Load())
	}
	proxy := entryOf(t, config.Proxy, nil)
	client := proxy.dial()
	say(t, client, "GET / HTTP/1.1\r\n\r\n")
	if _, err := io.ReadAll(client); err == nil {
		t.Error("a flow without its PROXY header ends with a FIN, want a reset")
	}
	client.Close()
	proxy.settled()
}

// The server can be told who the client is.
func TestProxyHeader(t *testing.T) {
	c := newChain(t, 2, nil)
	c.entry.ClientAddress = config.ProxyHeader
	c.entry.Listen = reservePort(t)
	c.open(c.hops[0])
	client := c.dial()
	say(t, client, "ask")
	server := c.accept()
	from := client.LocalAddr().(*net.TCPAddr).AddrPort()
	expectRead(t, server, string(trunkproto.AppendProxy(nil, from, addrOf(c.server)))+"ask")
	client.Close()
	server.Close()
	c.settled()
}

// TestLookupEndsWithItsFlow: the goroutine that looks up a name ends when the client leaves, and before the worker.
func TestLookupEndsWithItsFlow(t *testing.T) {
	for _, leaves := range []bool{true, false} {
		t.Run(fmt.Sprintf("the client leaves: %t", leaves), func(t *testing.T) {
			begun, ended := make(chan struct{}), make(chan struct{})
			r := entryOf(t, config.Connect, func(cfg *config.Config) { cfg.Timeouts.Connect = time.Minute })
			if err := r.workers[0].ask(func(w *Worker) error {
				w.o.LookUp = func(ctx context.Context, _ string) ([]netip.Addr, error) {
					close(begun)
					<-ctx.Done()
					close(ended)
					return nil, ctx.Err()
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			client := r.dial()
			say(t, client, "CONNECT slow:80 HTTP/1.1\r\nHost: x\r\n\r\n")
			<-begun
			if leaves {
				_ = client.SetLinger(0)
				client.Close()
				eventually(t, "the lookup has ended", func() bool { return isClosed(ended) })
				return
			}
			r.workers[0].Close()
			if !isClosed(ended) {
				t.Error("the lookup outlives the worker")
			}
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
