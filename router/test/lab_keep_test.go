package test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

// keepers is a network of surrogates whose default route leads through the router, and which answer /who with the address that they
// see, and their name.
func keepers(t *testing.T, o lab.LinkOptions, names ...string) *network {
	n := newNetwork(t)
	ca := peers.NewAuthority(n.Lab)
	certificate, key := ca.Sign("s.test")
	for _, name := range names {
		s := n.site(name, o)
		peers.Nginx(s.Host, peers.NginxOptions{Connections: 2000, Server: fmt.Sprintf(`
	listen 443 ssl; listen [::]:443 ssl; ssl_certificate %s; ssl_certificate_key %s;
	location = /who { return 200 "$remote_addr $remote_port %s"; }
	location = /last { keepalive_timeout 0; return 200 "$remote_addr $remote_port %[3]s"; }`, certificate, key, name)})
	}
	return n
}

// keeping is a configuration of a VIP and a pool for each of the sites, by the path of its name, and one of all.
func (n *network) keeping(port int, protocol string, more string) string {
	var vips, pools strings.Builder
	for _, v6 := range []bool{false, true} {
		at := vip4
		if v6 {
			at = vip6
		}
		at = netip.AddrPortFrom(netip.MustParseAddrPort(at).Addr(), uint16(port)).String()
		fmt.Fprintf(&vips, "  - address: %q\n    interfaces: [%s]\n    protocol: %s\n    routes:\n", at, n.front.Name, protocol)
		all := fmt.Sprintf("all-%v", v6)
		fmt.Fprintf(&pools, "  %s:\n    source: keep\n%s    surrogates:\n", all, more)
		for _, s := range n.sites {
			fmt.Fprintf(&pools, "    - {name: %s, address: %q}\n", s.name+all, netip.AddrPortFrom(s.address(v6).Addr(), uint16(port)))
		}
		if protocol == "http" {
			for _, s := range n.sites {
				one := fmt.Sprintf("%s-%v", s.name, v6)
				fmt.Fprintf(&vips, "      - {match: {host: %s.test}, pool: %s}\n", s.name, one)
				fmt.Fprintf(&pools, "  %s:\n    source: keep\n%s    surrogates: [{name: %[1]s, address: %[3]q}]\n", one, more, s.address(v6))
			}
		}
		fmt.Fprintf(&vips, "      - {pool: %s}\n", all)
	}
	return "vips:\n" + vips.String() + "pools:\n" + pools.String()
}

// caller is a client's connection.
type caller struct {
	net.Conn
	r    *bufio.Reader
	from netip.AddrPort
}

// call connects to a VIP; from port 0 is any.
func (n *network) call(ctx context.Context, vip string, port uint16) (*caller, error) {
	at := netip.MustParseAddrPort(vip)
	var c net.Conn
	err := n.client.Do(func() (err error) {
		d := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			bad := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
			return errors.Join(err, bad)
		}}
		d.SetMultipathTCP(false)
		if port != 0 {
			d.LocalAddr = &net.TCPAddr{Port: int(port)}
		}
		c, err = d.DialContext(ctx, "tcp", at.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	from := c.LocalAddr().(*net.TCPAddr).AddrPort()
	return &caller{c, bufio.NewReader(c), netip.AddrPortFrom(from.Addr().Unmap(), from.Port())}, nil
}

// asks makes a request, and returns the name of the surrogate, which must see the client.
func (c *caller) asks(host, path string) (string, error) {
	if err := c.SetDeadline(time.Now().Add(answersWithin)); err != nil {
		return "", err
	}
	return c.requests(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host))
}

// requests is asks with a request as it is sent.
func (c *caller) requests(text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	got, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(got.Body)
	if err != nil {
		return "", err
	}
	name, ok := strings.CutPrefix(string(body), fmt.Sprintf("%s %d ", c.from.Addr(), c.from.Port()))
	if !ok {
		return "", fmt.Errorf("%s: the surrogate says %q to %v", got.Status, body, c.from)
	}
	return name, nil
}

// TestKeep: surrogates see each client's address and port, over HTTP and TLS, also where a part of the hello is late, and where links lose,
// repeat and reorder packets.
func TestKeep(t *testing.T) {
	t.Parallel() // judges by results
	for _, protocol := range []string{"http", "tls"} {
		t.Run(protocol, func(t *testing.T) { keep(t, protocol, lab.LinkOptions{}) })
	}
	t.Run("loss", func(t *testing.T) { keep(t, "http", lab.LinkOptions{AtoB: lossy, BtoA: lossy, NoOffloads: true}) })
}

func keep(t *testing.T, protocol string, o lab.LinkOptions) {
	n := keepers(t, o, "s1", "s2")
	port := map[string]int{"http": 80, "tls": 443}[protocol]
	n.start(n.keeping(port, protocol, ""))
	var work errgroup.Group
	for i := range 40 {
		vip := []string{vip4, vip6}[i%2]
		vip = strings.TrimSuffix(vip, ":80") + fmt.Sprint(":", port)
		work.Go(func() error {
			c, err := n.call(t.Context(), vip, 0)
			if err != nil {
				return err
			}
			defer c.Close()
			if protocol == "tls" {
				c.Conn = tls.Client(&halting{c.Conn, i%3 > 0}, &tls.Config{ServerName: "s.test", InsecureSkipVerify: true})
				c.r = bufio.NewReader(c.Conn)
			}
			for k := range 6 {
				// pools of the same servers in turn, so that a session comes to the server that it is at, and to others; one request
				// is always decided in user space
				host := []string{"s1.test", "s.test", "s2.test", "s.test", "s.test"}[(i/2+k)%5]
				_, err := c.asks(host, "/who")
				if k == 1 && err == nil {
					_, err = c.requests("POST /who HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
				}
				if err != nil {
					return fmt.Errorf("%s, session %d: %w", vip, i, err)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
}

// TestKeepMoves: a client's requests go to one surrogate, to another, and back to the first, which has reset the leg that had the same
// ports; and the client uses its port again, after its reset, the surrogates' close, and its own close.
func TestKeepMoves(t *testing.T) {
	t.Parallel() // judges by results
	for _, timestamps := range []bool{true, false} {
		t.Run(fmt.Sprintf("timestamps %t", timestamps), func(t *testing.T) {
			n := keepers(t, lab.LinkOptions{}, "s1", "s2")
			n.client.Sysctl("net.ipv4.tcp_tw_reuse", "1")
			if !timestamps {
				n.client.Sysctl("net.ipv4.tcp_timestamps", "0")
			}
			n.start(n.keeping(80, "http", ""))
			for i, vip := range []string{vip4, vip6} {
				for round := range 12 {
					if err := n.moves(t, vip, uint16(40000+i), round); err != nil {
						t.Fatalf("%s, round %d: %v", vip, round, err)
					}
					if round%3 == 2 && !timestamps {
						break // nothing lets a client use a port in TIME_WAIT
					}
				}
			}
		})
	}
}

// moves makes requests from the port to two surrogates in turn, and ends the session in the way of the round.
func (n *network) moves(t *testing.T, vip string, port uint16, round int) error {
	c, err := n.call(t.Context(), vip, port)
	if err != nil {
		return err
	}
	defer c.Close()
	for k, want := range []string{"s1", "s1", "s2", "s1", "s2"} {
		if got, err := c.asks(want+".test", "/who"); got != want {
			return fmt.Errorf("request %d: %q answers in place of %s: %w", k, got, want, err)
		}
	}
	switch round % 3 {
	case 0:
		return c.Conn.(*net.TCPConn).SetLinger(0) // RST
	case 1:
		if got, err := c.asks("s2.test", "/last"); got != "s2" {
			return fmt.Errorf("%q answers: %w", got, err)
		}
		if _, err := c.r.ReadByte(); err != io.EOF {
			return fmt.Errorf("the surrogate does not close: %w", err)
		}
	default:
		c.Close()
		time.Sleep(1100 * time.Millisecond) // the client's own TIME_WAIT, with tcp_tw_reuse
	}
	return nil
}

// TestKeepMeetsAConnection: a surrogate that has a connection on the session's ports, of which the router knows nothing, is reset, and sent
// the SYN again without delay.
func TestKeepMeetsAConnection(t *testing.T) {
	t.Parallel() // judges by results
	n := keepers(t, lab.LinkOptions{}, "s1")
	n.start(n.keeping(80, "http", ""))
	for i, vip := range []string{vip4, vip6} {
		old, err := n.call(t.Context(), n.sites[0].address(i == 1).String(), uint16(40000+i))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := old.asks("s1.test", "/who"); got != "s1" {
			t.Fatalf("past the VIP: %q answers: %v", got, err)
		}
		c, err := n.call(t.Context(), vip, uint16(40000+i))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if got, err := c.asks("s1.test", "/who"); got != "s1" {
			t.Fatalf("%s: %q answers: %v", vip, got, err)
		}
		if took := time.Since(began); took > 900*time.Millisecond { // a SYN is repeated after a second
			t.Errorf("%s: it took %v", vip, took)
		}
		c.Close()
		old.Close()
	}
}

// TestKeepRestart: sessions whose surrogates see their clients go on when the router is killed, and when it is restarted; so do their legs'
// ports: a client that used one before comes back on it.
func TestKeepRestart(t *testing.T) {
	n, config := slowNetwork(t)
	r := n.start(strings.Replace(config, "p: {legs: {max: 1000}", "p: {source: keep", 1))
	path, err := build.Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	const downloads = 100
	s := n.download(t, downloads)
	if err := r.Kill(); err != nil {
		t.Fatal(err)
	}
	s.grows(t, downloads*(32<<10)) // while there is no router
	if err := r.again(path); err != nil {
		t.Fatal(err)
	}
	n.gets(t)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	s.grows(t, downloads*(32<<10))
	if err := r.again(path); err != nil {
		t.Fatal(err)
	}
	n.gets(t)
	if st := r.status(); st.Sessions < downloads {
		t.Errorf("%d sessions adopted, want %d", st.Sessions, downloads)
	}
	if err := s.work.Wait(); err != nil {
		t.Error(err)
	}
	if n := r.fallbacks(vip4); n > 0 {
		t.Errorf("%v requests were not spliced", n)
	}
}

// TestKeepReload: a reload changes the source for new sessions. Those that there are stay on their legs.
func TestKeepReload(t *testing.T) {
	n := keepers(t, lab.LinkOptions{}, "s1")
	config := n.keeping(80, "http", "")
	r := n.start(strings.ReplaceAll(config, "source: keep", "source: router"))
	before, err := n.call(t.Context(), vip4, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	byRouter := func(c *caller) {
		t.Helper()
		if name, err := c.asks("s1.test", "/who"); err == nil || !strings.Contains(err.Error(), `"10.2.1.1 `) {
			t.Errorf("%q answers in place of s1 with the router's address: %v", name, err)
		}
	}
	byClient := func(c *caller) {
		t.Helper()
		if got, err := c.asks("s1.test", "/who"); got != "s1" {
			t.Errorf("%q answers: %v", got, err)
		}
	}
	byRouter(before)
	reload := func(text string) {
		t.Helper()
		if err := r.configure(text); err != nil {
			t.Fatal(err)
		}
		if out, err := n.baton(t.Context(), "router", "reload", "--control", r.socket); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	reload(config)
	after, err := n.call(t.Context(), vip4, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	byClient(after)
	byRouter(before)
	reload(strings.ReplaceAll(config, "source: keep", "source: router"))
	last, err := n.call(t.Context(), vip4, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	byRouter(last)
	byClient(after)
}

// TestKeepWithoutASurrogate: a surrogate that refuses connections, or is cut off, costs its clients the time to notice, and nothing else. A
// client that a surrogate alone does not answer gets another one, and takes it from nobody.
func TestKeepWithoutASurrogate(t *testing.T) {
	t.Parallel() // judges by results
	n := keepers(t, lab.LinkOptions{}, "s1", "s2")
	r := n.start(n.keeping(80, "http", ""))
	asks := func(h *lab.Host, from string, want ...string) {
		t.Helper()
		for range 4 {
			c, err := dial(t.Context(), h, vip4)
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&caller{c, bufio.NewReader(c), c.LocalAddr().(*net.TCPAddr).AddrPort()}).asks("all.test", "/who")
			if !slices.Contains(want, got) {
				t.Fatalf("%s: %q answers, want %v: %v", from, got, want, err)
			}
			c.Close()
		}
	}
	asks(n.client, "at first", "s1", "s2")
	ctx := t.Context()
	if _, err := n.sites[0].Exec(ctx, "ip", "route", "add", "blackhole", "10.1.0.2/32"); err != nil {
		t.Fatal(err)
	}
	asks(n.client, "denied by s1", "s2")
	for _, p := range r.status().Pools {
		for _, s := range p.Surrogates {
			if !s.Up {
				t.Errorf("a client has taken %s down: %s", s.Name, s.LastError)
			}
		}
	}
	if _, err := n.sites[0].Exec(ctx, "ip", "route", "del", "blackhole", "10.1.0.2/32"); err != nil {
		t.Fatal(err)
	}
	n.sites[1].side.SetDown()
	asks(n.client, "s2 cut off", "s1")
}

// TestKeepRefusesWhatItCannotSplice: a request that would be proxied, and so come from the router, is refused.
func TestKeepRefusesWhatItCannotSplice(t *testing.T) {
	t.Parallel() // judges by results
	n := keepers(t, lab.LinkOptions{}, "s1")
	n.start(n.keeping(80, "http", ""))
	for _, vip := range []string{vip4, vip6} {
		c, err := n.call(t.Context(), vip, 0)
		if err != nil {
			t.Fatal(err)
		}
		one := "GET /who HTTP/1.1\r\nHost: s1.test\r\n\r\n"
		if _, err := io.WriteString(c, one+one); err != nil { // pipelined, and routed separately
			t.Fatal(err)
		}
		got, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(got.Body); got.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "cannot be spliced") {
			t.Errorf("%s: %s: %q", vip, got.Status, body)
		}
		c.Close()
	}
}
