// Package clientaddress measures what it costs to tell servers the clients' addresses: Baton's PROXY header and field
// beside none, and beside what two proxies do.
package clientaddress

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"baton/experiments"
	"baton/experiments/handoff"
	"baton/lab/peers"
)

type (
	topology  = handoff.Topology
	contender = handoff.Contender
	turn      = handoff.Turn
)

// proxyPort is where the surrogates expect a PROXY header; port 80 is without.
const proxyPort = 82

// Experiment uses the topology of the experiment handoff.
func Experiment() experiments.Experiment[*topology] {
	return experiments.Experiment[*topology]{
		Name:     "client-address",
		Question: "What does it cost to tell servers the clients' addresses?",
		Method: "The topology and clients of `handoff`. Each surrogate's nginx has a port that expects the PROXY protocol beside the usual one. A header is told once for a " +
			"connection, so Baton's legs serve one client each: it is compared with legs that do so without a header, and with legs that are used again. " +
			"A field goes into each request's head, on legs that are used again.",
		Contenders: []contender{
			baton("baton", "legs used again, no header", "always", ""),
			baton("baton-once", "legs that serve one client (`reuse: never`), no header", "never", ""),
			baton("baton-proxy-v2", "`client_address: proxy-v2`", "", "proxy-v2"),
			baton("baton-forwardfor", "`client_address: x-forwarded-for`; legs used again", "always", "x-forwarded-for"),
			haproxyHeader(),
			haproxyForwarded(),
		},
		Measures: []handoff.Measure{handoff.KeepAlive(), handoff.ConnectionPerRequest(), handoff.FirstByte()},
		IPv6:     true,
		Build: func(_ context.Context, s *experiments.Setup) (*topology, error) {
			t := handoff.Build(s, handoff.Layout{IPv6: s.Options.IPv6})
			for _, h := range t.Surrogates {
				p := peers.Nginx(h, peers.NginxOptions{Name: h.Name() + "-proxied", Port: proxyPort + 1, Connections: 8000, NoAccessLog: true,
					Server: fmt.Sprintf("listen %[1]d proxy_protocol;\nlisten [::]:%[1]d proxy_protocol;", proxyPort)})
				s.Serves(p.Process, p.Version)
			}
			return t, nil
		},
		Claims: []experiments.Claim{
			{What: "connection per request, header beside none", Unit: "×", Ours: ratio("connection per request", "baton-proxy-v2", "baton-once"), AtLeast: 0.97},
			{What: "keep-alive, header beside none", Unit: "×", Ours: ratio("keep-alive", "baton-proxy-v2", "baton-once"), AtLeast: 0.97},
			{What: "connection per request, header beside HAProxy's", Unit: "×", Ours: ratio("connection per request", "baton-proxy-v2", "haproxy-proxy-v2")},
			{What: "keep-alive, header beside HAProxy's", Unit: "×", Ours: ratio("keep-alive", "baton-proxy-v2", "haproxy-proxy-v2")},
			{What: "connection per request, field beside none", Unit: "×", Ours: ratio("connection per request", "baton-forwardfor", "baton"), AtLeast: 0.97},
			{What: "keep-alive, field beside none", Unit: "×", Ours: ratio("keep-alive", "baton-forwardfor", "baton"), AtLeast: 0.97},
			{What: "connection per request, field beside HAProxy's", Unit: "×", Ours: ratio("connection per request", "baton-forwardfor", "haproxy-forwardfor"), AtLeast: 1.5},
			{What: "keep-alive, field beside HAProxy's", Unit: "×", Ours: ratio("keep-alive", "baton-forwardfor", "haproxy-forwardfor"), AtLeast: 1.5},
		},
		Caveats: []string{"The clients, the router and the servers share the processors."},
	}
}

func ratio(measure, contender, base string) experiments.Figure {
	return experiments.RatioOf("", measure, contender, base)
}

// backends are the surrogates' addresses, with another port if there is a header.
func backends(t *topology, header bool) []netip.AddrPort {
	var list []netip.AddrPort
	for _, a := range t.Addresses() {
		if header {
			a = netip.AddrPortFrom(a.Addr(), proxyPort)
		}
		list = append(list, a)
	}
	return list
}

func baton(name, is, reuse, header string) contender {
	return contender{Name: name, Is: is, Start: func(_ context.Context, t *turn) error {
		return t.Topology.StartRouter(t, config(t.Topology, reuse, header))
	}}
}

func config(t *topology, reuse, header string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "control: %q\nmetrics: %q\nstate: %q\n", filepath.Join(t.Lab.Dir(), "router.sock"), "127.0.0.1:9464", filepath.Join(t.Lab.BPFFS(), "router"))
	fmt.Fprintf(&b, "vips:\n  - {address: %q, interfaces: [%s], routes: [{pool: all}]}\npools:\n  all:\n    legs: {min: 16, max: 4000}\n", t.VIP(), t.ClientSide.Name)
	for key, value := range map[string]string{"reuse": reuse, "client_address": header} {
		if value != "" {
			fmt.Fprintf(&b, "    %s: %s\n", key, value)
		}
	}
	b.WriteString("    surrogates:\n")
	for i, a := range backends(t, strings.HasPrefix(header, "proxy-")) {
		fmt.Fprintf(&b, "      - {name: s%d, address: %q}\n", i+1, a)
	}
	return b.String()
}

func haproxyHeader() contender {
	return haproxy("haproxy-proxy-v2", "HTTP mode, `send-proxy-v2`: a connection to a surrogate serves one client", "http-reuse never", " send-proxy-v2", true)
}

func haproxyForwarded() contender {
	return haproxy("haproxy-forwardfor", "HTTP mode, `option forwardfor`, `http-reuse always`", "http-reuse always\n\toption forwardfor", " pool-max-conn 1000", false)
}

func haproxy(name, is, options, server string, header bool) contender {
	return contender{Name: name, Is: is, Start: func(_ context.Context, t *turn) error {
		config := "global\n\tmaxconn 8000\n\ttune.idle-pool.shared on\ndefaults\n\tmode http\n\toption http-keep-alive\n\t" + options +
			"\n\ttimeout connect 5s\n\ttimeout client 50s\n\ttimeout server 50s\nfrontend vip\n\tbind :::80 v4v6\n\tdefault_backend all\nbackend all\n\tbalance roundrobin\n"
		for i, a := range backends(t.Topology, header) {
			config += fmt.Sprintf("\tserver s%d %s%s\n", i+1, a, server)
		}
		handoff.OnVIP(t, func() *peers.Server { return peers.HAProxy(t.Topology.Router, peers.HAProxyOptions{Config: config}) })
		return nil
	}}
}
