package router

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"baton/packet"
	"baton/packet/hello"
)

// The pools, each with the surrogate of its number, that the names of these tests go to.
const (
	exactly = iota + 1
	wildcard
	others
	longest
	under // of the wildcard, but named
)

var helloNames = []Host{
	{VIP: 3, Name: "cdn.example.net", ID: exactly}, {VIP: 3, Name: "*.example.net", ID: wildcard},
	{VIP: 3, Name: strings.Repeat("h", 63), ID: longest}, {VIP: 3, Name: "named.example.net", ID: under}, {VIP: 4, Name: "cdn.example.org", ID: exactly},
}

// helloRig has a VIP of protocol TLS with those routes.
func helloRig(t *testing.T, f family) *rig {
	k := newRig(t)
	k.tap()
	k.vip(f, func(v *VIP) { v.OnePool, v.TLS = false, true })
	var routes []Route
	for _, host := range []uint16{0, exactly, wildcard, longest, under} {
		pool := host
		if host == 0 {
			pool = others
		}
		routes = append(routes, Route{VIP: 3, Host: host, Pool: pool})
		k.must(k.SetPool(pool, Pool{Policy: RoundRobin, Table: []uint16{pool}, Reuse: ReuseNever}))
	}
	k.must(k.SetRoutes(helloNames, routes))
	return k
}

// firstFlight is what a client of crypto/tls sends before it hears from a server.
func firstFlight(t *testing.T, config *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_ = tls.Client(theirs, config).Handshake()
		theirs.Close()
	}()
	b := make([]byte, 1<<14)
	n, err := ours.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

func clientOf(name string) *tls.Config {
	return &tls.Config{ServerName: name, InsecureSkipVerify: name == "", NextProtos: []string{"h2", "http/1.1"}}
}

// TestHello: a session goes to the surrogate of the name in its hello, whole, and its leg serves nobody else.
func TestHello(t *testing.T) {
	for _, tt := range []struct {
		name string
		want int
	}{
		{"cdn.example.net", exactly}, {"CDN.Example.NET", exactly}, {"www.example.net", wildcard}, {"a.b.example.net", others},
		{"example.net", others}, {"named.example.net", under}, {"localhost", others}, {"x_y.example.net", wildcard},
		{strings.Repeat("h", 63), longest}, {strings.Repeat("g", 63), others}, {"cdn.example.org", others},
		{"", -1}, {strings.Repeat("h", 32) + "." + strings.Repeat("h", 32), -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachFamily(t, func(t *testing.T, f family) {
				k := helloRig(t, f)
				for pool := range uint16(6) {
					k.idle(uint32(pool), f, func(s *routerSplice) { s.Surrogate = pool })
				}
				c := newClient(k, f, f.usual())
				first := string(firstFlight(t, clientOf(tt.name)))
				if got := k.handedTo(c, first); got != tt.want {
					t.Fatalf("got %d, want %d", got, tt.want)
				}
				if tt.want < 0 {
					return
				}
				s := k.splice(uint32(tt.want))
				opaque := uint8(routerFramingFRAMING_OPAQUE)
				if s.Request != opaque || s.Response != opaque || s.Flags&uint32(routerSpliceFlagSPLICE_SPOILT) == 0 {
					t.Errorf("request %d, response %d, flags %#x", s.Request, s.Response, s.Flags)
				}
			})
		})
	}
}

// TestHelloPasses: what follows a hello passes in both directions, and the client's FIN goes to the surrogate.
func TestHelloPasses(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := helloRig(t, f)
		s := k.idle(0, f, func(s *routerSplice) { s.Surrogate = exactly })
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		s.takes(c.send(packet.ACK|packet.PSH, string(firstFlight(t, clientOf("cdn.example.net"))), routerVerdictHANDOFF, actRedirect))
		for _, record := range []string{"\x16\x03\x03", strings.Repeat("x", 1000), "GET / HTTP/1.1\r\nHost: a\r\n\r\n"} {
			c.takes(s.send(packet.ACK, record, routerVerdictTO_CLIENT, actRedirect))
			s.takes(c.send(packet.ACK, record, routerVerdictTO_SERVER, actRedirect))
		}
		s.takes(c.send(packet.ACK|packet.FIN, "", routerVerdictTO_SERVER, actRedirect))
	})
}

// TestHelloByUpcall: the kernel leaves to user space what is not a whole hello in one record, and takes its decision.
func TestHelloByUpcall(t *testing.T) {
	f := families[0]
	whole := firstFlight(t, clientOf("cdn.example.net"))
	for name, first := range map[string][]byte{
		"a byte":           whole[:1],
		"all but a byte":   whole[:len(whole)-1],
		"two records":      append(append([]byte{22, 3, 1, 0, 10}, whole[5:15]...), 22, 3, 1, byte((len(whole)-15)>>8), byte(len(whole)-15)),
		"a request":        []byte(plainRequest),
		"a byte too many":  append([]byte{22, 3, 1, byte((len(whole) - 4) >> 8), byte(len(whole) - 4)}, append(whole[5:], 0)...),
		"another version":  append([]byte{22, 2}, whole[2:]...),
		"an alert":         append([]byte{21}, whole[1:]...),
		"a later message":  append(append([]byte{}, whole[:5]...), append([]byte{2}, whole[6:]...)...),
		"empty extensions": {22, 3, 1, 0, 45, 1, 0, 0, 41},
	} {
		t.Run(name, func(t *testing.T) {
			k := helloRig(t, f)
			s := k.idle(0, f, func(s *routerSplice) { s.Surrogate = exactly })
			c := newClient(k, f, f.usual())
			c.connect(routerVerdictSYN_ANSWERED)
			k.want(packet.Build(c.packet(packet.ACK, string(first))), routerVerdictUPCALL, actRedirect)
			k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: exactly, Pool: exactly, Opaque: true}))
			s.takes(c.send(packet.ACK, string(first), routerVerdictHANDOFF, actRedirect))
			if got := k.splice(0); got.Request != uint8(routerFramingFRAMING_OPAQUE) {
				t.Errorf("request %d", got.Request)
			}
		})
	}
}

// TestHelloHash: policy hash takes all clients of a prefix with a name to the same surrogate, which hello.Hash says too.
func TestHelloHash(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := helloRig(t, f)
		table := make([]uint16, TableSlots)
		for i := range table {
			table[i] = uint16(i % 8)
		}
		k.must(k.SetPool(others, Pool{Policy: Hash, Table: table, Reuse: ReuseNever}))
		k.legsOf(f, 8, 8)
		given := make(map[int]bool)
		for n, name := range []string{"a.example", "b.example", "c.example.org", "d", "E", "under_score.example", strings.Repeat("x", 63), "a.example"} {
			h := hello.Hash(f.client.Addr(), hello.Canonical(name))
			want := int(table[uint32(h^h>>32)%uint32(TableSlots)])
			got := k.handedTo(newClient(k, f.nth(n), f.usual()), string(firstFlight(t, clientOf(name))))
			if got != want {
				t.Errorf("%s: got %d, want %d", name, got, want)
			}
			given[got] = true
		}
		if len(given) < 3 {
			t.Errorf("all names go to %v", given)
		}
	})
}

// TestKernelReadsHelloAlike: from damaged hellos the kernel reads the name that packet/hello reads, or leaves them to user space.
// It may read a hello that packet/hello refuses for what does not concern the name; the surrogate refuses it then.
func TestKernelReadsHelloAlike(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	f := families[0]
	k := helloRig(t, f)
	names := []string{"cdn.example.net", "www.example.net", "localhost", "named.example.net", strings.Repeat("h", 63), ""}
	pools := map[string]int{"cdn.example.net": exactly, "named.example.net": under, strings.Repeat("h", 63): longest}
	poolOf := func(name string) int {
		switch pool := pools[name]; {
		case pool != 0:
			return pool
		case hello.Match("*.example.net", name):
			return wildcard
		}
		return others
	}
	var flights [][]byte
	for _, name := range names {
		flights = append(flights, firstFlight(t, clientOf(name)))
	}
	missed := func() (n [6]uint64) {
		for pool := range n {
			for _, m := range k.surrogate(uint16(pool)).Missed {
				n[pool] += m
			}
		}
		return n
	}
	read, left, strange := 0, 0, 0
	before := missed()
	for n := range 4000 {
		b := append([]byte(nil), flights[r.IntN(len(flights))]...)
		for range r.IntN(4) {
			switch at := r.IntN(min(len(b), 400)); r.IntN(4) {
			case 0:
				b[at] = byte(r.IntN(256))
			case 1:
				b[at] += byte(1 - 2*r.IntN(2))
			case 2:
				b[at] = ".A-\x00"[r.IntN(4)]
			default:
				b = append(b[:at:at], append([]byte{byte(r.IntN(256))}, b[at:]...)...)
			}
		}
		c := newClient(k, f.nth(n%60000), f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		k.run(packet.Build(c.packet(packet.ACK, string(b[:min(len(b), 8900)]))))
		k.ForgetClient(c.f.client, c.f.vip)
		after := missed()
		got := -1
		for pool := range after {
			if after[pool] != before[pool] {
				got = pool
			}
		}
		before = after
		h, err := hello.Read(b)
		var refused *hello.Error
		switch {
		case got < 0:
			left++
		case errors.As(err, &refused) && refused.Kind == hello.Malformed:
			strange++
		case err != nil || got != poolOf(h.ServerName):
			t.Fatalf("the kernel reads the name of pool %d; packet/hello says %+v, %v\n% x", got, h, err, b)
		default:
			read++
		}
	}
	t.Logf("%d read, %d left to user space, %d read that packet/hello refuses", read, left, strange)
	if read < 1000 || left < 500 || strange > read/4 {
		t.Error("the damage does not test both")
	}
}
