package upcall

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/packet"
	"baton/router/choose"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/health"
	"baton/router/legs"
	"baton/router/outcome"
	"baton/router/state"
)

// The VIPs of configuration, and a client.
var (
	web    = netip.MustParseAddrPort("10.9.9.1:80")
	fields = netip.MustParseAddrPort("10.9.9.3:80")
	secure = netip.MustParseAddrPort("10.9.9.4:443")
	keep   = netip.MustParseAddrPort("10.9.9.5:443")

	anna  = netip.MustParseAddrPort("192.0.2.7:40000")
	berta = netip.MustParseAddrPort("192.0.2.8:40000")
)

const configuration = `
limits: {pending: 64}
timeouts: {handshake: 10s}
vips:
  - {address: "10.9.9.1:80", interfaces: [eth0], pipelining: pass, routes: [{match: {host: a.test}, pool: a}, {match: {host: two.test}, pool: two}]}
  - {address: "10.9.9.2:80", interfaces: [eth0], pipelining: hold, routes: [{match: {host: a.test}, pool: a}, {pool: two}]}
  - {address: "10.9.9.3:80", interfaces: [eth0], routes: [{pool: fields}]}
  - {address: "10.9.9.4:443", interfaces: [eth0], protocol: tls, routes: [{match: {sni: c.test}, pool: c}]}
  - {address: "10.9.9.5:443", interfaces: [eth0], protocol: tls, routes: [{match: {sni: c.test}, pool: kept}]}
  - {address: "10.9.9.6:80", interfaces: [eth0], routes: [{match: {host: six.test}, pool: six}, {pool: loop}]}
pools:
  a: {surrogates: [{name: a1, address: "10.0.0.1:80"}]}
  two: {surrogates: [{name: t1, address: "10.0.0.2:80"}, {name: t2, address: "10.0.0.3:80"}]}
  fields: {client_address: x-forwarded-for, surrogates: [{name: f1, address: "10.0.0.4:80"}]}
  c: {client_address: proxy-v2, surrogates: [{name: c1, address: "10.0.0.5:443"}]}
  kept: {source: keep, surrogates: [{name: k1, address: "10.0.0.6:443"}]}
  six: {surrogates: [{name: six1, address: "[2001:db8::1]:80"}]}
  loop: {surrogates: [{name: loop1, address: "127.0.0.1:8080"}]}
`

// script is a Decider in a world of a test's own: packets come in when the test says so, and time passes when all wait.
type script struct {
	*testing.T
	decider *Decider
	cancel  context.CancelFunc
	ended   chan error

	mu       sync.Mutex
	snapshot *state.Snapshot
	clients  map[clientKey]*kernel.Pending // of the kernel
	made     map[clientKey]kernel.Decision
	forgot   []clientKey
	names    []string                 // what KeepName and KeepHead got
	noLegs   map[uint16]time.Duration // surrogates that have no leg: how long until one says so
	noPlace  bool                     // limits.sessions is reached
	local    map[uint16]bool
	onWait   func() // called while a leg is waited for
	verdicts *fallback.Verdicts
	outcomes []string // "vip outcome"
	handed   []string

	in       chan []byte
	replayed [][]byte
	closed   chan struct{}
	once     sync.Once
}

// run runs a script in a bubble of its own time.
func run(t *testing.T, f func(s *script)) {
	t.Helper()
	runBy(t, configuration, f)
}

func runBy(t *testing.T, file string, f func(s *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			T: t, ended: make(chan error, 1), clients: make(map[clientKey]*kernel.Pending), made: make(map[clientKey]kernel.Decision),
			noLegs: make(map[uint16]time.Duration), local: make(map[uint16]bool), verdicts: fallback.NewVerdicts(100, time.Hour),
			in: make(chan []byte), closed: make(chan struct{}),
		}
		s.snapshot = s.compile(file)
		s.decider = New(Options{
			Kernel: s, Legs: legsOf{s}, Tap: tapOf{s}, MSS: []uint16{1460}, Log: slog.New(slog.DiscardHandler),
			Snapshot: s.current,
			Pick: func(p *state.Pool, q *state.Question, exclude []string) (state.Choice, bool) {
				return p.Pick(q, exclude, func(uint16) uint64 { return 0 })
			},
			Verdicts:     func(netip.AddrPort) *fallback.Verdicts { return s.verdicts },
			EndOldSocket: func(netip.AddrPort, netip.AddrPort) error { return nil },
			Decided: func(vip netip.AddrPort, what outcome.Outcome, took time.Duration) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.outcomes = append(s.outcomes, string(what))
			},
			HandedOff: func(_ netip.AddrPort, surrogate string) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.handed = append(s.handed, surrogate)
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		s.cancel = cancel
		go func() { s.ended <- s.decider.Run(ctx) }()
		synctest.Wait()
		f(s)
		s.stop()
	})
}

// stop ends the Decider. Whatever it still does after that is an error.
func (s *script) stop() {
	s.Helper()
	s.cancel()
	if err := <-s.ended; err != nil {
		s.Errorf("Run: %v", err)
	}
	queued := len(s.decider.departed)
	time.Sleep(time.Hour)
	if now := len(s.decider.departed); now != queued {
		s.Errorf("%d clients depart after the end", now-queued)
	}
	s.ended <- nil // for another stop
}

// compile compiles a configuration with all surrogates up.
func (s *script) compile(file string) *state.Snapshot {
	s.Helper()
	cfg, err := config.Parse("f", []byte(file))
	if err != nil {
		s.Fatal(err)
	}
	c, err := state.Compile(cfg, &state.Numbers{}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return snapshotOf(c)
}

// snapshotOf is a snapshot where some surrogates are down.
func snapshotOf(c *state.Compiled, down ...string) *state.Snapshot {
	return c.Snapshot(func(name string) health.State { return health.State{Up: !slices.Contains(down, name)} },
		func(*state.NumberedPool) *choose.Shared { return nil })
}

func (s *script) current() *state.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot
}

// put puts a snapshot in force.
func (s *script) put(snapshot *state.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot = snapshot
}

// opens is a client whose request the kernel leaves to user space.
func (s *script) opens(client, vip netip.AddrPort, seq packet.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[clientKey{client, vip}] = &kernel.Pending{MSS: 1460, WScale: -1, Seq: seq, Ack: acked, First: true}
}

// asks is a client whose next request the kernel leaves to user space.
func (s *script) asks(client, vip netip.AddrPort, seq, ack packet.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[clientKey{client, vip}] = &kernel.Pending{MSS: 1460, WScale: -1, Seq: seq, Ack: ack}
}

// What packets acknowledge: those of the connections that the kernel knows, and those of earlier ones on the same
// ports.
const (
	acked      packet.Seq = 10_000
	ackedThere packet.Seq = 9_000 // as near as their own numbers are
)

// sends brings a packet up, and waits until all that it causes is done or waits itself.
func (s *script) sends(client, vip netip.AddrPort, seq packet.Seq, flags packet.Flags, data string) {
	s.sendsWith(acked, client, vip, seq, flags, data)
}

// sendsWith is sends with another acknowledgement.
func (s *script) sendsWith(
	ack packet.Seq, client, vip netip.AddrPort, seq packet.Seq, flags packet.Flags, data string,
) {
	s.in <- s.frame(ack, client, vip, seq, flags, data)
	synctest.Wait()
}

func (s *script) frame(
	ack packet.Seq, client, vip netip.AddrPort, seq packet.Seq, flags packet.Flags, data string,
) []byte {
	return slices.Concat(make([]byte, datapath.VnetHeader), packet.Build(packet.Spec{
		Src: client, Dst: vip, Seq: seq, Ack: ack, Flags: packet.ACK | flags, Window: 65535, Payload: []byte(data),
	}))
}

// expect compares the outcomes until now, and forgets them.
func (s *script) expect(want ...outcome.Outcome) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var text []string
	for _, o := range want {
		text = append(text, string(o))
	}
	if !slices.Equal(s.outcomes, text) {
		s.Errorf("outcomes %q, want %q", s.outcomes, text)
	}
	s.outcomes = nil
}

// expectAnyOrder is expect for outcomes whose order does not matter.
func (s *script) expectAnyOrder(want ...outcome.Outcome) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	slices.Sort(s.outcomes)
	s.mu.Unlock()
	slices.Sort(want)
	s.expect(want...)
}

// expectReplayed compares the bytes that went back through the tap, in order, and forgets them.
func (s *script) expectReplayed(want ...string) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []string
	for _, b := range s.replayed {
		f, err := packet.Parse(b[datapath.VnetHeader:])
		if err != nil {
			s.Fatal(err)
		}
		got = append(got, string(f.Payload()))
	}
	if !slices.Equal(got, want) {
		s.Errorf("replayed %q, want %q", got, want)
	}
	s.replayed = nil
}

// expectVerdict compares the answer that the VIP's socket will give to a client; 0: it proxies.
func (s *script) expectVerdict(client netip.AddrPort, status int) {
	s.Helper()
	v, _ := s.verdicts.Take(client)
	if v.Status != status {
		s.Errorf("verdict %d %q, want %d", v.Status, v.Reason, status)
	}
}

// expectNothingHeld reports what is left of clients.
func (s *script) expectNothingHeld() {
	s.Helper()
	synctest.Wait()
	s.decider.mu.Lock()
	defer s.decider.mu.Unlock()
	if h := s.decider.holding; len(s.decider.clients) != 0 || h.bytes != 0 || len(h.sources) != 0 || s.decider.deciding != 0 {
		s.Errorf("%d clients, %d bytes of %d sources are held, %d are being decided", len(s.decider.clients), h.bytes, len(h.sources), s.decider.deciding)
	}
}

func (s *script) decision(client, vip netip.AddrPort) kernel.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[clientKey{client, vip}]
}

// Pending implements Kernel, as the functions below do.
func (s *script) Pending(client, vip netip.AddrPort) (kernel.Pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.clients[clientKey{client, vip}]; p != nil {
		return *p, nil
	}
	return kernel.Pending{}, errors.New("no such client")
}

func (s *script) ForgetUpcall(client, vip netip.AddrPort, seq packet.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.clients[clientKey{client, vip}]; p == nil || p.Seq != seq {
		return
	}
	delete(s.clients, clientKey{client, vip})
	s.forgot = append(s.forgot, clientKey{client, vip})
}

func (s *script) Decide(client, vip netip.AddrPort, seq packet.Seq, d kernel.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.clients[clientKey{client, vip}]
	if p == nil || p.Decided || p.Seq != seq {
		return kernel.ErrNoUpcall
	}
	p.Decided, s.made[clientKey{client, vip}] = true, d
	return nil
}

func (s *script) KeepName(_, _ netip.AddrPort, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
}

func (s *script) KeepHead(_, _ netip.AddrPort, name, _ []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, string(name))
}

// legsOf implements Legs.
type legsOf struct{ *script }

func (l legsOf) Local(surrogate uint16) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.local[surrogate]
}

func (l legsOf) WaitIdle(ctx context.Context, surrogate uint16, _ uint8) error {
	l.mu.Lock()
	after, none := l.noLegs[surrogate]
	call, full := l.onWait, l.noPlace
	l.mu.Unlock()
	if call != nil {
		call()
	}
	switch {
	case full:
		return fmt.Errorf("%w: %w", legs.ErrNoLeg, legs.ErrNoPlace)
	case !none:
		return nil
	}
	select {
	case <-time.After(after):
	case <-ctx.Done():
	}
	return legs.ErrNoLeg
}

func (l legsOf) WaitKept(ctx context.Context, surrogate uint16, class uint8, _, _ netip.AddrPort) (legs.KeptLeg, error) {
	return legs.KeptLeg{Number: 7, Surrogate: surrogate, Waits: true}, l.WaitIdle(ctx, surrogate, class)
}

// tapOf implements Tap.
type tapOf struct{ *script }

func (t tapOf) Read(frame []byte) (int, error) {
	select {
	case b := <-t.in:
		return copy(frame, b), nil
	case <-t.closed:
		return 0, os.ErrClosed
	}
}

func (t tapOf) Write(frame []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replayed = append(t.replayed, slices.Clone(frame))
	return nil
}

func (t tapOf) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}

// get is a request.
func get(host string) string { return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }

// helloFor is a client's first flight of TLS.
func helloFor(t testing.TB, name string) string {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		defer ours.Close()
		_ = tls.Client(ours, &tls.Config{ServerName: name}).Handshake() // it never gets an answer
	}()
	b := make([]byte, 4096)
	n, err := theirs.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// pieces cuts a text into pieces of a length.
func pieces(text string, length int) (out []string) {
	for part := range slices.Chunk([]byte(text), length) {
		out = append(out, string(part))
	}
	return out
}

// nth is a client of many.
func nth(i int) netip.AddrPort {
	return netip.MustParseAddrPort(fmt.Sprintf("198.18.%d.%d:%d", i/250%250, 1+i%250, 1024+i/62500))
}

var long = strings.Repeat("x", 2000)
