package relay_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/relay/config"
	"baton/relay/secure/securetest"
)

// Addresses of the tests' network. The server's silent port answers no SYN until it is told to.
const (
	serverAddress        = "10.3.0.2"
	trunkListenerAddress = "10.2.0.2:7000"
	metricsAddress       = "127.0.0.1:9464"
	openPort             = 80
	unresponsivePort     = 81
)

// entryAt is where flows to a port of the server come in.
func entryAt(port int) string { return fmt.Sprintf("10.1.0.1:%d", 8000+port) }

// soon bounds what a test waits for that should take milliseconds: machines that run tests are busy.
const soon = 20 * time.Second

// Timeouts of the relays under test. The kernel counts some of what depends on the first in whole seconds.
const (
	unackedTimeout = 2 * time.Second
	connectTimeout = 4 * time.Second
	resetTimeout   = time.Second
	headerTimeout  = 2 * time.Second
	stopTimeout    = time.Second
)

// network is a way over two relays:
//
//	client 10.1.0.2 ── first ── 10.2.0.2 second ── 10.3.0.2 server
type network struct {
	*lab.Lab
	t                             *testing.T
	client, first, second, server *lab.Host
	toClient, between, toServer   *lab.Link
	near, far                     *relay            // those that run on first and second
	credentials                   map[string]string // by the relay's name
}

// newNetwork has trunks of one kind.
func newNetwork(t *testing.T, trunks config.Security) *network {
	t.Helper()
	n := &network{Lab: lab.New(t), t: t, credentials: make(map[string]string)}
	n.client, n.first, n.second, n.server = n.Host("client"), n.Host("first"), n.Host("second"), n.Host("server")
	n.toClient = n.link(n.client, "10.1.0.2/24", n.first, "10.1.0.1/24")
	n.between = n.link(n.first, "10.2.0.1/24", n.second, "10.2.0.2/24")
	n.toServer = n.link(n.second, "10.3.0.1/24", n.server, serverAddress+"/24")
	for _, h := range []*lab.Host{n.client, n.first, n.second, n.server} {
		// Small buffers, so that a stalled end fills them soon.
		h.Sysctl("net.ipv4.tcp_rmem", "4096 65536 131072")
		h.Sysctl("net.ipv4.tcp_wmem", "4096 65536 131072")
	}
	n.trust(trunks)
	return n
}

// sharedSecret is that of both relays, with plaintext trunks.
const sharedSecret = "secret, of 32 bytes or even more."

// trust makes the credentials of both relays.
func (n *network) trust(trunks config.Security) {
	n.t.Helper()
	if trunks == config.TLS {
		ca := securetest.NewAuthority(n.t)
		for _, name := range []string{"near", "far"} {
			c := ca.Issue(n.t, securetest.Certificate{Names: []string{name}})
			n.credentials[name] = fmt.Sprintf("tls: {certificate: %q, key: %q, authority: %q}", c.Certificate, c.Key, c.Authority)
		}
		return
	}
	secret := n.secret("secret", sharedSecret)
	n.credentials["near"], n.credentials["far"] = secret, secret
}

// secret writes a file of that name, and gives the credentials that it is.
func (n *network) secret(name, text string) string {
	n.t.Helper()
	if err := os.WriteFile(n.file(name), fmt.Appendf(nil, "%x\n", text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return fmt.Sprintf("plaintext: {secret_file: %q}", n.file(name))
}

func (n *network) link(a *lab.Host, at string, b *lab.Host, bt string) *lab.Link {
	return n.Link(lab.End{Host: a, Addrs: []string{at}}, lab.End{Host: b, Addrs: []string{bt}}, lab.LinkOptions{})
}

// cut ends all traffic on a link without that either end is told, or has it go on.
func cut(k *lab.Link, off bool) {
	share := 0.0
	if off {
		share = 1
	}
	k.A.Lose(share)
	k.B.Lose(share)
}

// file is the path of one in the lab's folder.
func (n *network) file(name string) string { return filepath.Join(n.Dir(), name) }

// settings are what a test changes of the relays' configurations: each is a line of YAML in the place of an ordinary one.
type settings map[string]string

func (s settings) line(key, ordinary string) string {
	if v, ok := s[key]; ok {
		ordinary = v
	}
	if ordinary == "" {
		return ""
	}
	return key + ": " + ordinary + "\n"
}

func (n *network) common(name string, s settings) string {
	return fmt.Sprintf("name: %s\nworkers: 2\ncontrol: %q\nmetrics: %q\n", name, n.file(name+".sock"), metricsAddress) +
		s.line("limits", "{flows: 20000, pipe: 64KiB}") +
		s.line("timeouts", fmt.Sprintf("{unacked: %v, connect: %v, reset: %v, header: %v, stop: %v}",
			unackedTimeout, connectTimeout, resetTimeout, headerTimeout, stopTimeout)) +
		n.credentials[name] + "\n"
}

// nearConfig is that of the relay near the clients, with an entry for each of the server's ports.
func (n *network) nearConfig(s settings) string {
	var entries strings.Builder
	for _, port := range []int{openPort, unresponsivePort} {
		fmt.Fprintf(&entries, "\n  - {listen: %q, destination: %q, via: [far]%s}", entryAt(port), fmt.Sprintf("%s:%d", serverAddress, port), s["entry"])
	}
	return n.common("near", s) + s.line("trunks", "") + s.line("allow", "") +
		s.line("peers", fmt.Sprintf("[{name: far, address: %q, window: 128KiB, start: system, ready: {probe: 1s%s}}]", trunkListenerAddress, s["ready"])) +
		s.line("entries", entries.String())
}

// farConfig is that of the relay near the server.
func (n *network) farConfig(s settings) string {
	return n.common("far", s) + s.line("peers", "") + s.line("entries", "") +
		s.line("trunks", fmt.Sprintf("{listen: [%q], window: 128KiB, start: system}", trunkListenerAddress)) + s.line("allow", "[{prefix: 10.3.0.0/24}]")
}

// relays starts both, and returns when trunks are ready.
func (n *network) relays(near, far settings) {
	n.t.Helper()
	n.far = n.start(n.second, "far", n.farConfig(far))
	n.near = n.start(n.first, "near", n.nearConfig(near))
	n.near.hasTrunks()
}

// listen listens on a port of the server.
func (n *network) listen(port int) *net.TCPListener {
	n.t.Helper()
	var l net.Listener
	lab.Eventually(n.t, soon, func() (err error) { // a process that is just being started has copies of what was closed meanwhile
		l, err = n.server.Listen("tcp", fmt.Sprintf("%s:%d", serverAddress, port))
		return err
	})
	n.t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

// unresponsiveServer is a port that answers no SYN: its listener's queue has room for one connection, and that is taken.
type unresponsiveServer struct {
	n      *network
	l      *net.TCPListener
	filler net.Conn
}

func (n *network) listenUnresponsive() *unresponsiveServer {
	n.t.Helper()
	n.server.Sysctl("net.core.somaxconn", "0")
	s := &unresponsiveServer{n: n, l: n.listen(unresponsivePort)}
	n.server.Sysctl("net.core.somaxconn", "4096")
	var err error
	if s.filler, err = n.server.Dial(n.t.Context(), "tcp", s.l.Addr().String()); err != nil {
		n.t.Fatal(err)
	}
	return s
}

// answer has the port answer, and returns the first connection, which a SYN that is repeated brings.
func (s *unresponsiveServer) answer() (*net.TCPConn, error) {
	s.filler.Close()
	for range 2 { // the filler first
		if err := s.l.SetDeadline(time.Now().Add(soon)); err != nil {
			return nil, err
		}
		c, err := s.l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		if c.RemoteAddr().(*net.TCPAddr).IP.String() != serverAddress {
			return c, nil
		}
		c.Close()
	}
	return nil, fmt.Errorf("two fillers")
}

// shut has the port refuse.
func (s *unresponsiveServer) shut() {
	s.filler.Close()
	s.l.Close()
}

// unheard tells whether nobody but the filler has connected.
func (s *unresponsiveServer) unheard() error {
	s.filler.Close()
	for {
		if err := s.l.SetDeadline(time.Now().Add(1500 * time.Millisecond)); err != nil { // the first repetition of a SYN comes after a second
			return err
		}
		c, err := s.l.AcceptTCP()
		if err != nil {
			return nil
		}
		from := c.RemoteAddr().(*net.TCPAddr).IP.String()
		c.Close()
		if from != serverAddress {
			return fmt.Errorf("the server was connected to from %s", from)
		}
	}
}
