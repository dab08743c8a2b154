package adversary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"baton/api"
	"baton/experiments/adversary/script"
	"baton/sockdiag"
)

// Batch is the scripts between two pauses.
type Batch struct {
	Class    script.Class
	Seed     uint64 // of drawn scripts
	Scripts  []script.Script
	Findings []Finding
	Counts   map[Kind]int
	Dump     string // the contender's counters, if there is a finding

	Played, Segments, Requests int64
	Longest, Took              time.Duration
}

// String says how to repeat the batch and what was found.
func (b Batch) String() string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s: %d scripts, %d segments, %d requests of innocents, the longest %v, in %v", b.name(), b.Played, b.Segments, b.Requests,
		b.Longest.Round(time.Millisecond), b.Took.Round(100*time.Millisecond))
	if len(b.Findings) == 0 {
		return t.String()
	}
	t.WriteString("\n")
	for _, k := range slices.Sorted(maps.Keys(b.Counts)) {
		fmt.Fprintf(&t, " %d %s", b.Counts[k], k)
	}
	said := map[Kind]int{}
	for _, f := range b.Findings {
		if said[f.Kind]++; said[f.Kind] <= 3 {
			fmt.Fprintf(&t, "\n  %s: %s", f.Kind, f.What)
		}
	}
	return t.String()
}

func (b Batch) name() string {
	if b.Seed == 0 && len(b.Scripts) > 0 {
		return fmt.Sprintf("%s %q", b.Class, b.Scripts[0].Name)
	}
	return fmt.Sprintf("%s -seed %d", b.Class, b.Seed)
}

// campaign plays batches against a contender. After a finding the contender is restarted, as the damage may persist.
type campaign struct {
	n       *network
	with    contender
	program string
	uses    func(version string) // called with the versions of programs; may be nil
	running subject
}

func (c *campaign) stop() error {
	if c.running == nil {
		return nil
	}
	errs := []error{c.running.stop()}
	c.running = nil
	for _, s := range c.n.sites {
		errs = append(errs, s.forget())
	}
	return errors.Join(errs...)
}

// aftermath is how long innocents continue after the last segment: damaged legs get their next clients.
const aftermath = 1200 * time.Millisecond

// looks is the interval of checks.
const lookEach = 300 * time.Millisecond

// run plays a batch among innocents.
func (c *campaign) run(ctx context.Context, b Batch) (Batch, error) {
	if c.running == nil {
		var err error
		if c.running, err = c.with.start(ctx, c.n, c.program); err != nil {
			return b, err
		}
		if v := c.running.version(); c.uses != nil && v != "" {
			c.uses(v)
		}
	}
	l := c.n.ledger
	l.take()
	l.scripts.Store(0)
	l.segments.Store(0)
	l.requests.Store(0)
	l.longest.Store(0)
	began := time.Now()
	c.n.sweepTags()
	c.n.crowd.forget()
	people := c.n.come(ctx, !script.Forged(b.Scripts))
	looking := make(chan struct{})
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		c.look(ctx, looking)
	}()
	pause(100 * time.Millisecond)
	c.n.play(ctx, b.Scripts)
	pause(aftermath)
	people.leave()
	close(looking)
	<-looked
	c.n.crowd.settle()
	if ctx.Err() == nil {
		c.running.check(ctx)
		c.running.settle(ctx, b)
		c.paths(ctx, b.Class)
	}
	b.Findings, b.Counts = l.take()
	b.Played, b.Segments, b.Requests = l.scripts.Load(), l.segments.Load(), l.requests.Load()
	b.Longest, b.Took = time.Duration(l.longest.Load()), time.Since(began)
	if len(b.Findings) > 0 {
		b.Dump = c.running.dump()
		return b, errors.Join(c.stop(), ctx.Err())
	}
	return b, ctx.Err()
}

// calm runs the innocents alone: findings then are due to the setup, not the adversary.
func (c *campaign) calm(ctx context.Context) error {
	b, err := c.run(ctx, Batch{Class: script.Stranger})
	if err == nil && len(b.Findings) > 0 {
		err = fmt.Errorf("innocents suffer without an adversary: %v\n%s", b, b.Dump)
	}
	return err
}

// look checks the invariants that must always hold, until it is stopped.
func (c *campaign) look(ctx context.Context, end <-chan struct{}) {
	t := time.NewTicker(lookEach)
	defer t.Stop()
	for {
		select {
		case <-end:
			return
		case <-t.C:
		}
		c.running.check(ctx)
		c.tagged()
	}
}

// tagged finds frames that left with the adversary's VLAN tag.
func (c *campaign) tagged() {
	for _, m := range c.n.tags {
		if frames := m.take(); frames > 0 {
			c.n.ledger.add(Tag, "%d frames with a VLAN tag came to %s", frames, m.side.Host.Name())
		}
	}
}

func (n *network) sweepTags() {
	for _, m := range n.tags {
		m.take()
	}
}

// leastMTU is the least path MTU (bytes) that a client's ICMP errors about its own packets in flight may cause at a surrogate.
const leastMTU = 552

// paths checks the surrogates' path MTU to the router, and resets it. An attacker's errors about unknown packets must have no
// effect.
func (c *campaign) paths(ctx context.Context, class script.Class) {
	for _, s := range c.n.sites {
		mtu, err := pathMTU(s.Host, s.router)
		if err != nil {
			c.n.ledger.add(PathMTU, "%s: %v", s.name, err)
		}
		if mtu > 0 && (mtu < leastMTU || class == script.Stranger) {
			c.n.ledger.add(PathMTU, "%s believes in a path MTU of %d to all that come by the router", s.name, mtu)
		}
		if mtu > 0 {
			_, _ = s.Exec(ctx, "ip", "route", "flush", "cache")
		}
	}
}

// settle waits for the end of sessions and forgets them.
func (c *crowd) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.sessions)
}

// forget forgets their owners.
func (c *crowd) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.whose)
}

// connections counts the legs that a surrogate has.
func (n *network) connections(s api.RouterSurrogate) (count int, err error) {
	for _, at := range n.sites {
		if at.address.Addr() != s.Address.Addr() {
			continue
		}
		err = at.connections(s.Address.Port(), func(c *sockdiag.TCP) {
			if c.Remote.Port() < firstOwn {
				count++
			}
		})
	}
	return count, err
}

// packets counts the packets received on the router's interfaces towards clients and surrogates.
func (n *network) packets() (sum uint64) {
	links, err := n.router.Netlink().LinkList()
	if err != nil {
		return 0
	}
	for _, l := range links {
		if a := l.Attrs(); strings.HasPrefix(a.Name, "eth") && a.Statistics != nil {
			sum += a.Statistics.RxPackets
		}
	}
	return sum
}
