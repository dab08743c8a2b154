package endhost

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"baton/experiments/load"
	"baton/lab"
)

// where selects the cases and measures of a contender.
type where func(c Case, measure string) bool

func always(Case, string) bool { return true }

// parts are the contenders of an experiment, by name, with the cases where they are informative.
type parts map[string]where

// of returns the listed contenders that take part, in order. An unknown name is a bug.
func (p parts) of(list []Contender) (contenders []Contender) {
	for _, c := range list {
		in, ok := p[c.Name]
		if !ok {
			continue
		}
		skips := c.Skips
		c.Skips = func(c Case, measure string) bool { return !in(c, measure) || skips != nil && skips(c, measure) }
		contenders = append(contenders, c)
	}
	if len(contenders) != len(p) {
		panic(fmt.Sprintf("endhost: %d contenders take part, %d are known", len(p), len(contenders)))
	}
	return contenders
}

// oneLink is the unmodified host: its default route is the first link's.
func oneLink() Contender {
	return Contender{Name: "one-link", Is: "the host without balancing: the default route of its first link", Start: func(ctx context.Context, t *Turn) error {
		t.Topology.front = front{one: true}
		return t.Topology.passes(ctx, t.Topology.used[:1])
	}}
}

// ideal is the paper's ideal load balancer.
func ideal() Contender {
	return Contender{Name: "ideal", Is: "arithmetic: one-link's time of the same round, divided by the ratio of the combined rate to that link's",
		Start: func(_ context.Context, t *Turn) error {
			t.Topology.front = front{ideal: true}
			return nil
		}}
}

// oracle is the best that these links, this server and this load can do.
func oracle() Contender {
	return Contender{Name: "oracle", Is: "no balancing by the network: the load generator binds each connection to the link that would have the whole file first, " +
		"by the links' rates and what is still to come by each",
		Start: func(ctx context.Context, t *Turn) error {
			t.Topology.front = front{bound: true}
			if err := t.Topology.routeBySource(ctx, t); err != nil {
				return err
			}
			return t.Topology.passes(ctx, t.Topology.used)
		}}
}

// ecmp is the kernel's own balancing.
func ecmp() Contender {
	return Contender{Name: "ecmp", Is: "the kernel's multipath route, weighted, by the hash of addresses and ports (`fib_multipath_hash_policy` 1, " +
		"`ignore_routes_with_linkdown`)",
		Start: func(ctx context.Context, t *Turn) error {
			t.Topology.front = front{}
			if err := t.Topology.sysctls(t, "net.ipv4.fib_multipath_hash_policy", "net.ipv4.conf.all.ignore_routes_with_linkdown"); err != nil {
				return err
			}
			// A response arrives over the link of its address, as with real providers, so the request must use it, too.
			if err := t.Topology.routeBySource(ctx, t); err != nil {
				return err
			}
			return t.Topology.multipathRoute(ctx, t)
		}}
}

// multipathRoute makes the route for the turn.
func (t *Topology) multipathRoute(ctx context.Context, turn *Turn) error {
	route := []string{"default", "metric", strconv.Itoa(firstMetric - 1)}
	for _, u := range t.used {
		route = append(route, "nexthop", "via", u.near.String(), "dev", u.name(), "weight", strconv.Itoa(u.weight()))
	}
	if _, err := t.Host.Exec(ctx, "ip", append([]string{"route", "add"}, route...)...); err != nil {
		return err
	}
	turn.OnEnd(func() error {
		_, err := t.Host.Exec(context.Background(), "ip", append([]string{"route", "del"}, route...)...)
		return err
	})
	return t.passes(ctx, t.used)
}

// weight is the link's share: Mbit/s, at least 1.
func (u *uplink) weight() int { return max(int(u.capacity.Load()/1e6), 1) }

// multipath is MPTCP.
func multipath() Contender {
	return Contender{Name: "mptcp", Is: "MPTCP from the host to a server that has it (Go's net/http in place of nginx), a subflow for each link",
		Skips: func(_ Case, measure string) bool { return measure == benchName }, // ab knows no MPTCP
		Start: func(ctx context.Context, t *Turn) error {
			t.Topology.front = front{multipath: true}
			if err := t.Topology.routeBySource(ctx, t); err != nil {
				return err
			}
			if err := t.Topology.endpoints(ctx, t); err != nil {
				return err
			}
			return t.Topology.passes(ctx, t.Topology.used)
		}}
}

// endpoints lets connections have subflows by all links of the case.
func (t *Topology) endpoints(ctx context.Context, turn *Turn) error {
	run := func(ctx context.Context, h *lab.Host, args ...string) error {
		_, err := h.Exec(ctx, "ip", append([]string{"mptcp"}, args...)...)
		return err
	}
	const most = "8" // the kernel's limit
	turn.OnEnd(func() error {
		ctx := context.Background()
		const usual = "2" // the kernel's default
		return errors.Join(run(ctx, t.Host, "endpoint", "flush"), run(ctx, t.Host, "limits", "set", "subflow", usual),
			run(ctx, t.Server, "limits", "set", "subflow", usual))
	})
	for _, h := range []*lab.Host{t.Host, t.Server} {
		if err := run(ctx, h, "limits", "set", "subflow", most); err != nil {
			return err
		}
	}
	for i, u := range t.used {
		if err := run(ctx, t.Host, "endpoint", "add", u.address.String(), "dev", u.name(), "id", strconv.Itoa(i+1), "subflow"); err != nil {
			return err
		}
	}
	return nil
}

// routeBySource has packets with a link's address leave by that link, for the turn.
func (t *Topology) routeBySource(ctx context.Context, turn *Turn) error {
	const first = 1000 // of tables and priorities
	run := func(ctx context.Context, args ...string) error {
		_, err := t.Host.Exec(ctx, "ip", args...)
		return err
	}
	for i, u := range t.used {
		number := strconv.Itoa(first + i)
		if err := run(ctx, "rule", "add", "from", u.address.String(), "lookup", number, "priority", number); err != nil {
			return err
		}
		turn.OnEnd(func() error {
			ctx := context.Background()
			return errors.Join(run(ctx, "rule", "del", "priority", number), run(ctx, "route", "flush", "table", number))
		})
		if err := run(ctx, "route", "add", "default", "via", u.near.String(), "dev", u.name(), "table", number); err != nil {
			return err
		}
	}
	return nil
}

// sysctls sets switches of the host to 1, for the turn.
func (t *Topology) sysctls(turn *Turn, names ...string) error {
	for _, name := range names {
		t.Host.Sysctl(name, "1")
		turn.OnEnd(func() error {
			t.Host.Sysctl(name, "0")
			return nil
		})
	}
	return nil
}

// passes waits until connections use each of the case's links, and no other. A hash may take a few tries.
func (t *Topology) passes(ctx context.Context, over []*uplink) error {
	const less = 3000 // bytes that may come in addition
	t.begun.Store(0)
	f := kilobytes(1)
	return lab.Poll(patience, func() error {
		before, err := t.received()
		if err != nil {
			return err
		}
		n := int64(8 * len(over))
		r, err := t.ask(load.Options{Path: f.path, Body: f.body, Connections: 2 * len(over), Requests: n, Timeout: time.Second})
		if err == nil && r.Requests < n {
			err = fmt.Errorf("%d of %d requests were answered: %w", r.Requests, n, r.First)
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		after, err := t.received()
		for i := range after {
			got := after[i] - before[i]
			switch complete := i < len(over); {
			case complete && got < uint64(len(f.body)):
				return fmt.Errorf("%s is not used", t.used[i].name())
			case !complete && got > less:
				return fmt.Errorf("%s is used", t.used[i].name())
			}
		}
		return err
	})
}
