package http3

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/packet/quic"
)

// conditions are what a NAT does to the datagrams that it forwards.
type conditions struct {
	loss   float64 // of datagrams, in both directions
	lose   int     // which datagram of a client is lost, from 1; 0: none
	rebind int     // after so many bytes to the client it has another port; 0: never
	readdr bool    // and another address
	most   int     // times that it has
}

// nat is a NAT on the client's host. Clients send to it at its loopback address. It forwards what they send from sockets of its own, and looks at what
// passes: only what is not encrypted.
type nat struct {
	host  *lab.Host
	front *net.UDPConn
	to    netip.AddrPort
	from  []netip.Addr
	conditions

	mu      sync.Mutex
	random  *rand.Rand
	flows   map[netip.AddrPort]*mapping
	sockets []*net.UDPConn
	seen    witness
}

// mapping is a client's.
type mapping struct {
	out       *net.UDPConn
	sent      int  // datagrams of the client
	up, down  int  // bytes that the server has got and sent
	validated bool // the server has a Handshake packet of the client (RFC 9000, section 8.1)
	since     int  // bytes to the client since the last rebinding
	due       bool // to be rebound: with the client's next datagram, as it may have nothing to say by itself if what comes to the old port is lost
	number    int  // from 0
}

// witness is what a NAT has seen.
type witness struct {
	toClient, toServer map[quic.Kind]int // packets
	versions           map[quic.Version]int
	handshakes         []int // bytes in Handshake packets to the client, by connection: few if it resumes a session, as there is no certificate
	rebound            int
	lost               int
	amplified          string // how a server has sent much more than three times what it had got from an address that was not validated
}

// beyond is how much more is no fault of a router's: quic-go and Caddy ask before they send a datagram whether the limit is reached, and not whether
// the datagram exceeds it.
const beyond = 1452

var natAddress = netip.MustParseAddrPort("127.0.0.1:443")

func newNAT(h *lab.Host, to netip.AddrPort, from []netip.Addr, c conditions) (*nat, error) {
	n := &nat{
		host: h, to: to, from: from, conditions: c, random: rand.New(rand.NewPCG(1, uint64(c.lose))), flows: make(map[netip.AddrPort]*mapping),
		seen: witness{toClient: make(map[quic.Kind]int), toServer: make(map[quic.Kind]int), versions: make(map[quic.Version]int)},
	}
	var err error
	if n.front, err = n.open(natAddress); err != nil {
		return nil, err
	}
	go n.fromClients()
	return n, nil
}

// buffer of a socket: a server's burst must not be lost here.
const buffer = 4 << 20

func (n *nat) open(at netip.AddrPort) (*net.UDPConn, error) {
	c, err := n.host.ListenPacket("udp", at.String())
	if err != nil {
		return nil, err
	}
	u := c.(*net.UDPConn)
	raw, err := u.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer) }) // a small one loses more
	}
	n.mu.Lock()
	n.sockets = append(n.sockets, u)
	n.mu.Unlock()
	return u, err
}

func (n *nat) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sockets {
		s.Close()
	}
}

// witnessed is what has been seen so far.
func (n *nat) witnessed() witness {
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := n.seen
	seen.handshakes = slices.Clone(seen.handshakes)
	seen.toClient, seen.toServer, seen.versions = maps.Clone(seen.toClient), maps.Clone(seen.toServer), maps.Clone(seen.versions)
	return seen
}

func (n *nat) fromClients() {
	b := make([]byte, 65536)
	for {
		size, client, err := n.front.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		if out := n.outward(client, b[:size]); out != nil {
			_, _ = out.WriteToUDPAddrPort(b[:size], n.to) // a refusal of an earlier datagram, by ICMP
		}
	}
}

// outward is where a client's datagram goes out; nil: it is lost.
func (n *nat) outward(client netip.AddrPort, b []byte) *net.UDPConn {
	n.mu.Lock()
	m := n.flows[client]
	n.mu.Unlock()
	if m == nil {
		m = &mapping{number: len(n.flows)}
		if !n.assign(client, m) {
			return nil
		}
	}
	if n.rebinds(m) && !n.assign(client, m) {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.flows[client] == nil {
		n.flows[client] = m
		n.seen.handshakes = append(n.seen.handshakes, 0)
	}
	m.sent++
	if m.sent == n.lose || n.random.Float64() < n.loss {
		n.seen.lost++
		return nil
	}
	m.up += len(b)
	m.validated = n.note(b, n.seen.toServer) > 0 || m.validated
	return m.out
}

// rebinds tells whether a client gets another port now.
func (n *nat) rebinds(m *mapping) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !m.due {
		return false
	}
	m.due, m.since = false, 0
	n.seen.rebound++
	return true
}

// note counts a datagram's packets, and returns how many bytes of it are Handshake packets. Called with the lock.
func (n *nat) note(b []byte, counts map[quic.Kind]int) (handshake int) {
	for p, err := range quic.Packets(b) {
		if err != nil {
			break
		}
		counts[p.Kind]++
		if p.Kind != quic.Short && p.Kind != quic.Negotiation {
			n.seen.versions[p.Version]++
		}
		if p.Kind == quic.Handshake {
			handshake += len(p.Bytes)
		}
	}
	return handshake
}

// assign gives a client a socket, with the next of the addresses if those change. What comes to the one before is lost.
func (n *nat) assign(client netip.AddrPort, m *mapping) bool {
	at := n.from[0]
	if n.readdr {
		at = n.from[n.witnessed().rebound%len(n.from)]
	}
	out, err := n.open(netip.AddrPortFrom(at, 0))
	if err != nil {
		return false
	}
	n.mu.Lock()
	m.out = out
	n.mu.Unlock()
	go n.fromServer(client, m, out)
	return true
}

func (n *nat) fromServer(client netip.AddrPort, m *mapping, out *net.UDPConn) {
	b := make([]byte, 65536)
	for {
		size, _, err := out.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		passes, current := n.inward(m, out, b[:size])
		if passes {
			_, _ = n.front.WriteToUDPAddrPort(b[:size], client) // the client may have gone
		}
		if !current {
			return
		}
	}
}

// inward tells whether a server's datagram passes, and whether the port that it came to is still the client's.
func (n *nat) inward(m *mapping, at *net.UDPConn, b []byte) (passes, current bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m.out != at {
		return false, false
	}
	m.down += len(b)
	if !m.validated && m.down > 3*m.up+beyond && n.seen.amplified == "" {
		n.seen.amplified = fmt.Sprintf("%d bytes for %d of a client whose address was not validated", m.down, m.up)
	}
	if n.random.Float64() < n.loss {
		n.seen.lost++
		return false, true
	}
	n.seen.handshakes[m.number] += n.note(b, n.seen.toClient)
	m.since += len(b)
	m.due = n.rebind > 0 && m.since >= n.rebind && n.seen.rebound < n.most
	return true, true
}
