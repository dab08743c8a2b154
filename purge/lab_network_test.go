package purge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
)

// soon bounds what a test waits for that should take milliseconds: machines that run tests are busy.
const soon = 20 * time.Second

const (
	vip4 = "10.9.9.9"
	vip6 = "fd09::9"
)

// network is a client behind a router that sends what is for the service's address to one of two servers, which both have it.
type network struct {
	*lab.Lab
	t                    *testing.T
	client, router, a, b *lab.Host
	toClient             *lab.Interface // of the client
	toA, toB             *lab.Interface // of the servers
	fromA                *lab.Interface // of the router
	level                string         // of the purge's log
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	l := lab.New(t)
	n := &network{Lab: l, t: t, client: l.Host("client"), router: l.Host("router"), a: l.Host("a"), b: l.Host("b"), level: "debug"}
	n.router.Forward()
	n.toClient, _ = n.join(n.client, 1)
	n.toA, n.fromA = n.join(n.a, 2)
	n.toB, _ = n.join(n.b, 3)
	for _, h := range []*lab.Host{n.a, n.b} {
		h.Interface("lo").Address(vip4 + "/32")
		h.Interface("lo").Address(vip6 + "/128")
	}
	n.move(2)
	return n
}

// join links a host to the router; net is the number of the network between them.
func (n *network) join(h *lab.Host, net int) (hosts, routers *lab.Interface) {
	v4, v6 := fmt.Sprintf("10.1.%d.", net), fmt.Sprintf("fd01:%d::", net)
	k := n.Link(
		lab.End{Host: h, Addrs: []string{v4 + "2/24", v6 + "2/64"}},
		lab.End{Host: n.router, Addrs: []string{v4 + "1/24", v6 + "1/64"}}, lab.LinkOptions{})
	h.Route("default", v4+"1")
	h.Route("default", v6+"1")
	return k.A, k.B
}

// move has the router send what is for the service's address into another network: 2 is a's, 3 is b's.
func (n *network) move(net int) {
	n.t.Helper()
	n.router.Route(vip4+"/32", fmt.Sprintf("10.1.%d.2", net))
	n.router.Route(vip6+"/128", fmt.Sprintf("fd01:%d::2", net))
}

// drop has an interface drop what comes in and matches, in nft's language; "" ends it.
func (n *network) drop(i *lab.Interface, match string) {
	n.t.Helper()
	rules := "add table netdev cut; delete table netdev cut"
	if match != "" {
		rules += fmt.Sprintf("; add table netdev cut; add chain netdev cut in { type filter hook ingress device %q priority -400; }"+
			"; add rule netdev cut in %s counter drop", i.Name, match)
	}
	n.nft(i.Host, rules)
}

func (n *network) nft(h *lab.Host, rules string) {
	n.t.Helper()
	if _, err := h.Exec(n.t.Context(), "nft", rules); err != nil {
		n.t.Fatal(err)
	}
}

// running is a started `baton purge`.
type running struct {
	*lab.Process
	t      *testing.T
	file   string
	socket string
}

// purge runs `baton purge` on a host with this configuration, less its control key, and returns when it is ready.
func (n *network) purge(h *lab.Host, config string, wrapper ...string) *running {
	n.t.Helper()
	path, err := build.Program("baton")
	if err != nil {
		n.t.Fatal(err)
	}
	r := &running{t: n.t, file: filepath.Join(n.t.TempDir(), "purge.yaml"), socket: filepath.Join(n.t.TempDir(), "purge.sock")}
	r.configure(config)
	command := append(wrapper, path, "purge", "run", "-c", r.file, "--log-level", n.level)
	if r.Process, err = h.Start(lab.Program{Path: command[0], Args: command[1:], Name: "purge"}); err != nil {
		n.t.Fatal(err)
	}
	lab.Eventually(n.t, soon, func() error {
		if !strings.Contains(r.Log(), "msg=ready") {
			return fmt.Errorf("the purge is not ready:\n%s", r.Log())
		}
		return nil
	})
	return r
}

func (r *running) configure(config string) {
	r.t.Helper()
	text := fmt.Sprintf("control: %q\n%s", r.socket, config)
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) status() api.PurgeStatus {
	r.t.Helper()
	client := api.NewClient(r.socket)
	defer client.Close()
	s, err := client.Purge(context.Background())
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.Log())
	}
	return s
}

// until waits for a counter of the first policy.
func (r *running) until(what string, of func(*api.PurgePolicy) uint64, want uint64) {
	r.t.Helper()
	lab.Eventually(r.t, soon, func() error {
		if s := r.status(); of(&s.Policies[0]) != want {
			return fmt.Errorf("%s: %d, want %d: %+v, %v\n%s", what, of(&s.Policies[0]), want, s.Policies[0], s.Verdicts, r.Log())
		}
		return nil
	})
}

func (r *running) untilEnded(want uint64) {
	r.t.Helper()
	r.until("ended", func(p *api.PurgePolicy) uint64 { return p.Ended }, want)
}

// policyText is a policy for the test's servers.
func policyText(more string) string { return "policies: [{name: web, ports: [80]" + more + "}]\n" }

// slow has nginx send 4 MB a second, in the lab's own clock, so that a download lasts.
var slow = peers.NginxOptions{NoAccessLog: true, Workers: 1, Server: "limit_rate 4m; output_buffers 1 128k; sendfile_max_chunk 64k;"}

// download is a client's, of what is too long to end within a test.
type download struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// get begins one at a service address, and has read a part of it.
func (n *network) get(vip, path string) *download {
	n.t.Helper()
	d := n.connect(vip)
	d.ask(path)
	d.read(100_000)
	return d
}

func (n *network) connect(vip string) *download {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), soon)
	defer cancel()
	c, err := n.client.Dial(ctx, "tcp", net.JoinHostPort(vip, "80"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	return &download{t: n.t, conn: c, in: bufio.NewReader(c)}
}

func (d *download) ask(path string) {
	d.t.Helper()
	if _, err := fmt.Fprintf(d.conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		d.t.Fatal(err)
	}
}

func (d *download) read(bytes int64) {
	d.t.Helper()
	d.conn.SetReadDeadline(time.Now().Add(soon))
	if _, err := io.CopyN(io.Discard, d.in, bytes); err != nil {
		d.t.Fatalf("read %d bytes: %v", bytes, err)
	}
}

// reading is a client that reads until its connection ends.
type reading struct {
	t     *testing.T
	bytes atomic.Int64
	ended chan error
}

func (r *reading) Write(b []byte) (int, error) {
	r.bytes.Add(int64(len(b)))
	return len(b), nil
}

// drain reads on in the background, so that the client's window stays open.
func (d *download) drain() *reading {
	r := &reading{t: d.t, ended: make(chan error, 1)}
	d.conn.SetReadDeadline(time.Time{})
	go func() {
		_, err := io.Copy(r, d.in)
		r.ended <- err
	}()
	return r
}

// gotReset requires that the client gets a reset.
func (r *reading) gotReset() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if !errors.Is(err, syscall.ECONNRESET) {
			r.t.Errorf("no reset: %v after %d bytes", err, r.bytes.Load())
		}
	case <-time.After(soon):
		r.t.Errorf("no reset after %d bytes", r.bytes.Load())
	}
}

// goesOn requires that more bytes come.
func (d *download) goesOn(r *reading) {
	d.t.Helper()
	was := r.bytes.Load()
	lab.Eventually(d.t, soon, func() error {
		select {
		case err := <-r.ended:
			d.t.Fatalf("the download has ended: %v", err)
		default:
		}
		if now := r.bytes.Load(); now < was+1<<20 {
			return fmt.Errorf("%d bytes have come", now-was)
		}
		return nil
	})
}

// gotReset requires that the client gets a reset, and returns how long that took.
func (d *download) gotReset() time.Duration {
	d.t.Helper()
	begun := time.Now()
	d.conn.SetReadDeadline(begun.Add(soon))
	n, err := io.Copy(io.Discard, d.in)
	if !errors.Is(err, syscall.ECONNRESET) {
		d.t.Errorf("no reset: %v after %d bytes", err, n)
	}
	return time.Since(begun)
}

// gotNothing requires that the client has received nothing yet.
func (d *download) gotNothing() {
	d.t.Helper()
	d.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := io.Copy(io.Discard, d.in); !errors.Is(err, os.ErrDeadlineExceeded) {
		d.t.Errorf("the client got something: %v", err)
	}
}

// port is the client's.
func (d *download) port() uint16 { return d.conn.LocalAddr().(*net.TCPAddr).AddrPort().Port() }

// sockets lists a server's connections at its service port that are not listeners, nor remembered only.
func (n *network) sockets(h *lab.Host) []string {
	n.t.Helper()
	out, err := h.Exec(n.t.Context(), "ss", "-Htn", "state", "all", "exclude", "listening", "exclude", "time-wait", "sport = 80")
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

// gone requires that a server has no connection of the download's.
func (n *network) gone(h *lab.Host, d *download) {
	n.t.Helper()
	client := netip.MustParseAddrPort(d.conn.LocalAddr().String())
	for _, s := range n.sockets(h) {
		if strings.Contains(s, fmt.Sprintf(":%d", client.Port())) {
			n.t.Errorf("%s still has %s", h.Name(), s)
		}
	}
}
