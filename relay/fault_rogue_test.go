package relay_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/relay/config"
	"baton/relay/trunkproto"
)

// rogue is somebody who comes to a trunk listener and is no relay.
type rogue struct {
	net.Conn
	hello trunkproto.Hello
}

// approach comes to the far relay's trunk listener and hears its hello.
func (n *network) approach() (*rogue, error) {
	c, err := n.first.Dial(n.t.Context(), "tcp", trunkListenerAddress)
	if err != nil {
		return nil, err
	}
	r := &rogue{Conn: c}
	_ = c.SetDeadline(time.Now().Add(soon))
	if _, err := io.ReadFull(c, r.hello[:]); err != nil {
		c.Close()
		return nil, fmt.Errorf("the hello: %w", err)
	}
	return r, nil
}

// dismissal reads the answer, if there is one, up to the connection's end.
func (r *rogue) dismissal() (trunkproto.Status, error) {
	b, err := io.ReadAll(r)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		return 0, err
	}
	if len(b) == 0 {
		return 0, nil
	}
	a, size, err := trunkproto.ParseAnswer(b)
	if err == nil && size != len(b) {
		err = fmt.Errorf("%d bytes, where an answer has %d", len(b), size)
	}
	return a.Status, err
}

// sealed is a header of the near relay's for a trunk, after a change.
func sealed(hello *trunkproto.Hello, secret string, change func(*trunkproto.Header)) []byte {
	via, _ := trunkproto.JoinNames("far")
	h := trunkproto.Header{Client: netip.MustParseAddrPort("10.1.0.2:1234"), Server: netip.MustParseAddrPort(serverAddress + ":80"), Via: via}
	if change != nil {
		change(&h)
	}
	b, err := h.Append(nil, "near", hello, trunkproto.NewSealer([]byte(secret)))
	if err != nil {
		panic(err)
	}
	return b
}

// rogueSays is what rogues say, and what they are told.
var rogueSays = []struct {
	name string
	says func(n *network, own *trunkproto.Hello) ([]byte, error)
	want trunkproto.Status // 0: the connection ends without an answer
}{
	{"nothing but FIN", func(*network, *trunkproto.Hello) ([]byte, error) { return nil, nil }, 0},
	{"half a header", func(_ *network, own *trunkproto.Hello) ([]byte, error) {
		b := sealed(own, sharedSecret, nil)
		return b[:len(b)/2], nil
	}, 0},
	{"a header without its last byte", func(_ *network, own *trunkproto.Hello) ([]byte, error) {
		b := sealed(own, sharedSecret, nil)
		return b[:len(b)-1], nil
	}, 0},
	{"garbage", func(*network, *trunkproto.Hello) ([]byte, error) { return pattern[:64<<10], nil }, trunkproto.BadHeader},
	{"a request", func(*network, *trunkproto.Hello) ([]byte, error) {
		return []byte("GET / HTTP/1.1\r\nHost: far\r\n\r\n"), nil
	}, trunkproto.BadHeader},
	{"a header that is too long", func(_ *network, own *trunkproto.Hello) ([]byte, error) {
		b := sealed(own, sharedSecret, nil)
		binary.BigEndian.PutUint16(b[14:], 0xffff) // the length of the PROXY protocol
		return append(b, make([]byte, 0xffff)...), nil
	}, trunkproto.BadHeader},
	{"another's secret", func(_ *network, own *trunkproto.Hello) ([]byte, error) {
		return sealed(own, strings.ToUpper(sharedSecret), nil), nil
	}, trunkproto.BadHeader},
	{"another server than was sealed", func(_ *network, own *trunkproto.Hello) ([]byte, error) {
		b := sealed(own, sharedSecret, nil)
		i := bytes.Index(b, netip.MustParseAddr(serverAddress).AsSlice())
		b[i+3]++
		return b, nil
	}, trunkproto.BadHeader},
	{"what was said on another trunk", func(n *network, _ *trunkproto.Hello) ([]byte, error) {
		other, err := n.approach()
		if err != nil {
			return nil, err
		}
		defer other.Close()
		return sealed(&other.hello, sharedSecret, nil), nil
	}, trunkproto.BadHeader},
	{"a way over another relay", func(_ *network, own *trunkproto.Hello) ([]byte, error) {
		return sealed(own, sharedSecret, func(h *trunkproto.Header) { h.Via, _ = trunkproto.JoinNames("nowhere") }), nil
	}, trunkproto.NoSuchRelay},
	{"a way on to a relay that is no peer", func(_ *network, own *trunkproto.Hello) ([]byte, error) {
		return sealed(own, sharedSecret, func(h *trunkproto.Header) { h.Via, _ = trunkproto.JoinNames("far", "nowhere") }), nil
	}, trunkproto.NoSuchRelay},
	{"a server that is not allowed", func(_ *network, own *trunkproto.Hello) ([]byte, error) {
		return sealed(own, sharedSecret, func(h *trunkproto.Header) { h.Server = netip.MustParseAddrPort("127.0.0.1:9464") }), nil
	}, trunkproto.NotAllowed},
}

// TestRogues has strangers come to the trunk listener, who are told one thing and leave nothing, while flows go on.
func TestRogues(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, config.Plaintext)
	n.relays(nil, nil)
	open := n.listen(openPort)
	c, s, err := n.pair(open)
	if err != nil {
		t.Fatal(err)
	}
	c.chatter()
	s.chatter()
	for _, tt := range rogueSays {
		t.Run(tt.name, func(t *testing.T) {
			r, err := n.approach()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			b, err := tt.says(n, &r.hello)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = r.Write(b) // the rest of what is refused may meet a reset
			_ = r.Conn.(*net.TCPConn).CloseWrite()
			if got, err := r.dismissal(); err != nil || got != tt.want {
				t.Errorf("%v, %v, want %v", got, err, tt.want)
			}
		})
	}
	if err := complete(c, s); err != nil {
		t.Error(err)
	}
	if err := n.nothingLeft(); err != nil {
		t.Error(err)
	}
}

// TestSlowRogues has many strangers at the trunk listener who say nothing, or little and slowly: they hold no more than trunks.waiting says, those
// who have begun to speak go when timeouts.header is over, and other relays' trunks find room.
func TestSlowRogues(t *testing.T) {
	t.Parallel()
	const waiting, many = 100, 1000
	n := newNetwork(t, config.Plaintext)
	n.relays(nil, settings{"trunks": fmt.Sprintf("{listen: [%q], window: 128KiB, start: system, waiting: %d}", trunkListenerAddress, waiting)})
	open := n.listen(openPort)
	before := n.far.memory()
	var all errgroup.Group
	all.SetLimit(100)
	rogues := make([]net.Conn, many)
	for i := range rogues {
		all.Go(func() error {
			c, err := n.first.Dial(t.Context(), "tcp", trunkListenerAddress)
			if errors.Is(err, syscall.ECONNRESET) {
				return nil // turned away at once
			}
			if err != nil {
				return err
			}
			rogues[i] = c
			if i%2 == 0 {
				_, _ = c.Write([]byte("\r\n\r\n\x00\r\n")) // a header's beginning; or the connection is over
			}
			return nil
		})
	}
	defer func() {
		for _, c := range rogues {
			if c != nil {
				c.Close()
			}
		}
	}()
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	status, err := n.far.control.Relay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if w := status.Trunks.Waiting; w.Used > waiting || w.Limit != waiting {
		t.Errorf("%+v wait, want at most %d", w, waiting)
	}
	if more := n.far.memory() - before; more > moreMemory {
		t.Errorf("the relay holds %d bytes more", more)
	}
	if err := n.works(open); err != nil {
		t.Errorf("beside them: %v", err)
	}
	// The near relay's trunks are those that are left, and such as say nothing.
	err = lab.Poll(soon, func() error {
		for i := 0; i < many; i += 2 {
			if rogues[i] == nil {
				continue
			}
			_ = rogues[i].SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := io.Copy(io.Discard, rogues[i]); errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("rogue %d is still there", i)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, c := range rogues {
		if c != nil {
			c.Close()
		}
	}
	if err := n.nothingLeft(); err != nil {
		t.Error(err)
	}
}

// moreMemory is by how much a relay's memory may grow by what strangers do, in bytes: its heap varies by some megabytes without them.
const moreMemory = 32 << 20

// memory is what the relay's process holds in RAM, in bytes.
func (r *relay) memory() int {
	r.n.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Pid()))
	if err != nil {
		r.n.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		r.n.t.Fatal(err)
	}
	return kilobytes << 10
}

// TestStrangeRelays has relays with each other's secrets or certificates wrong: clients are reset, and both sides say why.
func TestStrangeRelays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		trunks config.Security
		named  string // the far relay
		spoil  func(*network)
		near   func(refused map[string]uint64, down bool, failure string) bool
		far    func(headers, handshakes uint64) bool
	}{
		{"another secret", config.Plaintext, "far", func(n *network) { n.credentials["near"] = n.secret("other", "another secret, just as long as that.") },
			func(refused map[string]uint64, _ bool, _ string) bool { return refused["bad_header"] > 0 },
			func(headers, _ uint64) bool { return headers > 0 }},
		{"another authority", config.TLS, "far", func(n *network) {
			far := n.credentials["far"]
			n.trust(config.TLS)
			n.credentials["far"] = far
		}, func(_ map[string]uint64, down bool, failure string) bool {
			return down && strings.Contains(failure, "authority")
		},
			func(_, handshakes uint64) bool { return handshakes > 0 }},
		{"another name", config.TLS, "near", func(n *network) { n.credentials["far"] = n.credentials["near"] },
			func(_ map[string]uint64, down bool, failure string) bool {
				return down && strings.Contains(failure, "not far")
			},
			func(_, handshakes uint64) bool { return handshakes > 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t, tt.trunks)
			tt.spoil(n)
			n.far = n.start(n.second, "far", strings.Replace(n.farConfig(nil), "name: far\n", "name: "+tt.named+"\n", 1))
			n.near = n.start(n.first, "near", n.nearConfig(nil))
			open := n.listen(openPort)
			switch c, err := n.dial(openPort); {
			case errors.Is(err, syscall.ECONNRESET): // already
			case err != nil:
				t.Fatal(err)
			default:
				_ = c.say(aRequest) // or it is reset by now
				if err := c.sees(getsRST, nil, nil, row{}); err != nil {
					t.Error(err)
				}
			}
			near, err := n.near.control.Relay(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			refused := make(map[string]uint64)
			for _, w := range near.Workers {
				for k, v := range w.Refused {
					refused[k] += v
				}
			}
			if p := near.Peers[0]; !tt.near(refused, p.Down, p.Failure) {
				t.Errorf("near: refused %v, peer %+v", refused, p)
			}
			far, err := n.far.control.Relay(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var headers, handshakes uint64
			for _, w := range far.Workers {
				headers, handshakes = headers+w.BadTrunkHeaders, handshakes+w.BadHandshakes
			}
			if !tt.far(headers, handshakes) {
				t.Errorf("far: %d bad headers, %d bad handshakes", headers, handshakes)
			}
			_ = open.SetDeadline(time.Now()) // nobody has come
			if c, err := open.Accept(); err == nil {
				c.Close()
				t.Error("the server was connected to")
			}
		})
	}
}

// TestLoop has an entry whose destination is the entry: round and round, as far as limits.flows lets it. When its client resets it,
// another entry works, though a flow may go on round: its head grows as fast as its tail dies. Without the entry nothing is left.
func TestLoop(t *testing.T) {
	t.Parallel()
	const most = 100
	n := newNetwork(t, config.Plaintext)
	limits := fmt.Sprintf("{flows: %d, pipe: 64KiB}", most)
	entry := func(listen, destination string) string {
		return fmt.Sprintf("{listen: %q, destination: %q, via: [far]}", listen, destination)
	}
	well := entry(entryAt(openPort), fmt.Sprintf("%s:%d", serverAddress, openPort))
	n.relays(settings{"limits": limits, "entries": "[" + entry("0.0.0.0:8099", "10.2.0.1:8099") + ", " + well + "]"},
		settings{"limits": limits, "allow": "[{prefix: 10.2.0.0/24}, {prefix: 10.3.0.0/24}]"})
	open := n.listen(openPort)
	c, err := n.client.Dial(t.Context(), "tcp", "10.1.0.1:8099")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lab.Eventually(t, soon, func() error {
		s, err := n.near.control.Relay(t.Context())
		if err == nil && s.Flows.Used < most/2 {
			err = fmt.Errorf("%d flows", s.Flows.Used)
		}
		return err
	})
	for _, r := range []*relay{n.near, n.far} {
		if s, err := r.control.Relay(t.Context()); err != nil || s.Flows.Used > most {
			t.Errorf("relay %s: %+v, %v, want at most %d", r.name, s.Flows, err, most)
		}
	}
	if err := errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
	if err := n.works(open); err != nil {
		t.Error(err)
	}
	if err := n.near.configure(n.nearConfig(settings{"limits": limits, "entries": "[" + well + "]"})); err != nil {
		t.Fatal(err)
	}
	if err := n.near.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := n.near.reloaded(1); err != nil {
		t.Fatal(err)
	}
	if err := n.nothingLeft(); err != nil {
		t.Error(err)
	}
}
