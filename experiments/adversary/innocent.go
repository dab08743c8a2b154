package adversary

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"baton/experiments/adversary/script"
	"baton/lab"
	"baton/lab/peers"
)

// Timeouts of innocents. Loaded machines and lost handshakes cost some seconds (a client's SYN is retransmitted after 1, 3 and 7
// s); ten times as long means never.
var answerWithin = 30 * time.Second

const megabyteWithin = 10 * time.Second // for a long response; takes some milliseconds in the lab

// visitor is a kind of innocent: its behaviour on one connection.
type visitor struct {
	name   string
	plain  bool // from the host without timestamps
	proxy  bool // to the VIP of mode proxy
	victim script.Victim
	visit  func(*visit) error
}

// visitors are the concurrent innocents.
func visitors() []visitor {
	return []visitor{
		{name: "short", visit: short}, {name: "short", visit: short}, {name: "short", visit: short},
		{name: "kept", victim: script.Kept, visit: kept}, {name: "kept", victim: script.Kept, visit: kept}, {name: "kept", victim: script.Kept, visit: kept},
		{name: "post", victim: script.Kept, visit: posts}, {name: "post", victim: script.Kept, visit: posts},
		{name: "poll", victim: script.Poll, visit: polls}, {name: "poll", victim: script.Poll, visit: polls},
		{name: "paced", victim: script.Download, visit: paced}, {name: "download", victim: script.Download, visit: downloads},
		{name: "plain", plain: true, victim: script.Plain, visit: kept},
		{name: "fresh", plain: true, visit: fresh}, {name: "fresh", plain: true, visit: fresh},
		{name: "proxied", proxy: true, victim: script.Proxied, visit: paced}, {name: "proxied short", proxy: true, victim: script.Proxied, visit: kept},
		{name: "near", victim: script.Near, visit: near},
		{name: "tenant", visit: tenant}, {name: "tenant", visit: tenant}, {name: "tenant", proxy: true, visit: tenant},
	}
}

// people are the running innocents.
type people struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// come starts them, with or without tenants.
func (n *network) come(ctx context.Context, tenants bool) *people {
	p := &people{}
	ctx, p.cancel = context.WithCancel(ctx)
	for i, v := range visitors() {
		if v.name == "tenant" && !tenants {
			continue
		}
		p.wg.Go(func() { n.stay(ctx, i, v) })
	}
	return p
}

// leave lets each finish.
func (p *people) leave() {
	p.cancel()
	p.wg.Wait()
}

const (
	firstInnocentPort = 10_000
	portsEach         = 900
)

var visits atomic.Uint64

// stay makes visits in a loop.
func (n *network) stay(ctx context.Context, index int, kind visitor) {
	random := rand.New(rand.NewPCG(rand.Uint64(), uint64(index)))
	from := n.client
	if kind.plain {
		from = n.plain
	}
	port := random.IntN(portsEach)
	for ctx.Err() == nil {
		port = (port + 1) % portsEach
		v := &visit{n: n, visitor: kind, ctx: ctx, random: random, from: from, number: visits.Add(1),
			local: netip.AddrPortFrom(address(from, n), uint16(firstInnocentPort+index*portsEach+port))}
		v.run()
		pause(time.Duration(3+random.IntN(15)) * time.Millisecond)
	}
}

func address(h *lab.Host, n *network) netip.Addr {
	if h == n.plain {
		return netip.MustParseAddr("10.1.0.3")
	}
	return netip.MustParseAddr("10.1.0.2")
}

// visit is one connection of an innocent.
type visit struct {
	n *network
	visitor
	ctx    context.Context // ended: no more requests
	random *rand.Rand
	from   *lab.Host
	local  netip.AddrPort
	number uint64
	asked  int
	c      net.Conn
	r      *bufio.Reader
}

// errSaid has been recorded in the ledger.
var errSaid = errors.New("said")

func (v *visit) run() {
	err := v.visit(v)
	if v.c != nil {
		if v.random.IntN(4) == 0 && err == nil {
			_ = v.c.(*net.TCPConn).SetLinger(0) // some reset, like browsers
		}
		v.c.Close()
	}
	if err != nil && !errors.Is(err, errSaid) && !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		v.say(Failed, "%v", err)
	}
}

func (v *visit) say(k Kind, format string, args ...any) {
	v.n.ledger.add(k, "%s %v, request %d: %s", v.name, v.local, v.asked, fmt.Sprintf(format, args...))
}

func (v *visit) vip() netip.AddrPort {
	if v.proxy {
		return proxyVIP
	}
	return handoffVIP
}

func (v *visit) dial() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.ctx), answerWithin)
	defer cancel()
	c, err := v.from.DialFrom(ctx, "tcp4", v.local.String(), v.vip().String())
	if err != nil {
		return v.late(err)
	}
	v.c, v.r = c, bufio.NewReaderSize(c, 32<<10)
	return nil
}

// late reports whether the error is a timeout.
func (v *visit) late(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		v.say(Hung, "%v", err)
		return errSaid
	}
	return err
}

func (v *visit) goes() bool { return v.ctx.Err() == nil }

// request is an innocent's request. The token is appended to its path.
type request struct {
	method, path, pool string
	body               int // bytes
	want               int64
}

// ask makes a request and reads the whole response. False: the connection must be closed.
func (v *visit) ask(q request) (bool, error) {
	v.asked++
	token := fmt.Sprintf("%s%d-%d", script.InnocentMark, v.number, v.asked)
	path := q.path + token
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: cdn.test\r\n%s: %s\r\n%s: %s%d\r\nCookie: token=%s\r\n", q.method, path,
		script.TokenField, token, script.SessionField, script.InnocentMark, v.number, token)
	if q.method == "POST" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", q.body)
	}
	body := bodyOf(token, q.body)
	b.WriteString("\r\n" + body)
	v.n.ledger.requests.Add(1)
	began := time.Now()
	_ = v.c.SetDeadline(began.Add(answerWithin))
	if _, err := io.WriteString(v.c, b.String()); err != nil {
		return false, v.late(fmt.Errorf("%s: %w", path, err))
	}
	response, err := http.ReadResponse(v.r, &http.Request{Method: q.method})
	if err != nil {
		return false, v.late(fmt.Errorf("%s: %w", path, err))
	}
	defer response.Body.Close()
	return v.check(q, token, path, body, response, began)
}

func (v *visit) check(q request, token, path, body string, r *http.Response, began time.Time) (bool, error) {
	name := r.Header.Get(peers.Header)
	if got := r.Header.Get(script.TokenField); got != token {
		text, _ := io.ReadAll(io.LimitReader(r.Body, 600))
		if got == "" && (r.StatusCode >= 500 || r.StatusCode == 408) {
			v.say(Failed, "%s: %s: %.200q", path, r.Status, text)
		} else {
			v.say(Wrong, "%s: %s from %q for %q: %.600q", path, r.Status, name, got, text)
		}
		return false, errSaid
	}
	if pool := r.Header.Get(poolField); pool != q.pool || r.StatusCode != http.StatusOK {
		v.say(Wrong, "%s: %s from %s of pool %q, want %q", path, r.Status, name, pool, q.pool)
		return false, errSaid
	}
	var err error
	if q.want > 0 {
		_ = v.c.SetDeadline(time.Now().Add(megabyteWithin * time.Duration(1+q.want>>20)))
		err = peers.CheckPattern(r.Body, q.want)
	} else {
		var text []byte
		text, err = io.ReadAll(r.Body)
		want := strings.Join([]string{token, token, q.method, path, name, q.pool}, "|")
		if strings.Contains(path, "/sink/") {
			want += "|" + body
		}
		if err == nil && string(text) != want+"\n" {
			v.say(Wrong, "%s: %.600q, want %.600q", path, text, want)
			return false, errSaid
		}
	}
	if err != nil {
		if late := v.late(err); errors.Is(late, errSaid) || transport(err) {
			return false, late
		}
		v.say(Wrong, "%s: %v", path, err)
		return false, errSaid
	}
	v.timed(time.Since(began))
	return !r.Close, nil
}

// transport reports whether the connection failed, as opposed to the response.
func transport(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func (v *visit) timed(d time.Duration) {
	for {
		most := v.n.ledger.longest.Load()
		if int64(d) <= most || v.n.ledger.longest.CompareAndSwap(most, int64(d)) {
			return
		}
	}
}

// some is a short request to any of the innocents' pools.
func (v *visit) some() request {
	switch v.random.IntN(6) {
	case 0, 1:
		return request{"GET", "/a/echo/", "a", 0, 0}
	case 2, 3:
		return request{"GET", "/b/echo/", "b", 0, 0}
	case 4:
		return request{"GET", "/u/a/echo/", "a", 0, 0}
	}
	return request{"POST", "/b/sink/", "b", 1 + v.random.IntN(3000), 0}
}

func short(v *visit) error {
	if err := v.dial(); err != nil {
		return err
	}
	_, err := v.ask(v.some())
	return err
}

// series makes many requests, and closes on demand.
func (v *visit) series(count int, next func() request, gap time.Duration) error {
	if err := v.dial(); err != nil {
		return err
	}
	if v.victim != "" {
		defer v.n.census.enter(v.victim, v.local)()
	}
	for range count {
		goesOn, err := v.ask(next())
		if err != nil || !goesOn || !v.goes() {
			return err
		}
		pause(time.Duration(v.random.Int64N(int64(gap) + 1)))
	}
	return nil
}

func kept(v *visit) error { return v.series(10+v.random.IntN(40), v.some, 20*time.Millisecond) }

func posts(v *visit) error {
	return v.series(8, func() request {
		pool := []string{"a", "b"}[v.random.IntN(2)]
		return request{"POST", "/" + pool + "/sink/", pool, 1 + v.random.IntN(15_000), 0}
	}, 20*time.Millisecond)
}

// pollTime is the duration of a long poll: longer than a half-closed session may last.
const pollTime = 1600 * time.Millisecond

func polls(v *visit) error {
	return v.series(1, func() request { return request{"GET", fmt.Sprintf("/p/slow/%d/", pollTime.Milliseconds()), "p", 0, 0} }, 0)
}

func paced(v *visit) error {
	return v.series(1, func() request { return request{"GET", "/p/paced/40/", "p", 0, 40 << 16} }, 0)
}

// near is proxied to a surrogate on the router's host, though its VIP is in mode handoff.
func near(v *visit) error {
	return v.series(1, func() request { return request{"GET", "/l/paced/40/", "l", 0, 40 << 16} }, 0)
}

func downloads(v *visit) error {
	return v.series(4, func() request {
		pool := []string{"a", "b"}[v.random.IntN(2)]
		return request{"GET", "/" + pool + "/file/1m?", pool, 0, 1 << 20}
	}, 30*time.Millisecond)
}

// fresh waits between its handshake and its request.
func fresh(v *visit) error {
	if err := v.dial(); err != nil {
		return err
	}
	left := v.n.census.enter(script.Fresh, v.local)
	pause(time.Duration(60+v.random.IntN(60)) * time.Millisecond)
	left()
	_, err := v.ask(request{"GET", "/p/file/1m?", "p", 0, 1 << 20})
	return err
}

// tenant uses the adversary's surrogate.
func tenant(v *visit) error {
	return v.series(5, func() request { return request{"GET", "/x/echo/", "odd", 0, 0} }, 20*time.Millisecond)
}
