package redirection

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"baton/experiments"
	"baton/experiments/cdn"
	"baton/lab/peers"
)

// byController is where the controller hands sessions over.
var byController = netip.MustParseAddrPort(cdn.ReactiveAt + ":8084")

// contenders are all ways to a surrogate, the baseline first, and the controller itself.
func contenders() []contender {
	transfers := []string{start, first, handshake, redirection, keepAlive, download, bandwidth}
	vip := func(at string) front { return front{target: netip.MustParseAddrPort(at)} }
	followed := vip(cdn.VIP + ":8083")
	followed.follow = true
	return []contender{
		{Name: direct, Is: "the client knows the surrogate's address", Start: begin(vip(surrogate), nil), Skips: but(transfers...)},
		{Name: native, Is: "`baton router`, mode `handoff`: the kernel of the request router hands over", Start: begin(vip(cdn.VIP+":8082"), nil),
			Skips: but(append(transfers, killed)...)},
		{Name: redirect, Is: "`baton router`, mode `redirect`", Start: begin(followed, nil), Skips: but(transfers...)},
		{Name: dnsRouting, Is: "`baton nameserver` answers with the surrogate's address; each request asks anew", Start: begin(front{name: "near.cdn." + cdn.Domain}, nil),
			Skips: but(start, first)},
		{Name: haproxy, Is: "HAProxy on the request router, HTTP mode, `http-reuse always`", Start: begin(vip(proxyAt), proxy), Skips: but(transfers...)},
		{Name: reactive, Is: "the controller joins the sessions by flow mods; paths that are installed stay", Start: begin(front{target: byController}, nil),
			Skips: but(append(transfers, mods, killed)...)},
		{Name: anew, Is: "the same with `paths: {cache: false}`: each request installs its paths", Start: begin(front{target: byController}, uncached),
			Skips: but(start, mods)},
		{Name: stripped, Is: "reactive with `options: strip`: no window scale, SACK and timestamps, as in the paper", Start: begin(front{target: byController}, strip),
			Skips: but(download, bandwidth)},
		{Name: controller, Is: "`baton controller`", Start: begin(front{}, nil), Skips: but(goodput, packets, discovery, cut)},
	}
}

// begin starts a contender: clients ask a front, once prepare, if any, has made it ready. Forwarders and request router are counted as its own; the
// controller is not, as some measures replace it.
func begin(f front, prepare func(context.Context, *turn) error) func(context.Context, *turn) error {
	return func(ctx context.Context, t *turn) error {
		t.Topology.front, t.Topology.download = f, 0
		if prepare != nil {
			if err := prepare(ctx, t); err != nil {
				return err
			}
		}
		t.Runs(t.Topology.Forwarders, "")
		t.Runs(t.Topology.Routing, "")
		return nil
	}
}

// but skips all measures other than some, and, where the line is long, those that its length says nothing about.
func but(measures ...string) func(experiments.Case, string) bool {
	long := []string{start, first, mods, discovery}
	return func(c experiments.Case, measure string) bool {
		return !slices.Contains(measures, measure) || !short(c) && !slices.Contains(long, measure)
	}
}

func proxy(_ context.Context, t *turn) error {
	s := peers.HAProxy(t.Topology.Router, peers.HAProxyOptions{Port: int(netip.MustParseAddrPort(proxyAt).Port()), Backends: []string{surrogate}})
	t.Runs(s.Process, s.Version)
	t.OnEnd(func() error { return s.Process.Stop(2 * time.Second) })
	return nil
}

// uncached has the controller install each path anew.
func uncached(ctx context.Context, t *turn) error {
	const off = "\npaths: {cache: false}\n"
	t.OnEnd(func() error {
		return t.Topology.Reconfigure(context.WithoutCancel(ctx), func(text string) string { return strings.Replace(text, off, "", 1) })
	})
	return t.Topology.Reconfigure(ctx, func(text string) string { return text + off })
}

// strip has the controller remove options from handshakes, also from those of the legs that it finds.
func strip(ctx context.Context, t *turn) error {
	const key = "cdn:\n"
	change := func(ctx context.Context, from, to string) error {
		if err := t.Topology.Replace(ctx, func(text string) string { return strings.Replace(text, from, to, 1) }); err != nil {
			return err
		}
		return t.Topology.Joined(ctx)
	}
	t.OnEnd(func() error { return change(context.WithoutCancel(ctx), key+"  options: strip\n", key) })
	return change(ctx, key, key+"  options: strip\n")
}
