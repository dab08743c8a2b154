package speaker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"baton/anycast/config"
	"baton/anycast/level"
	"baton/lab"
	"baton/lab/peers"
)

const (
	siteAS   = 64512
	routerAS = 65000
	v4       = "192.0.2.0/24"
	v6       = "2001:db8:1::/48"
	soon     = 30 * time.Second
)

// site is a speaker in a host of its own, next to a router.
type site struct {
	*lab.Process
	say io.WriteCloser
}

func startSite(t *testing.T, h *lab.Host, b config.BGP) *site {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(task{b, []netip.Prefix{netip.MustParsePrefix(v4), netip.MustParsePrefix(v6)}})
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { write.Close() })
	p, err := h.Start(lab.Program{Path: self, Env: []string{asSpeaker + "=" + string(text)}, Stdin: read, Name: "speaker"})
	read.Close()
	if err != nil {
		t.Fatal(err)
	}
	return &site{p, write}
}

func (s *site) announce(t *testing.T, a level.Announcement) {
	t.Helper()
	line, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.say.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
}

// peer is the router at the other end of a link of both families.
func peer(as uint32, change func(*config.Peer)) config.BGP {
	p := config.Peer{Name: "r1", Address: netip.MustParseAddr("10.7.0.1"), Port: 179, AS: as, IPv4: true, IPv6: true,
		Keepalive: time.Second, Hold: 3 * time.Second, Retry: 2 * time.Second}
	if change != nil {
		change(&p)
	}
	return config.BGP{AS: siteAS, RouterID: netip.MustParseAddr("10.7.0.2"), NextHop6: netip.MustParseAddr("fd07::2"),
		Communities: []uint32{siteAS<<16 | 7}, Peers: []config.Peer{p}}
}

func link(t *testing.T) (l *lab.Lab, router, host *lab.Host) {
	l = lab.New(t)
	router, host = l.Host("router"), l.Host("site")
	l.Link(lab.End{Host: router, Addrs: []string{"10.7.0.1/24", "fd07::1/64"}}, lab.End{Host: host, Addrs: []string{"10.7.0.2/24", "fd07::2/64"}},
		lab.LinkOptions{})
	return l, router, host
}

const birdConfig = `router id 10.7.0.1;
protocol device { scan time 1; }
protocol bgp site {
	local 10.7.0.1 as 65000;
	neighbor 10.7.0.2 as %d;
	passive;
	%s
	ipv4 { import all; export none; };
	ipv6 { import all; export none; };
}
`

func bird(h *lab.Host, as int, more string) *peers.Speaker {
	return peers.Bird(h, fmt.Sprintf(birdConfig, as, more))
}

// steps are the levels of a ladder, and what BIRD and FRR show of each.
var steps = []struct {
	name      string
	announced level.Announcement
	bird, frr []string // what is to be shown
	not       []string // and what is not, by either
}{
	{"plain", level.Announcement{}, []string{"BGP.as_path: 64512\n", "BGP.community: (64512,7)\n"}, []string{`"string":"64512"`, `"string":"64512:7"`}, []string{"BGP.med"}},
	{"MED", level.Announcement{MED: 100}, []string{"BGP.med: 100\n", "BGP.as_path: 64512\n"}, []string{`"metric":100`}, nil},
	{"prepend", level.Announcement{MED: 100, Prepend: 3}, []string{"BGP.as_path: 64512 64512 64512 64512\n"},
		[]string{`"string":"64512 64512 64512 64512"`}, nil},
	{"drain", level.Announcement{Communities: []uint32{level.GracefulShutdown}}, []string{"(64512,7)", "(65535,0)", "BGP.as_path: 64512\n"},
		[]string{"graceful-shutdown"}, []string{"BGP.med"}},
}

func TestLevelsInBird(t *testing.T) {
	t.Parallel()
	_, router, host := link(t)
	b := bird(router, siteAS, "")
	s := startSite(t, host, peer(routerAS, nil))
	for _, step := range steps {
		s.announce(t, step.announced)
		for _, prefix := range []string{v4, v6} {
			lab.Eventually(t, soon, func() error { return shown(b, prefix, step.bird, step.not) })
		}
	}
	s.announce(t, level.Announcement{Withdrawn: true})
	lab.Eventually(t, soon, func() error { return gone(b) })
	out, err := b.Birdc(t.Context(), "show", "protocols", "all", "site")
	if err != nil || !strings.Contains(out, "Established") {
		t.Errorf("the session is to stay when routes are withdrawn: %v\n%s", err, out)
	}
}

func shown(b *peers.Speaker, prefix string, want, not []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	out, err := b.Birdc(ctx, "show", "route", "for", prefix, "all")
	if err != nil {
		return err
	}
	return holds(out+"\n", want, not)
}

func holds(out string, want, not []string) error {
	for _, w := range want {
		if !strings.Contains(out, w) {
			return fmt.Errorf("%q is not in\n%s", w, out)
		}
	}
	for _, w := range not {
		if strings.Contains(out, w) {
			return fmt.Errorf("%q is in\n%s", w, out)
		}
	}
	return nil
}

func gone(b *peers.Speaker) error {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	out, err := b.Birdc(ctx, "show", "route")
	if err == nil && strings.Contains(out, "unicast") {
		err = fmt.Errorf("there are routes:\n%s", out)
	}
	return err
}

func TestLevelsInFRR(t *testing.T) {
	t.Parallel()
	_, router, host := link(t)
	f := peers.FRR(router, `router bgp 65000
 bgp router-id 10.7.0.1
 no bgp ebgp-requires-policy
 neighbor 10.7.0.2 remote-as 64512
 neighbor 10.7.0.2 passive
 address-family ipv4 unicast
  neighbor 10.7.0.2 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor 10.7.0.2 activate
 exit-address-family
`)
	s := startSite(t, host, peer(routerAS, nil))
	for _, step := range steps {
		s.announce(t, step.announced)
		for _, query := range []string{"ipv4 unicast " + v4, "ipv6 unicast " + v6} {
			lab.Eventually(t, soon, func() error {
				out, err := f.Vtysh(t.Context(), "show bgp "+query+" json")
				if err != nil {
					return err
				}
				return holds(strings.Join(strings.Fields(out), ""), compact(step.frr), nil)
			})
		}
	}
}

// compact takes the white space out, as it is out of what it is looked for in.
func compact(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = strings.Join(strings.Fields(s), "")
	}
	return out
}

// TestEnd has the site end in all the ways that there are, and looks when the router forgets its routes.
func TestEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(router *lab.Host, s *site) error
		said string // by BIRD
	}{
		{"SIGTERM", func(_ *lab.Host, s *site) error { return s.Stop(soon) }, "Received: Peer de-configured"},
		{"SIGKILL", func(_ *lab.Host, s *site) error { return s.Signal(syscall.SIGKILL) }, "Socket: Connection"},
		{"host lost", func(router *lab.Host, _ *site) error {
			router.Interface("eth0").Lose(1)
			return nil
		}, "Error: Hold timer expired"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, router, host := link(t)
			b := bird(router, siteAS, "")
			s := startSite(t, host, peer(routerAS, nil))
			s.announce(t, level.Announcement{})
			lab.Eventually(t, soon, func() error { return shown(b, v4, []string{"unicast"}, nil) })
			if err := tt.end(router, s); err != nil {
				t.Fatal(err)
			}
			lab.Eventually(t, soon, func() error { return gone(b) })
			out, err := b.Birdc(t.Context(), "show", "protocols", "all", "site")
			if err != nil || !strings.Contains(out, tt.said) {
				t.Errorf("BIRD does not say %q: %v\n%s", tt.said, err, out)
			}
		})
	}
}

// TestSessions has sessions that are protected, and those of other kinds.
func TestSessions(t *testing.T) {
	t.Parallel()
	preference := uint32(50)
	tests := []struct {
		name   string
		as     uint32 // of the router
		bird   string
		change func(*config.Peer)
		say    level.Announcement
		want   []string
	}{
		{"MD5", routerAS, `password "secret";`, func(p *config.Peer) { p.Password = "secret" }, level.Announcement{}, []string{"BGP.as_path: 64512\n"}},
		{"GTSM", routerAS, "ttl security on;", func(p *config.Peer) { p.GTSM = true }, level.Announcement{}, []string{"BGP.as_path: 64512\n"}},
		{"internal", siteAS, "local as 64512;", nil, level.Announcement{LocalPreference: &preference},
			[]string{"BGP.as_path: \n", "BGP.local_pref: 50\n", "BGP.next_hop: 10.7.0.2\n"}},
		{"graceful restart", routerAS, "graceful restart aware;", func(p *config.Peer) { p.Restart = 20 * time.Second }, level.Announcement{},
			[]string{"BGP.as_path: 64512\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, router, host := link(t)
			b := bird(router, siteAS, tt.bird)
			s := startSite(t, host, peer(tt.as, tt.change))
			s.announce(t, tt.say)
			lab.Eventually(t, soon, func() error { return shown(b, v4, tt.want, nil) })
			lab.Eventually(t, soon, func() error { return shown(b, v6, tt.want[:1], nil) })
			// The router is restarted: the session comes back, and brings the routes.
			if err := b.Stop(soon); err != nil {
				t.Fatal(err)
			}
			b = bird(router, siteAS, tt.bird)
			lab.Eventually(t, soon, func() error { return shown(b, v4, tt.want, nil) })
			if err := s.Stop(soon); err != nil {
				t.Errorf("the end of the speaker: %v\n%s", err, s.Log())
			}
			lab.Eventually(t, soon, func() error { return gone(b) })
		})
	}
}

// TestWrongAS has no session with a router of another AS than was configured.
func TestWrongAS(t *testing.T) {
	t.Parallel()
	_, router, host := link(t)
	b := bird(router, siteAS, `password "secret";`)
	s := startSite(t, host, peer(routerAS, func(p *config.Peer) { p.AS = routerAS + 1; p.Password = "secret" }))
	s.announce(t, level.Announcement{})
	lab.Eventually(t, soon, func() error {
		out, err := b.Birdc(t.Context(), "show", "protocols", "all", "site")
		if err == nil && !strings.Contains(out, "Received: Bad peer AS") {
			err = fmt.Errorf("BIRD says\n%s", out)
		}
		return err
	})
}
