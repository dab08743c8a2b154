// Package network makes one network of a controller's switches: it discovers the links between them, learns the hosts at them, answers their ARP
// and neighbour discovery, and installs the paths between them. It gives the pure packages topology, paths, lldp and neighbour their clock, their
// packets and their switches.
package network

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"baton/controller/lldp"
	"baton/controller/paths"
	"baton/controller/switches"
	"baton/controller/topology"
	"baton/openflow"
	"baton/packet"
)

// Options configure a network. Zero fields have defaults.
type Options struct {
	Log *slog.Logger
	Key lldp.Key // of discovery frames; default: a random one
	// Interval is between discovery frames; a link that three of them do not confirm is gone. Default: 1 s.
	Interval time.Duration
	Rules    topology.Rules
	Spread   paths.Spread // default: by destination
	Cache    bool         // of paths
	// Edge tells whether a port is for hosts alone, by the configuration.
	Edge func(topology.Point) bool
}

// MAC is the controller's own, of the questions that it asks: 42-54-4e as in its discovery frames, locally administered.
var MAC = packet.MAC{0x42, 0x54, 0x4e, 0, 0, 1}

// Counts are sums since the beginning.
type Counts struct {
	Discovery                                  uint64 // frames sent
	Forged, Replayed, Old, Unsigned, Malformed uint64 // discovery frames refused
	Answered, Flooded, Limited                 uint64 // questions for addresses
	Forwarded                                  uint64 // packets sent on by the controller
	Held, Dropped                              uint64 // packets that waited for their destination, and that were dropped
	Probes                                     uint64 // of hosts
}

type counters struct {
	discovery, forged, replayed, old, unsigned, malformed, answered, flooded, limited, forwarded, held, dropped, probes atomic.Uint64
}

// Network is the network of the switches of a server.
type Network struct {
	o  Options
	sw *switches.Server
	// Paths installs paths.
	Paths *paths.Manager

	mu      sync.Mutex // guards the fields below
	g       *topology.Graph
	table   *paths.Table
	reader  lldp.Reader
	limits  map[topology.Point]*limits
	waiting *waiting
	jobs    map[paths.Pair]*job // paths that are being installed, with the packets that wait for them
	repairs map[paths.Pair]time.Time
	places  map[packet.MAC]topology.Point
	dirty   map[paths.Key]bool // to be rerouted
	again   []paths.Pair       // to be installed, as their source has moved
	gone    []paths.Key        // to be removed
	watch   []func(topology.Change)
	earlier []topology.Host // that were known to a controller before this one

	wake   chan struct{}
	tasks  sync.WaitGroup
	ctx    context.Context //nolint:containedctx // of Run: jobs that packets start end with it
	counts counters
}

// New returns the network of a server's switches. It adds itself to the server's handlers as the first; [Network.Forward] should be the last.
func New(sw *switches.Server, o Options) *Network {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(o.Key) == 0 {
		o.Key = lldp.NewKey()
	}
	if o.Interval <= 0 {
		o.Interval = time.Second
	}
	if o.Rules.LinkTimeout == 0 {
		o.Rules.LinkTimeout = 3*o.Interval + o.Interval/2
	}
	if o.Spread == "" {
		o.Spread = paths.SpreadDestination
	}
	if o.Edge == nil {
		o.Edge = func(topology.Point) bool { return false }
	}
	n := &Network{
		o: o, sw: sw, g: topology.New(o.Rules), table: paths.NewTable(o.Spread),
		reader: lldp.Reader{Key: o.Key, Age: age}, limits: map[topology.Point]*limits{}, waiting: newWaiting(),
		jobs: map[paths.Pair]*job{}, repairs: map[paths.Pair]time.Time{}, dirty: map[paths.Key]bool{}, places: map[packet.MAC]topology.Point{}, wake: make(chan struct{}, 1),
		ctx: context.Background(),
	}
	n.Paths = paths.NewManager(n.table, o.Cache, sw.Commit, n.View)
	sw.Ready(n.prepare)
	sw.Watch(n.event)
	sw.Handle(n.handle)
	return n
}

// age is how old a discovery frame may be, and by how much the clocks of several controllers may differ.
const age = 2 * time.Second

// OnChange adds a function that is called with each change of the topology, under the network's lock: it must not call the network. It must not be
// called after Run.
func (n *Network) OnChange(f func(topology.Change)) { n.watch = append(n.watch, f) }

// Remember makes the network expect hosts where the previous controller knew them, once the links of their switches are
// known. Their first frames correct it.
func (n *Network) Remember(hosts []topology.Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.earlier = hosts
}

// View calls f with the topology, which stays as it is meanwhile. f must not call the network.
func (n *Network) View(f func(g *topology.Graph)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n.g)
}

// Locate returns the host with an address.
func (n *Network) Locate(a netip.Addr) (topology.Host, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.g.Locate(a)
}

// Host returns the host with a MAC address.
func (n *Network) Host(mac packet.MAC) (topology.Host, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.g.Host(mac)
}

// Path returns the hops from a host to another, as packets of installed entries take them.
func (n *Network) Path(src, dst topology.Host) ([]topology.Hop, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.table.Hops(n.g, src, dst)
}

// Ensure installs the path from a host to another, and returns when it is in force.
func (n *Network) Ensure(ctx context.Context, src, dst topology.Host) error {
	return n.Paths.Ensure(ctx, src.MAC, dst.MAC)
}

// Counts returns the sums.
func (n *Network) Counts() Counts {
	c := &n.counts
	return Counts{
		Discovery: c.discovery.Load(), Forged: c.forged.Load(), Replayed: c.replayed.Load(), Old: c.old.Load(), Unsigned: c.unsigned.Load(),
		Malformed: c.malformed.Load(), Answered: c.answered.Load(), Flooded: c.flooded.Load(), Limited: c.limited.Load(),
		Forwarded: c.forwarded.Load(), Held: c.held.Load(), Dropped: c.dropped.Load(), Probes: c.probes.Load(),
	}
}

// Table returns the numbers of trees, entries and cached paths.
func (n *Network) Table() (trees, entries, pairs int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.table.Counts()
}

// Entries returns how many entries a switch has of this network.
func (n *Network) Entries(id uint64) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.table.Entries(id) + len(basics())
}

// Run keeps the network until ctx ends.
func (n *Network) Run(ctx context.Context) {
	n.mu.Lock()
	n.ctx = ctx
	n.mu.Unlock()
	n.tasks.Go(func() { n.reroute(ctx) })
	beat := time.NewTicker(n.o.Interval)
	defer beat.Stop()
	tick := time.NewTicker(min(n.o.Interval, 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			n.tasks.Wait()
			return
		case <-beat.C:
			n.beat()
		case now := <-tick.C:
			n.tick(now)
		}
	}
}

// tick lets links, hosts and packets that wait time out.
func (n *Network) tick(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed(n.g.Tick(now))
	n.counts.dropped.Add(uint64(n.waiting.expire(now)))
	for p, at := range n.repairs {
		if now.Sub(at) > repairPause {
			delete(n.repairs, p)
		}
	}
}

// changed follows a change of the topology. The caller holds mu.
func (n *Network) changed(c topology.Change) {
	if !c.Any() {
		return
	}
	for _, l := range c.Added {
		n.o.Log.Info("link is up", "from", l.From.String(), "to", l.To.String())
	}
	for _, l := range c.Removed {
		n.o.Log.Warn("link is down", "from", l.From.String(), "to", l.To.String())
	}
	if c.Usable {
		keys := n.table.Users(c.Removed)
		if len(c.Added) > 0 {
			keys = n.table.All()
		}
		n.mark(keys)
	}
	for _, h := range c.Gone {
		n.o.Log.Info("host is gone", "mac", h.MAC.String(), "at", h.At.String())
		n.table.Forget(h.MAC)
		delete(n.places, h.MAC)
		n.gone = append(n.gone, n.table.Keys(h.MAC)...)
	}
	for _, h := range c.Hosts {
		n.o.Log.Info("host is known", "mac", h.MAC.String(), "addresses", h.Addresses, "at", h.At.String())
		if was, ok := n.places[h.MAC]; ok && was == h.At {
			continue // with another address
		}
		n.places[h.MAC] = h.At
		n.again = append(n.again, n.table.Forget(h.MAC)...)
		n.mark(n.table.Keys(h.MAC))
		n.release(h)
	}
	for _, f := range n.watch {
		f(c)
	}
	n.awake()
}

func (n *Network) mark(keys []paths.Key) {
	for _, k := range keys {
		n.dirty[k] = true
	}
}

func (n *Network) awake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// retryPause is between attempts at a switch that does not take its entries.
const retryPause = 200 * time.Millisecond

// reroute follows the changes of the topology until ctx ends.
func (n *Network) reroute(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		n.mu.Lock()
		keys, again, gone := n.dirty, n.again, n.gone
		n.dirty, n.again, n.gone = map[paths.Key]bool{}, nil, nil
		n.mu.Unlock()
		list := make([]paths.Key, 0, len(keys))
		for k := range keys {
			list = append(list, k)
		}
		began := time.Now()
		err := n.Paths.Reroute(ctx, list)
		if len(list) > 0 {
			n.o.Log.Debug("paths follow the topology", "trees", len(list), "took", time.Since(began))
		}
		if err := n.Paths.Remove(ctx, gone); err != nil {
			n.o.Log.Warn("cannot remove paths", "err", err)
		}
		for _, p := range again {
			if err := n.Paths.Ensure(ctx, p.Src, p.Dst); err != nil {
				n.o.Log.Debug("a path of a host that has moved is missing", "err", err)
			}
		}
		if err == nil {
			continue
		}
		n.o.Log.Warn("cannot reroute", "err", err)
		n.mu.Lock()
		n.mark(list)
		n.mu.Unlock()
		n.tasks.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(retryPause):
				n.awake()
			}
		})
	}
}

// point is where a packet came in.
func point(p switches.Packet) topology.Point { return topology.Point{Switch: p.Switch, Port: p.Port} }

// out sends a frame out of a port.
func (n *Network) out(at topology.Point, frame []byte) { n.outs(at.Switch, frame, at.Port) }

func (n *Network) outs(id uint64, frame []byte, ports ...openflow.PortNo) {
	m := &openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: openflow.PortController, Data: frame}
	for _, p := range ports {
		m.Actions = append(m.Actions, openflow.ActionOutput{Port: p})
	}
	if err := n.sw.Send(id, m); err != nil {
		n.counts.dropped.Add(1)
	}
}
