package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/api"
	"baton/lab"
)

// TestReusedPorts shows that old splices and reused ports cannot deliver one client's bytes to another, nor wrong bytes to a
// surrogate: clients connect again and again from the same few ports, without TIME_WAIT, and leave in every possible way, while
// each byte that either side receives is known in advance.
func TestReusedPorts(t *testing.T) {
	for _, tt := range []struct {
		name        string
		v6          bool
		loss        float64
		connections int
		workers     int // concurrent clients, each with its own ports
	}{
		{"IPv4", false, 0, 12_000, 12},
		{"IPv6", true, 0, 5_000, 12},
		{"IPv4 with loss", false, 0.02, 2_000, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNetwork(t)
			r := newReuse(t, n, tt.v6)
			r.lossy = tt.loss > 0
			ends := []*lab.Interface{n.front, n.client.Interface("eth0")}
			for _, s := range n.sites {
				ends = append(ends, s.back, s.side)
			}
			for _, end := range ends {
				end.Lose(tt.loss)
			}
			before := r.router.verdicts()
			r.run(t.Context(), tt.workers, tt.connections)
			for _, end := range ends {
				end.Lose(0)
			}
			if t.Failed() {
				return
			}
			if r.lossy { // a session whose client's RST was lost is idle
				r.router.hangup(t, r.config("{closing: 5s, idle: 5s}"))
			}
			after := r.router.verdicts()
			grown := func(verdict string) int { return int(after[verdict] - before[verdict]) }
			t.Logf("%d connections, %d answers, %d cut off by a surrogate's close; over %d server legs; verdicts: %d handoffs, %d moved, %d recycled, %d upcalls, %d challenged, %d resets, %d stale, %d old bytes",
				tt.connections, r.answers.Load(), r.raced.Load(), r.legs(), grown("handoff"), grown("moved"), grown("recycled"), grown("upcall"),
				grown("challenged"), grown("reset_sent"), grown("drop_stale"), grown("drop_old_bytes"))
			for verdict, least := range map[string]int{"handoff": tt.connections / 2, "moved": tt.connections / 20, "recycled": tt.connections / 10, "upcall": tt.connections / 20} {
				if grown(verdict) < least {
					t.Errorf("%d packets %s, less than %d: too few to prove anything", grown(verdict), verdict, least)
				}
			}
			if most := r.answers.Load() / 25; r.raced.Load() > most {
				t.Errorf("%d of %d answers cut off by the close of a surrogate", r.raced.Load(), r.answers.Load())
			}
			if n, most := r.taken.Load(), int64(tt.connections/200); n > most {
				t.Errorf("%d ports were still in use", n)
			}
			if n, most := r.proxied(), int(float64(tt.connections)*tt.loss/2); n > most { // SYNs of legs are lost, too
				t.Errorf("%d requests were proxied", n)
			}
		})
	}
}

// reuse is a VIP with three pools of tagged origins, and a client that reuses its ports.
type reuse struct {
	t       *testing.T
	n       *network
	router  *running
	vip     netip.AddrPort
	from    netip.Addr
	hosts   []string
	origins []*taggedOrigin
	lossy   bool

	answers atomic.Int64 // complete responses
	raced   atomic.Int64 // requests that raced with the surrogate's close
	taken   atomic.Int64 // ports whose last connection did not end in time
}

func newReuse(t *testing.T, n *network, v6 bool) *reuse {
	t.Helper()
	r := &reuse{t: t, n: n, vip: netip.MustParseAddrPort(vip4), from: netip.MustParseAddr("10.1.0.2")}
	if v6 {
		r.vip, r.from = netip.MustParseAddrPort(vip6), netip.MustParseAddr("fd01::2")
	}
	n.client.Sysctl("net.ipv4.tcp_max_tw_buckets", "0") // a closed connection's port is free at once
	for i, name := range []string{"a", "b", "c"} {
		s := n.site(name, lab.LinkOptions{})
		o := serveTagged(t, s.Host, &taggedOrigin{host: name + ".test", patience: []int{0, 12, 6}[i]})
		r.hosts, r.origins = append(r.hosts, o.host), append(r.origins, o)
	}
	r.router = n.start(r.config("{closing: 5s}"))
	return r
}

// config is the router's configuration with these timeouts.
func (r *reuse) config(timeouts string) string {
	var routes, pools string
	for i, name := range []string{"a", "b", "c"} {
		routes += fmt.Sprintf("\n      - {match: {host: %[1]s.test, path_prefix: /t/}, pool: %[1]s}"+
			"\n      - {match: {host: %[1]s.test, path_regex: '^/u/'}, pool: %[1]s}", name)
		pools += fmt.Sprintf("\n  %[1]s: {legs: {min: 8, max: 2000}, surrogates: [{name: %[1]s, address: %[2]q}]}", name, r.n.sites[i].address(r.vip.Addr().Is6()))
	}
	return fmt.Sprintf("timeouts: %s\nvips:\n  - address: %q\n    interfaces: [%s]\n    pipelining: pass\n    routes:%s\npools:%s\n", timeouts, r.vip, r.n.front.Name, routes, pools)
}

// legs counts the connections that surrogates have accepted.
func (r *reuse) legs() (n int64) {
	for _, o := range r.origins {
		n += o.accepted.Load()
	}
	return n
}

// proxied counts the requests that were not spliced.
func (r *reuse) proxied() (n int) {
	for name, value := range r.router.metrics() {
		if bytes.HasPrefix([]byte(name), []byte("baton_router_fallback_requests_total")) {
			n += int(value)
		}
	}
	return n
}

const (
	portsEach = 3 // of a worker
	firstPort = 20_000
)

// run makes the workers open that many connections in total, and fails the test at the first error.
func (r *reuse) run(ctx context.Context, workers, connections int) {
	seed := uint64(time.Now().UnixNano())
	r.t.Logf("seed %d", seed)
	var (
		begun atomic.Int64
		work  errgroup.Group
	)
	for w := range workers {
		work.Go(func() error {
			random := rand.New(rand.NewPCG(seed, uint64(w)))
			for begun.Add(1) <= int64(connections) && ctx.Err() == nil && !r.t.Failed() {
				port := uint16(firstPort + w*portsEach + random.IntN(portsEach))
				v := &visit{r: r, random: random, from: netip.AddrPortFrom(r.from, port)}
				if err := v.run(ctx); err != nil {
					return fmt.Errorf("client %v: %v: %w", v.from, v, err)
				}
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		r.t.Error(err)
	}
}

// remains is what the router, the client and the surrogates have of a client's session.
func (r *reuse) remains(ctx context.Context, from netip.AddrPort) (text string) {
	sockets := func(h *lab.Host, port uint16) {
		out, err := h.Exec(ctx, "ss", "-Htanoi", fmt.Sprintf("sport = :%d or dport = :%d", port, port))
		text += fmt.Sprintf("%s, port %d: %s %v\n", h.Name(), port, out, err)
	}
	sockets(r.n.client, from.Port())
	client := api.NewClient(r.router.socket)
	defer client.Close()
	for s, err := range client.RouterSessions(ctx, api.RouterSessionsQuery{}) {
		if err != nil {
			return text + err.Error()
		}
		if s.Client == from {
			text += fmt.Sprintf("%+v\n", s)
			for _, site := range r.n.sites {
				sockets(site.Host, s.Leg.Local.Port())
			}
		}
	}
	return text + fmt.Sprint(r.router.verdicts())
}

// visit is one connection of a client.
type visit struct {
	r      *reuse
	random *rand.Rand
	from   netip.AddrPort
	how    string
	asked  []tagged
	want   []byte // all bytes that may come next
	got    int    // bytes received so far
	behind int    // requests sent before the response to the current one
	c      *net.TCPConn
}

func (v *visit) String() string {
	return fmt.Sprintf("%s, after %d requests, the last %+v, %d bytes received, %d due", v.how, len(v.asked), v.asked[max(0, len(v.asked)-1):], v.got, len(v.want))
}

// ways are how a client behaves after its last request.
var ways = []string{
	"reads all and closes", "reads all and closes", "reads all and closes", "reads all and resets", "half-closes and reads all",
	"reads some and closes", "reads some and resets", "half-closes, reads some and resets", "resets at once", "closes at once",
	"sends half a request and resets", "sends nothing and closes", "reads all and half-closes",
}

func (v *visit) run(ctx context.Context) (err error) {
	v.how = ways[v.random.IntN(len(ways))]
	if v.c, err = v.dial(ctx); v.r.lossy && errors.Is(err, unix.EADDRNOTAVAIL) {
		v.r.taken.Add(1) // a client that has missed our last ACK, and whose earlier SYN was lost, retransmits its FIN after 3 s at first
		return nil
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, v.r.remains(ctx, v.from))
		}
		v.c.Close()
	}()
	_ = v.c.SetDeadline(time.Now().Add(30 * time.Second))
	if v.how == "sends nothing and closes" {
		return nil
	}
	// Complete requests and responses, sequential or pipelined.
	for range v.random.IntN(4) {
		q := newTagged(v.random, v.r.hosts)
		if q.last() {
			q.framing = byLength
		}
		q = v.ask(q)
		if err := v.send(q.request()); err != nil {
			return v.mayEnd(err)
		}
		if err := v.read(len(v.want)); err != nil {
			return v.mayEnd(err)
		}
		v.r.answers.Add(1)
	}
	return v.leave()
}

// leave sends the last requests and ends the connection in the chosen way.
func (v *visit) leave() error {
	var requests []byte
	pipelined := 1
	if v.random.IntN(6) == 0 {
		pipelined = 2 + v.random.IntN(3)
	}
	v.behind = pipelined - 1
	first := newTagged(v.random, v.r.hosts)
	for i := range pipelined {
		q := newTagged(v.random, []string{first.host}) // overlapping requests stay on one surrogate
		if i < pipelined-1 && q.last() {
			q.framing = byLength
		}
		requests = append(requests, v.ask(q).request()...)
	}
	switch v.how {
	case "sends half a request and closes", "sends half a request and resets":
		if err := v.send(requests[:v.random.IntN(len(requests))]); err != nil {
			return v.mayEnd(err)
		}
		if v.how == "sends half a request and resets" {
			return v.c.SetLinger(0)
		}
		return nil
	}
	if err := v.send(requests); err != nil {
		return v.mayEnd(err)
	}
	if v.how == "half-closes and reads all" || v.how == "half-closes, reads some and resets" {
		if err := v.c.CloseWrite(); err != nil {
			return v.mayEnd(err)
		}
	}
	switch v.how {
	case "resets at once":
		return v.c.SetLinger(0)
	case "closes at once":
		return nil
	case "reads some and closes", "reads some and resets", "half-closes, reads some and resets":
		if err := v.read(v.random.IntN(len(v.want) + 1)); err != nil {
			return v.mayEnd(err)
		}
		if v.how != "reads some and closes" {
			return v.c.SetLinger(0)
		}
		return nil
	}
	if err := v.read(len(v.want)); err != nil {
		return v.mayEnd(err)
	}
	v.r.answers.Add(int64(pipelined))
	if v.how == "reads all and half-closes" {
		_ = v.c.CloseWrite() // a surrogate's close may be first
	}
	if v.how == "half-closes and reads all" || v.how == "reads all and half-closes" || v.asked[len(v.asked)-1].framing == byClose {
		return v.end()
	}
	if v.how == "reads all and resets" {
		return v.c.SetLinger(0)
	}
	return nil
}

// ask expects the response to one more request.
func (v *visit) ask(q tagged) tagged {
	q.nth = len(v.asked)
	v.asked = append(v.asked, q)
	v.want = append(v.want, q.response()...)
	return q
}

// send writes a request, sometimes in pieces.
func (v *visit) send(b []byte) error {
	if v.random.IntN(4) == 0 && len(b) > 1 {
		at := 1 + v.random.IntN(len(b)-1)
		if _, err := v.c.Write(b[:at]); err != nil {
			return err
		}
		b = b[at:]
	}
	_, err := v.c.Write(b)
	return err
}

// errForeign must never happen.
var errForeign = errors.New("bytes that are not this client's")

// read receives n expected bytes.
func (v *visit) read(n int) error {
	buf := make([]byte, 16<<10)
	for n > 0 {
		k, err := v.c.Read(buf[:min(n, len(buf))])
		if !bytes.Equal(buf[:k], v.want[:k]) {
			return fmt.Errorf("%w: %.300q, want %.300q", errForeign, buf[:k], v.want[:k])
		}
		v.want, v.got, n = v.want[k:], v.got+k, n-k
		if err != nil {
			return err
		}
	}
	return nil
}

// end expects no more bytes, and the end.
func (v *visit) end() error {
	buf := make([]byte, 512)
	switch n, err := v.c.Read(buf); {
	case n > 0:
		return fmt.Errorf("%w: %.300q, want the end", errForeign, buf[:n])
	case errors.Is(err, io.EOF):
		return nil
	default:
		return fmt.Errorf("at the end: %w", err)
	}
}

// mayEnd is nil if the surrogate may end the connection here.
func (v *visit) mayEnd(err error) error {
	closed := errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ENOTCONN)
	if !closed || len(v.asked) == 0 {
		return err
	}
	if v.asked[len(v.asked)-1].framing == byReset {
		return nil
	}
	impatient := v.asked[0].host != v.r.hosts[0]                  // another client's requests count, too
	if v.behind > 0 && (len(v.asked) > v.behind+1 || impatient) { // a close with unread requests is an RST, which overtakes responses
		v.r.raced.Add(1)
		return nil
	}
	// Surrogates close without announcement between two requests. Then nothing of the next response has come. This may also
	// happen to a first request, if the surrogate's kernel has acknowledged it at the moment of the close.
	if v.got == 0 && impatient {
		v.r.raced.Add(1)
		return nil
	}
	var due int
	for _, q := range v.asked {
		due += len(q.response())
		if due == v.got {
			v.r.raced.Add(1)
			return nil
		}
	}
	return err
}

// dial connects from the visit's port, as soon as that is free.
func (v *visit) dial(ctx context.Context) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	patience := time.Minute
	if v.r.lossy {
		patience = 15 * time.Second
	}
	d := net.Dialer{
		LocalAddr: net.TCPAddrFromAddrPort(v.from),
		Control: func(_, _ string, raw syscall.RawConn) (err error) {
			bad := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) })
			return errors.Join(err, bad)
		},
	}
	if v.r.lossy { // a lost RST is not retransmitted, but a probe draws another
		d.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 2 * time.Second, Interval: 2 * time.Second, Count: 10}
	}
	d.SetMultipathTCP(false)
	var c net.Conn
	err := lab.Poll(patience, func() error {
		var err error
		bad := v.r.n.client.Do(func() error {
			c, err = d.DialContext(ctx, "tcp", v.r.vip.String())
			return nil
		})
		return errors.Join(err, bad)
	})
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}
