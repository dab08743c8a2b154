package quic

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"baton/api"
	"baton/datapath"
	kernel "baton/datapath/quic"
	"baton/packet/hello"
	"baton/packet/quic"
	"baton/router/accesslog"
	"baton/router/config"
	"baton/router/legs"
	"baton/router/state"
)

// ServiceOptions make a Service. Functions are called from many goroutines.
type ServiceOptions struct {
	Access *accesslog.Writer
	Log    *slog.Logger

	// Snapshot is the one in force.
	Snapshot func() *state.Snapshot
	// Pick chooses a surrogate of a pool, as state.Pool.Pick does.
	Pick func(p *state.Pool, q *state.Question, sessions func(id uint16) uint64) (state.Choice, bool)
	// Sessions counts a surrogate's live sessions of TCP.
	Sessions func(id uint16) uint64
	// AddAddress adds a VIP's address to the host, RemoveAddress undoes one call of it.
	AddAddress, RemoveAddress func(vip netip.Addr) error
	// Spawn starts a task that ends with the router, whose error ends the router.
	Spawn func(task func(ctx context.Context) error)
}

// Service serves the VIPs of protocol quic. It opens its data path when there is such a VIP, or sessions of an earlier process.
type Service struct {
	o    ServiceOptions
	path atomic.Pointer[path] // nil: not open
}

// path is the data path with its server.
type path struct {
	kernel *kernel.QUIC
	server *Server
	held   []netip.Addr // VIPs' addresses; only Update uses it
}

// Programs is the feature that the programs for QUIC load.
var Programs = kernel.Programs

// NewService makes a Service, which does nothing before Update.
func NewService(o ServiceOptions) *Service { return &Service{o: o} }

// stateFolder is the folder of the QUIC sessions, beside that of the TCP ones.
func stateFolder(cfg *config.Config) string { return cfg.Listen.State + "_quic" }

// Update puts a configuration's VIPs of protocol quic in force. One call at a time.
func (v *Service) Update(c *state.Compiled) error {
	if v.path.Load() == nil {
		_, err := os.Stat(stateFolder(c.Config))
		if len(c.QUICs) == 0 && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err := v.start(c.Config); err != nil {
			return err
		}
	}
	q := v.path.Load()
	before := q.held
	q.held = nil
	vips := make(map[netip.AddrPort]kernel.VIP)
	var surrogates []netip.Addr
	for at, i := range c.QUICs {
		vip := &c.Config.VIPs[i]
		for _, name := range vip.Interfaces {
			dev, err := net.InterfaceByName(name)
			if err != nil {
				return fmt.Errorf("%s:%d: vips.interfaces: no interface %q on this host", c.Config.File, vip.Line, name)
			}
			if err := q.kernel.Attach(dev.Index); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := v.o.AddAddress(at.Addr()); err != nil {
			return err
		}
		q.held = append(q.held, at.Addr())
		var k kernel.VIP
		c.EachPool(i, func(p *state.NumberedPool) {
			k.Layouts = k.Layouts || p.Config.ServerID != nil
			for _, sg := range p.Config.Surrogates {
				surrogates = append(surrogates, sg.Address.Addr())
			}
		})
		vips[at] = k
	}
	for _, address := range before {
		if err := v.o.RemoveAddress(address); err != nil {
			return err
		}
	}
	q.server.Reach(surrogates)
	return q.kernel.SetVIPs(vips)
}

// start opens the data path, and serves it until the router stops.
func (v *Service) start(cfg *config.Config) (err error) {
	q := new(path)
	if q.kernel, err = kernel.Open(kernel.Options{State: stateFolder(cfg), Sessions: cfg.Limits.Sessions}); err != nil {
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
	q.server, err = New(Options{
		Kernel: q.kernel, Tap: tap, Routes: legs.Netlink{}, Ports: ports, Log: v.o.Log,
		Ended: v.writeSession, Decide: v.decideHello, Named: v.findNamed, Known: v.findKnown,
		Timeouts: func() config.Timeouts { return v.o.Snapshot().Config.Timeouts },
	})
	if err != nil {
		return err
	}
	if err := q.server.Start(); err != nil {
		return err
	}
	v.path.Store(q)
	v.o.Spawn(q.server.Run)
	return nil
}

// targetOf is a surrogate of a pool, by its index.
func targetOf(p *state.NumberedPool, i int) Target {
	sg := &p.Config.Surrogates[i]
	return Target{Surrogate: sg.Name, Address: sg.Address, Keep: p.Config.Source == config.SourceKeep}
}

// decideHello chooses the surrogate for a hello; nil is one that cannot be read, and goes where those without a name go. sessions counts
// the QUIC sessions of a surrogate.
func (v *Service) decideHello(vip, client netip.AddrPort, h *hello.Hello, sessions func(netip.AddrPort) int) (Target, Refusal) {
	s := v.o.Snapshot()
	i, ok := s.QUICs[vip]
	if !ok {
		return Target{}, NoVIP
	}
	unread := h == nil
	if unread {
		h = new(hello.Hello)
	}
	match, ok := s.Routes.MatchHello(i, h)
	switch {
	case !ok && unread:
		return Target{}, UnknownVersion
	case !ok && h.ServerName == "":
		return Target{}, NoName
	case !ok:
		return Target{}, NoRoute
	}
	p := s.Pools[match.Pool]
	question := p.QuestionOfHello(h, client.Addr())
	c, ok := v.o.Pick(p, &question, func(id uint16) uint64 {
		n := v.o.Sessions(id)
		for j := range p.IDs {
			if p.IDs[j] == id {
				n += uint64(sessions(p.Config.Surrogates[j].Address))
			}
		}
		return n
	})
	if !ok {
		return Target{}, NoSurrogate
	}
	return targetOf(p.NumberedPool, c.At), ""
}

// findNamed finds the surrogate that a packet's connection id names.
func (v *Service) findNamed(vip netip.AddrPort, packet *quic.Packet) (Target, bool) {
	s := v.o.Snapshot()
	i, ok := s.QUICs[vip]
	if !ok {
		return Target{}, false
	}
	var directory quic.Directory[Target]
	s.EachPool(i, func(p *state.NumberedPool) {
		if p.Config.ServerID == nil {
			return
		}
		for j, sg := range p.Config.Surrogates {
			// an id that two pools have names the first one's surrogate
			_ = directory.Add(p.Config.ServerID.Layout, p.Config.ServerID.IDs[sg.Name], targetOf(p, j))
		}
	})
	return directory.Find(packet)
}

// findKnown is the surrogate of an address. One that has been removed keeps its connections.
func (v *Service) findKnown(vip, surrogate netip.AddrPort) Target {
	s, target := v.o.Snapshot(), Target{Address: surrogate}
	if i, ok := s.QUICs[vip]; ok {
		s.EachPool(i, func(p *state.NumberedPool) {
			for j, sg := range p.Config.Surrogates {
				if sg.Address == surrogate {
					target = targetOf(p, j)
				}
			}
		})
	}
	return target
}

// writeSession writes a session that has ended. A router cannot see how: the last datagrams look like all others.
func (v *Service) writeSession(k *kernel.Session, name string) {
	s := v.o.Snapshot()
	if i, ok := s.QUICs[k.VIP]; !v.o.Access.Enabled() || ok && s.Config.VIPs[i].Unlogged {
		return
	}
	rec := accesslog.Record{
		Time: time.Now().Add(-k.Age), Client: k.Client, VIP: k.VIP, Protocol: accesslog.QUIC, Host: []byte(name), SurrogateAddress: k.Surrogate,
		Surrogate:  v.findKnown(k.VIP, k.Surrogate).Surrogate,
		FromClient: k.BytesToServer, FromSurrogate: k.BytesToClient, WholeSession: true, Duration: max(k.Age-k.Idle, 0), End: accesslog.Timeout,
	}
	if !k.Answered {
		rec.End = accesslog.Failed
	}
	rec.Pool = s.PoolOf(rec.Surrogate)
	v.o.Access.Write([]accesslog.Record{rec})
}

// EachSession calls yield for each session, until it returns an error.
func (v *Service) EachSession(now time.Time, yield func(api.RouterSession) error) error {
	q := v.path.Load()
	if q == nil {
		return nil
	}
	return q.kernel.Each(func(k kernel.Session) error {
		return yield(api.RouterSession{
			Client: k.Client, VIP: k.VIP, Surrogate: v.findKnown(k.VIP, k.Surrogate).Surrogate, State: api.RouterSessionSpliced,
			Leg:   api.RouterLeg{Local: k.Source, Remote: k.Surrogate},
			Since: now.Add(-k.Age), IdleFor: k.Idle, Received: k.BytesToServer, Sent: k.BytesToClient,
		})
	})
}

// Status is nil without VIPs of protocol quic. The error is that of the kernel's maps.
func (v *Service) Status() (*api.RouterQUIC, error) {
	q := v.path.Load()
	if q == nil {
		return nil, nil
	}
	s := q.server.Status()
	out := &api.RouterQUIC{
		Sessions: s.Sessions, Limit: s.Limit, Held: s.Held, Made: s.Made, Moved: s.Moved, Refused: make(map[string]uint64),
		Expired: s.Flights.Expired, Evicted: s.Flights.Evicted, Unproven: s.Unproven, MovedEvicted: s.MovedEvicted,
	}
	for why, n := range s.Refused {
		out.Refused[string(why)] = n
	}
	var err error
	out.Packets, err = q.kernel.Verdicts()
	return out, err
}

// Sessions counts the sessions of a surrogate.
func (v *Service) Sessions(surrogate netip.AddrPort) int {
	if q := v.path.Load(); q != nil {
		return q.server.Of(surrogate)
	}
	return 0
}

// Live counts the sessions that continue in the kernel.
func (v *Service) Live() (n int, err error) {
	q := v.path.Load()
	if q == nil {
		return 0, nil
	}
	idle := v.o.Snapshot().Config.Timeouts.QUICIdle
	err = q.kernel.Each(func(s kernel.Session) error {
		if (s.Confirmed || s.Followed) && s.Idle < idle {
			n++
		}
		return nil
	})
	return n, err
}

// Unload ends the sessions that a stopped router has left in the kernel. No end hears of it: QUIC has no message that a router could send.
func Unload(cfg *config.Config) (n int, err error) {
	dir := stateFolder(cfg)
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

// Remove removes the state of a router that has ended without sessions.
func Remove(cfg *config.Config) error { return kernel.Remove(stateFolder(cfg)) }

// Interfaces are those that the data path is attached to.
func (v *Service) Interfaces() []int {
	if q := v.path.Load(); q != nil {
		return slices.Sorted(slices.Values(q.kernel.Attached()))
	}
	return nil
}

// Close closes the data path. Its sessions stay in the kernel.
func (v *Service) Close() {
	if q := v.path.Swap(nil); q != nil {
		if err := q.kernel.Close(); err != nil {
			v.o.Log.Error("cannot close data path for QUIC", "err", err)
		}
	}
}
