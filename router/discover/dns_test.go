package discover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"baton/router/config"
	"baton/router/discover/discovertest"
)

// namesOf makes a source that asks the script, with a clock that stands still.
func namesOf(s *discovertest.Server, of config.Discover) (n *names, now *time.Time) {
	now = new(time.Time)
	*now = time.Unix(1000, 0)
	of.MinTTL, of.MaxTTL = max(of.MinTTL, time.Second), max(of.MaxTTL, time.Minute)
	r := &resolver{servers: []netip.AddrPort{s.Address}, within: 300 * time.Millisecond}
	return newNames(of, r.lookup, func() time.Time { return *now }), now
}

func said(o Outcome) string {
	text := "no set"
	if o.Set != nil {
		var out []string
		for _, s := range o.Set.Surrogates {
			one := s.Address.String()
			if s.Weight != 1 || s.Priority != 0 {
				one += fmt.Sprintf(" w%d p%d", s.Weight, s.Priority)
			}
			out = append(out, one)
		}
		text = strings.Join(out, ", ")
	}
	var f *Failure
	if errors.As(o.Err, &f) {
		text += "; " + string(f.Kind)
	}
	return text
}

type reply = discovertest.Reply

func to(priority, weight, port uint16, name string) discovertest.Target {
	return discovertest.Target{Priority: priority, Weight: weight, Port: port, Name: name}
}

func newScript(t testing.TB) *discovertest.Server {
	t.Helper()
	var udp net.PacketConn
	var tcp net.Listener
	for range 50 { // a port that is free for UDP may not be for TCP
		var err error
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			break
		}
		tcp.Close()
	}
	if udp == nil {
		t.Fatal("no port is free for UDP and TCP")
	}
	s, stop := discovertest.Serve(udp, tcp)
	t.Cleanup(stop)
	return s
}

const web = "web.example.net"

var webSource = config.Discover{Kind: config.DiscoverDNS, Name: web, Port: 80, Family: config.Both, Weight: 1}

func TestLook(t *testing.T) {
	a, aaaa := dnsmessage.TypeA, dnsmessage.TypeAAAA
	for _, tt := range []struct {
		name string
		zone map[question]reply
		of   config.Discover
		want string
		wait time.Duration
	}{
		{"both families", map[question]reply{{web, a}: discovertest.Hosts(web, 20, "10.2.1.2", "10.2.1.1"), {web, aaaa}: discovertest.Hosts(web, 30, "fd02::1")}, webSource,
			"10.2.1.1:80, 10.2.1.2:80, [fd02::1]:80", 20 * time.Second},
		{"one family", map[question]reply{{web, a}: discovertest.Hosts(web, 20, "10.2.1.1"), {web, aaaa}: {}}, webSource, "10.2.1.1:80", 0},
		{"TTL 0", map[question]reply{{web, a}: discovertest.Hosts(web, 0, "10.2.1.1"), {web, aaaa}: {SOA: 60}}, webSource, "10.2.1.1:80", time.Second},
		{"TTL above the maximum", map[question]reply{{web, a}: discovertest.Hosts(web, 86400, "10.2.1.1"), {web, aaaa}: discovertest.Hosts(web, 86400, "fd02::1")}, webSource,
			"10.2.1.1:80, [fd02::1]:80", time.Minute},
		{"the same address twice", map[question]reply{{web, a}: discovertest.Hosts(web, 9, "10.2.1.1", "10.2.1.1"), {web, aaaa}: {}}, webSource, "10.2.1.1:80", 0},
		{"alias", map[question]reply{{web, a}: {Records: []dnsmessage.Resource{
			discovertest.Record("c.example.net", 50, &dnsmessage.AResource{A: [4]byte{10, 2, 1, 3}}),
			discovertest.Record("B.example.net", 5, &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("c.example.net.")}),
			discovertest.Record("WEB.example.net", 40, &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("b.example.net.")}),
			discovertest.Record("else.example.net", 1, &dnsmessage.AResource{A: [4]byte{10, 2, 1, 9}}),
		}}, {web, aaaa}: {SOA: 60}}, webSource, "10.2.1.3:80", 5 * time.Second},
		{"alias to itself", map[question]reply{{web, a}: {Records: []dnsmessage.Resource{
			discovertest.Record(web, 40, &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(web + ".")}),
		}}, {web, aaaa}: {}}, webSource, "no set; nodata", 0},
		{"no such name", map[question]reply{{web, a}: {Code: dnsmessage.RCodeNameError, SOA: 30}, {web, aaaa}: {Code: dnsmessage.RCodeNameError, SOA: 30}}, webSource,
			"no set; nxdomain", 30 * time.Second},
		{"no such name removes", nil, func() config.Discover { s := webSource; s.RemoveAbsent = true; return s }(), "; nxdomain", 0},
		{"no records", map[question]reply{{web, a}: {}, {web, aaaa}: {}}, webSource, "no set; nodata", 0},
		{"SERVFAIL does not remove", map[question]reply{{web, a}: {Code: dnsmessage.RCodeServerFailure}, {web, aaaa}: {Code: dnsmessage.RCodeServerFailure}},
			func() config.Discover { s := webSource; s.RemoveAbsent = true; return s }(), "no set; servfail", 0},
		{"refused", map[question]reply{{web, a}: {Code: dnsmessage.RCodeRefused}, {web, aaaa}: {Code: dnsmessage.RCodeRefused}}, webSource, "no set; refused", 0},
		{"SERVFAIL for one family", map[question]reply{{web, a}: discovertest.Hosts(web, 20, "10.2.1.1"), {web, aaaa}: {Code: dnsmessage.RCodeServerFailure}}, webSource, "10.2.1.1:80; servfail", 0},
		{"silent", map[question]reply{{web, a}: {Silent: true}}, func() config.Discover { s := webSource; s.Family = config.IPv4; return s }(), "no set; timeout", 0},
		{"a broken body", map[question]reply{{web, a}: {Spoil: func(m []byte) []byte { m[7] = 9; return m }}}, func() config.Discover { s := webSource; s.Family = config.IPv4; return s }(), "no set; malformed", 0},
		{"a forged answer first", map[question]reply{{web, a}: func() reply { r := discovertest.Hosts(web, 20, "10.2.1.1"); r.Before = []byte("forged"); return r }()},
			func() config.Discover { s := webSource; s.Family = config.IPv4; return s }(), "10.2.1.1:80", 20 * time.Second},
		{"cut short", map[question]reply{{web, a}: func() reply { r := discovertest.Hosts(web, 20, "10.2.1.1"); r.Cut = true; return r }()},
			func() config.Discover { s := webSource; s.Family = config.IPv4; return s }(), "10.2.1.1:80", 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript(t)
			for q, r := range tt.zone {
				s.Set(q.name, q.kind, r)
			}
			n, _ := namesOf(s, tt.of)
			o, wait := n.look(t.Context())
			if got := said(o); got != tt.want {
				t.Errorf("got %q, want %q: %v", got, tt.want, o.Err)
			}
			if tt.wait > 0 && wait != tt.wait {
				t.Errorf("asks again after %v, want %v", wait, tt.wait)
			}
		})
	}
}

func TestService(t *testing.T) {
	const name = "_http._tcp.example.net"
	s := newScript(t)
	of := config.Discover{Kind: config.DiscoverSRV, Name: name, Family: config.IPv4}
	n, _ := namesOf(s, of)
	look := func(want string) {
		t.Helper()
		if o, _ := n.look(t.Context()); said(o) != want {
			t.Errorf("got %q, want %q: %v", said(o), want, o.Err)
		}
	}
	look("no set; nxdomain")
	s.Set("a.example.net", dnsmessage.TypeA, discovertest.Hosts("a.example.net", 20, "10.2.1.1", "10.2.1.2"))
	s.Set("b.example.net", dnsmessage.TypeA, discovertest.Hosts("b.example.net", 20, "10.2.1.3"))
	s.Set(name, dnsmessage.TypeSRV, discovertest.SRV(name, 20, to(1, 60, 8080, "A.example.net"), to(2, 0, 80, "b.example.net")))
	look("10.2.1.1:8080 w60 p1, 10.2.1.2:8080 w60 p1, 10.2.1.3:80 w1 p2")
	s.Set(name, dnsmessage.TypeSRV, discovertest.SRV(name, 20, to(0, 65535, 80, "a.example.net"), to(0, 100, 80, "b.example.net")))
	look("10.2.1.1:80 w256 p0, 10.2.1.2:80 w256 p0, 10.2.1.3:80")
	// a target whose addresses cannot be found out keeps those that it had
	s.Set("b.example.net", dnsmessage.TypeA, reply{Code: dnsmessage.RCodeServerFailure})
	look("10.2.1.1:80 w256 p0, 10.2.1.2:80 w256 p0, 10.2.1.3:80; servfail")
	s.Set(name, dnsmessage.TypeSRV, discovertest.SRV(name, 20, to(0, 0, 0, "")))
	look("no set; nodata")
}

// TestHold: an address stays for a while that answers no longer have.
func TestHold(t *testing.T) {
	s := newScript(t)
	of := webSource
	of.Family, of.Hold = config.IPv4, 10*time.Second
	n, now := namesOf(s, of)
	for _, step := range []struct {
		after   time.Duration
		address string
		want    string
	}{
		{0, "10.2.1.1", "10.2.1.1:80"},
		{5 * time.Second, "10.2.1.2", "10.2.1.1:80, 10.2.1.2:80"},
		{9 * time.Second, "10.2.1.3", "10.2.1.2:80, 10.2.1.3:80"},
		{20 * time.Second, "10.2.1.3", "10.2.1.3:80"},
	} {
		*now = now.Add(step.after)
		s.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 1, step.address))
		if o, _ := n.look(t.Context()); said(o) != step.want {
			t.Errorf("got %q, want %q", said(o), step.want)
		}
	}
}

// TestBackoff: a source that fails asks less often, and as before once it works.
func TestBackoff(t *testing.T) {
	s := newScript(t)
	of := webSource
	of.Family = config.IPv4
	n, _ := namesOf(s, of)
	s.Set(web, dnsmessage.TypeA, reply{Code: dnsmessage.RCodeServerFailure})
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		if _, wait := n.look(t.Context()); wait != want {
			t.Errorf("wait %v, want %v", wait, want)
		}
	}
	s.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 9, "10.2.1.1"))
	if _, wait := n.look(t.Context()); wait != 9*time.Second {
		t.Errorf("wait %v, want the TTL", wait)
	}
	s.Set(web, dnsmessage.TypeA, reply{Code: dnsmessage.RCodeServerFailure})
	if _, wait := n.look(t.Context()); wait != time.Second {
		t.Errorf("wait %v, want a second again", wait)
	}
}

// TestServersInOrder: the next server is asked if one does not know, and not if it says that there is no such name.
func TestServersInOrder(t *testing.T) {
	broken, works := newScript(t), newScript(t)
	works.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 9, "10.2.1.1"))
	r := &resolver{servers: []netip.AddrPort{broken.Address, works.Address}, within: 300 * time.Millisecond}
	q := question{web, dnsmessage.TypeA}
	for _, code := range []dnsmessage.RCode{dnsmessage.RCodeServerFailure, dnsmessage.RCodeRefused} {
		broken.Set(web, dnsmessage.TypeA, reply{Code: code})
		if a, err := r.lookup(t.Context(), q); err != nil || len(a.addresses) != 1 {
			t.Errorf("%v: %v, %v", code, a, err)
		}
	}
	before := works.Asked("udp", discovertest.Question{Name: web, Kind: dnsmessage.TypeA})
	broken.Set(web, dnsmessage.TypeA, reply{Code: dnsmessage.RCodeNameError})
	_, err := r.lookup(t.Context(), q)
	var f *Failure
	if !errors.As(err, &f) || f.Kind != NXDomain || works.Asked("udp", discovertest.Question{Name: web, Kind: dnsmessage.TypeA}) != before {
		t.Errorf("%v, %d more questions", err, works.Asked("udp", discovertest.Question{Name: web, Kind: dnsmessage.TypeA})-before)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.LocalAddr().(*net.UDPAddr).AddrPort()
	l.Close()
	_, err = (&resolver{servers: []netip.AddrPort{address}, within: time.Second}).lookup(t.Context(), question{web, dnsmessage.TypeA})
	var f *Failure
	if !errors.As(err, &f) || f.Kind != Unreachable || !strings.Contains(err.Error(), address.String()) {
		t.Errorf("%v, want unreachable", err)
	}
}

func TestResolvConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# comment\nsearch example.net\nnameserver 192.0.2.1\nnameserver  2001:db8::1 \nnameserver x\nnameserver fe80::1%eth0\nnameserver 192.0.2.4\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range resolvConf(path) {
		got = append(got, a.String())
	}
	if want := []string{"192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%eth0]:53"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := resolvConf(path + ".none"); len(got) != 1 || got[0].String() != "127.0.0.1:53" {
		t.Errorf("without a file: %v", got)
	}
}

// TestRunner: sets arrive, failures keep them and are counted, and an update of the configuration keeps what has not changed.
func TestRunner(t *testing.T) {
	s := newScript(t)
	s.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 0, "10.2.1.1"))
	configured := func(more string) *config.Config {
		return parse(t, fmt.Sprintf("  web: {discover: {dns: web.example.net, port: 80, resolvers: [%q], min_ttl: 100ms, max_ttl: 100ms%s}}\n", s.Address, more))
	}
	changed := make(chan struct{}, 100)
	r := NewRunner(t.Context(), Options{
		Make: func(of config.Discover) Source { return NewDNS(of, "/none") }, Changed: func() { changed <- struct{}{} }, Log: quiet(),
	})
	defer r.Close()
	saved := map[Key]Set{webDNS: set(Surrogate{Address: at(7), Weight: 1})}
	r.Update(configured(""), saved)
	await := func(what string, ok func(State) bool) {
		t.Helper()
		for until := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if st := r.States(); len(st) == 1 && ok(st[0]) {
				return
			}
			if time.Now().After(until) {
				t.Fatalf("%s: %+v", what, r.States())
			}
		}
	}
	has := func(n int) func(State) bool {
		return func(s State) bool {
			return s.Set != nil && len(s.Set.Surrogates) == 1 && s.Set.Surrogates[0].Address == at(n)
		}
	}
	await("the first set", has(1))
	s.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 0, "10.2.1.2"))
	await("another set", has(2))
	s.Set(web, dnsmessage.TypeA, reply{Code: dnsmessage.RCodeServerFailure})
	await("a failure", func(s State) bool { return s.Failures[ServFail] > 1 && s.Err != "" && has(2)(s) && s.Updates == 2 })
	s.Set(web, dnsmessage.TypeA, reply{Code: dnsmessage.RCodeNameError})
	await("another failure", func(s State) bool { return s.Failures[NXDomain] > 0 && has(2)(s) })
	r.Update(configured(""), nil)
	await("after an update", func(s State) bool { return s.Failures[NXDomain] > 0 && has(2)(s) })
	r.Update(configured(", hold: 1s"), nil)
	await("with other options", has(2))
	s.Set(web, dnsmessage.TypeA, discovertest.Hosts(web, 0, "10.2.1.3"))
	await("the source works again", func(s State) bool { return s.Err == "" && has(3)(s) && !s.Success.IsZero() })
	if len(changed) < 3 {
		t.Errorf("%d changes", len(changed))
	}
	r.Update(parse(t, "  web: {surrogates: [{name: s1, address: \"10.2.1.1:80\"}]}\n"), nil)
	if len(r.Sets()) != 0 || len(r.States()) != 0 {
		t.Errorf("left: %v", r.States())
	}
}

// TestSaved: until a source has had a set, that of an earlier process is in force.
func TestSaved(t *testing.T) {
	saved := map[Key]Set{webDNS: set(Surrogate{Address: at(7), Weight: 1}), otherDNS: set(Surrogate{Address: at(8), Weight: 1})}
	r := NewRunner(t.Context(), Options{Make: func(config.Discover) Source { return never{} }, Changed: func() {}, Log: quiet()})
	defer r.Close()
	r.Update(parse(t, "  web: {discover: {dns: web.example.net, port: 80}}\n"), saved)
	if got := r.Sets(); len(got) != 1 || got[webDNS].Surrogates[0].Address != at(7) {
		t.Errorf("got %v", got)
	}
}

type never struct{}

func (never) Run(ctx context.Context, _ func(Outcome)) { <-ctx.Done() }

func FuzzAnswer(f *testing.F) {
	q := question{web, dnsmessage.TypeA}
	for _, r := range []reply{discovertest.Hosts(web, 20, "10.2.1.1"), {Code: dnsmessage.RCodeNameError, SOA: 30}, discovertest.SRV("_http._tcp.example.net", 1, to(1, 2, 3, "a"))} {
		m := dnsmessage.Message{
			Header:  dnsmessage.Header{ID: 7, Response: true, RCode: r.Code},
			Answers: r.Records, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(web + "."), Type: q.kind, Class: dnsmessage.ClassINET}},
		}
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		p, h, ok := answers(message, 7, q)
		if !ok {
			return
		}
		a, err := readAnswer(&p, h, q)
		var failure *Failure
		if err != nil && !errors.As(err, &failure) {
			t.Errorf("%v is no Failure", err)
		}
		if err == nil && len(a.addresses) == 0 || a.ttl < 0 || len(a.targets) > 0 && err == nil && q.kind != dnsmessage.TypeSRV {
			t.Errorf("%+v, %v", a, err)
		}
	})
}
