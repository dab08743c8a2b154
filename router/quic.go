package router

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"baton/api"
	"baton/datapath"
	kernel "baton/datapath/quic"
	"baton/packet/hello"
	packets "baton/packet/quic"
	"baton/router/accesslog"
	"baton/router/config"
	"baton/router/legs"
	"baton/router/quic"
)

// quicPath is what VIPs of protocol quic need. There is none until there is such a VIP, or sessions of an earlier process.
type quicPath struct {
	kernel *kernel.QUIC
	server *quic.Server
	held   []netip.Addr // VIPs' addresses
}

// quicState is the folder of the QUIC sessions, beside that of the TCP ones.
func quicState(cfg *config.Config) string { return cfg.Listen.State + "_quic" }

// quicVIPs are the VIPs of protocol quic, by address.
func quicVIPs(cfg *config.Config) map[netip.AddrPort]int {
	vips := make(map[netip.AddrPort]int)
	for i, v := range cfg.VIPs {
		if v.Protocol == config.QUIC {
			vips[v.Address] = i
		}
	}
	return vips
}

// openQUIC writes a state's VIPs of protocol quic to the kernel.
func (r *Router) openQUIC(s *state) error {
	if r.quic.Load() == nil {
		_, err := os.Stat(quicState(s.cfg))
		if len(s.quics) == 0 && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err := r.startQUIC(s.cfg); err != nil {
			return err
		}
	}
	q := r.quic.Load()
	before := q.held
	q.held = nil
	vips := make(map[netip.AddrPort]kernel.VIP)
	var surrogates []netip.Addr
	for at, i := range s.quics {
		v := &s.cfg.VIPs[i]
		for _, name := range v.Interfaces {
			dev, err := net.InterfaceByName(name)
			if err != nil {
				return fmt.Errorf("%s:%d: vips.interfaces: no interface %q on this host", s.cfg.File, v.Line, name)
			}
			if err := q.kernel.Attach(dev.Index); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := r.addresses.add(at.Addr(), r.tap.Ifindex); err != nil {
			return err
		}
		q.held = append(q.held, at.Addr())
		var k kernel.VIP
		s.eachPool(i, func(p *poolState) {
			k.Layouts = k.Layouts || p.cfg.ServerID != nil
			for _, sg := range p.cfg.Surrogates {
				surrogates = append(surrogates, sg.Address.Addr())
			}
		})
		vips[at] = k
	}
	for _, address := range before {
		if err := r.addresses.remove(address, r.tap.Ifindex); err != nil {
			return err
		}
	}
	q.server.Reach(surrogates)
	return q.kernel.SetVIPs(vips)
}

// quicPrograms is the feature that the programs for QUIC load.
var quicPrograms = kernel.Programs

// startQUIC opens the data path for QUIC, and serves it until the router stops.
func (r *Router) startQUIC(cfg *config.Config) (err error) {
	q := new(quicPath)
	if q.kernel, err = kernel.Open(kernel.Options{State: quicState(cfg), Sessions: cfg.Limits.Sessions}); err != nil {
		return err
	}
	var tap *datapath.Tap
	defer func() {
		if err != nil {
			if tap != nil {
				tap.Close()
			}
			err = errors.Join(err, q.kernel.Close())
		}
	}()
	if tap, err = datapath.OpenTap("baton%d"); err != nil {
		return err
	}
	ports, err := legs.FreePorts()
	if err != nil {
		return err
	}
	q.server, err = quic.New(quic.Options{
		Kernel: q.kernel, Tap: tap, Routes: legs.Netlink{}, Ports: ports, Log: r.log,
		Ended: r.logQUIC, Decide: r.decideQUIC, Named: r.namedQUIC, Known: r.knownQUIC,
		Timeouts: func() config.Timeouts { return r.current().cfg.Timeouts },
	})
	if err != nil {
		return err
	}
	if err := q.server.Start(); err != nil {
		return err
	}
	r.quic.Store(q)
	r.group.Go(func() error { return q.server.Run(r.ctx) })
	return nil
}

// eachPool calls f for the pools of a VIP's routes.
func (s *state) eachPool(vip int, f func(*poolState)) {
	for _, p := range s.pools {
		if slices.ContainsFunc(s.cfg.VIPs[vip].Routes, func(route config.Route) bool { return route.Pool == p.cfg.Name }) {
			f(p)
		}
	}
}

func (p *poolState) target(i int) quic.Target {
	sg := &p.cfg.Surrogates[i]
	return quic.Target{Surrogate: sg.Name, Address: sg.Address, Keep: p.cfg.Source == config.SourceKeep}
}

// decideQUIC chooses the surrogate for a hello; nil is one that cannot be read, and goes where those without a name go. sessions counts
// the QUIC sessions of a surrogate.
func (r *Router) decideQUIC(vip, client netip.AddrPort, h *hello.Hello, sessions func(netip.AddrPort) int) (quic.Target, quic.Refusal) {
	s := r.current()
	i, ok := s.quics[vip]
	if !ok {
		return quic.Target{}, quic.NoVIP
	}
	unread := h == nil
	if unread {
		h = new(hello.Hello)
	}
	match, ok := s.routes.MatchHello(i, h)
	switch {
	case !ok && unread:
		return quic.Target{}, quic.UnknownVersion
	case !ok && h.ServerName == "":
		return quic.Target{}, quic.NoName
	case !ok:
		return quic.Target{}, quic.NoRoute
	}
	p := s.pools[match.Pool]
	ask := p.asksHello(h, client.Addr())
	at, _, ok := r.pick(p, &ask, nil, byHandoff, func(id uint16) uint64 {
		n := r.sessions(id)
		for j := range p.ids {
			if p.ids[j] == id {
				n += uint64(sessions(p.cfg.Surrogates[j].Address))
			}
		}
		return n
	})
	if !ok {
		return quic.Target{}, quic.NoSurrogate
	}
	return p.target(at), ""
}

// namedQUIC finds the surrogate that a packet's connection id names.
func (r *Router) namedQUIC(vip netip.AddrPort, packet *packets.Packet) (quic.Target, bool) {
	s := r.current()
	i, ok := s.quics[vip]
	if !ok {
		return quic.Target{}, false
	}
	var directory packets.Directory[quic.Target]
	s.eachPool(i, func(p *poolState) {
		if p.cfg.ServerID == nil {
			return
		}
		for j, sg := range p.cfg.Surrogates {
			// an id that two pools have names the first one's surrogate
			_ = directory.Add(p.cfg.ServerID.Layout, p.cfg.ServerID.IDs[sg.Name], p.target(j))
		}
	})
	return directory.Find(packet)
}

// knownQUIC is the surrogate of an address. One that has been removed keeps its connections.
func (r *Router) knownQUIC(vip, surrogate netip.AddrPort) quic.Target {
	s, target := r.current(), quic.Target{Address: surrogate}
	if i, ok := s.quics[vip]; ok {
		s.eachPool(i, func(p *poolState) {
			for j, sg := range p.cfg.Surrogates {
				if sg.Address == surrogate {
					target = p.target(j)
				}
			}
		})
	}
	return target
}

// logQUIC writes a session that has ended. A router cannot see how: the last datagrams look like all others.
func (r *Router) logQUIC(k *kernel.Session, name string) {
	s := r.current()
	if i, ok := s.quics[k.VIP]; !r.access.Enabled() || ok && s.cfg.VIPs[i].Unlogged {
		return
	}
	rec := accesslog.Record{
		Time: time.Now().Add(-k.Age), Client: k.Client, VIP: k.VIP, Protocol: accesslog.QUIC, Host: []byte(name), SurrogateAddress: k.Surrogate,
		Surrogate:  r.knownQUIC(k.VIP, k.Surrogate).Surrogate,
		FromClient: k.BytesToServer, FromSurrogate: k.BytesToClient, WholeSession: true, Duration: max(k.Age-k.Idle, 0), End: accesslog.Timeout,
	}
	if !k.Answered {
		rec.End = accesslog.Failed
	}
	rec.Pool = s.poolOf(rec.Surrogate)
	r.access.Write([]accesslog.Record{rec})
}

// eachQUIC calls yield for each session, until it returns an error.
func (r *Router) eachQUIC(now time.Time, yield func(api.RouterSession) error) error {
	q := r.quic.Load()
	if q == nil {
		return nil
	}
	return q.kernel.Each(func(k kernel.Session) error {
		return yield(api.RouterSession{
			Client: k.Client, VIP: k.VIP, Surrogate: r.knownQUIC(k.VIP, k.Surrogate).Surrogate, State: api.RouterSessionSpliced,
			Leg:   api.RouterLeg{Local: k.Source, Remote: k.Surrogate},
			Since: now.Add(-k.Age), IdleFor: k.Idle, Received: k.BytesToServer, Sent: k.BytesToClient,
		})
	})
}

// statusQUIC is nil without VIPs of protocol quic.
func (r *Router) statusQUIC() (*api.RouterQUIC, error) {
	q := r.quic.Load()
	if q == nil {
		return nil, nil
	}
	s := q.server.Status()
	out := &api.RouterQUIC{
		Sessions: s.Sessions, Limit: s.Limit, Held: s.Held, Made: s.Made, Moved: s.Moved, Refused: make(map[string]uint64),
		Expired: s.Flights.Expired, Evicted: s.Flights.Evicted,
	}
	for why, n := range s.Refused {
		out.Refused[string(why)] = n
	}
	var err error
	out.Packets, err = q.kernel.Verdicts()
	return out, err
}

// quicSessions counts the QUIC sessions of a surrogate.
func (r *Router) quicSessions(surrogate netip.AddrPort) int {
	if q := r.quic.Load(); q != nil {
		return q.server.Of(surrogate)
	}
	return 0
}

// liveQUIC counts the QUIC sessions that continue in the kernel.
func (r *Router) liveQUIC() (n int, err error) {
	q := r.quic.Load()
	if q == nil {
		return 0, nil
	}
	idle := r.current().cfg.Timeouts.QUICIdle
	err = q.kernel.Each(func(s kernel.Session) error {
		if (s.Confirmed || s.Followed) && s.Idle < idle {
			n++
		}
		return nil
	})
	return n, err
}

// unloadQUIC ends the QUIC sessions that a stopped router has left in the kernel. Nobody is told: QUIC has no message that a router could send.
func unloadQUIC(cfg *config.Config) (n int, err error) {
	dir := quicState(cfg)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return 0, kernel.Remove(dir)
	}
	k, err := kernel.Open(kernel.Options{State: dir, Sessions: cfg.Limits.Sessions})
	if errors.Is(err, datapath.ErrLayout) {
		return 0, kernel.Remove(dir)
	}
	if err != nil {
		return 0, err
	}
	err = k.Each(func(kernel.Session) error {
		n++
		return nil
	})
	return n, errors.Join(err, k.Close(), kernel.Remove(dir))
}

// removeQUIC removes the state of QUIC sessions.
func removeQUIC(cfg *config.Config) error { return kernel.Remove(quicState(cfg)) }

// interfacesQUIC are those that the data path for QUIC is attached to.
func (r *Router) interfacesQUIC() []int {
	if q := r.quic.Load(); q != nil {
		return slices.Sorted(slices.Values(q.kernel.Attached()))
	}
	return nil
}

func (r *Router) closeQUIC() {
	if q := r.quic.Swap(nil); q != nil {
		if err := q.kernel.Close(); err != nil {
			r.log.Error("cannot close data path for QUIC", "err", err)
		}
	}
}
