package https

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"baton/experiments"
	"baton/experiments/handoff"
	"baton/lab"
	"baton/lab/peers"
)

// Stage is the topology of the experiment handoff with clients beside it that are no sockets:
//
//	crowd 10.8.0…127.1 ── 10.3.1.2 ── router
//
// and fd08:0:0:0…7f00::1 behind fd03:1::2.
type Stage struct {
	*handoff.Topology
	crowd *socket
	side  *lab.Interface // of the router, towards the crowd
	from  netip.Addr     // the first client

	list *list

	// Of the contender whose turn it is.
	said     *outcome
	supplied *supplied
	clients  *crowd // whose ports go on from measure to measure
	farm     *farm
	opened   *opened
}

func (s *Stage) vip() netip.AddrPort { return netip.AddrPortFrom(s.VIP().Addr(), 443) }

func buildStage(s *experiments.Setup, surrogates int) (*Stage, error) {
	t := &Stage{Topology: handoff.Build(s, handoff.Layout{Surrogates: surrogates, IPv6: s.Options.IPv6}), from: netip.MustParseAddr("10.8.0.1")}
	if s.Options.IPv6 {
		t.from = netip.MustParseAddr("fd08::1")
	}
	k := t.Lab.Link(lab.End{Host: t.Lab.Host("crowd"), Addrs: []string{"10.3.1.2/24", "fd03:1::2/64"}},
		lab.End{Host: t.Router, Addrs: []string{"10.3.1.1/24", "fd03:1::1/64"}}, lab.LinkOptions{})
	t.side = k.B
	for via, prefix := range map[string]string{"10.3.1.2": "10.8.0.0/16", "fd03:1::2": "fd08::/48"} {
		t.Router.Route(prefix, via)
		// A neighbour that is looked up costs the packets that come meanwhile, and their senders a second.
		t.Router.Neighbour(k.B, via, k.A.MAC)
	}
	var err error
	if t.crowd, err = open(k.A, k.B); err != nil {
		return nil, err
	}
	t.Lab.T().Cleanup(t.crowd.close)
	return t, nil
}

// start runs `baton router` with a configuration behind what every configuration here begins with.
func (s *Stage) start(turn *experiments.Turn[*Stage], config string) error {
	head := fmt.Sprintf("control: %q\nmetrics: %q\nstate: %q\n", filepath.Join(s.Lab.Dir(), "router.sock"), "127.0.0.1:9464", filepath.Join(s.Lab.BPFFS(), "router"))
	file := filepath.Join(s.Lab.Dir(), "router.yaml")
	if err := os.WriteFile(file, []byte(head+config), 0o600); err != nil {
		return fmt.Errorf("configure the router: %w", err)
	}
	program := turn.Options.Program
	p, err := s.Router.Start(lab.Program{Path: program, Args: []string{"router", "run", "-c", file}})
	if err != nil {
		return err
	}
	turn.Runs(p, "")
	turn.OnEnd(func() error {
		if err := p.Stop(parting); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), parting)
		defer cancel()
		_, err := s.Router.Exec(ctx, program, "router", "cleanup", "-c", file)
		return err
	})
	return nil
}

// parting is how long a router may take to end all sessions at both ends.
const parting = time.Minute

// proxy starts a proxy on the router, which has the VIP for this turn.
func (s *Stage) proxy(turn *experiments.Turn[*Stage], start func(*lab.Host, peers.SNIOptions) *peers.Server, o peers.SNIOptions) {
	s.Lab.T().Helper()
	s.OwnVIP(true)
	turn.OnEnd(func() error { s.OwnVIP(false); return nil })
	o.Probe, o.Workers = peers.Forward{Port: 8081, To: s.Addresses()[0].String()}, 2
	p := start(s.Router, o)
	turn.Runs(p.Process, p.Version)
	turn.OnEnd(func() error { return p.Process.Stop(2 * time.Second) })
}

// serves reports whether a hello reaches a server.
func (s *Stage) serves(ctx context.Context, h *framed) error {
	var told *talk
	c := newCrowd(s.crowd, s.from)
	c.ports.next = int(time.Now().UnixNano()>>10) & (1<<(portBits+addrBits) - 1)
	begun := false
	err := c.drive(ctx, func(int, time.Duration) (*talk, bool) {
		if begun {
			return nil, false
		}
		begun = true
		return &talk{to: s.vip(), stream: h.stream, pieces: h.pieces(0, inOrder), done: func(t *talk) { told = t }}, true
	})
	if err == nil && told != nil && len(told.answer) == 0 {
		err = fmt.Errorf("a hello has no answer")
	}
	return err
}
