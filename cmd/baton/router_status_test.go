package main

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"baton/api"
)

// proxying is a router whose first VIP is proxied, as its clients come in on another interface. Its table is full.
func proxying() *api.RouterStatus {
	vip := func(address string, p *api.RouterProxied) api.RouterVIP {
		return api.RouterVIP{
			Address: netip.MustParseAddrPort(address), Mode: "handoff", Protocol: "http", Routes: 1, Proxied: p,
		}
	}
	return &api.RouterStatus{
		Sessions: 7, Limit: 8, Places: 8, Full: true,
		VIPs: []api.RouterVIP{
			vip("192.0.2.10:80", &api.RouterProxied{
				Live: 2, Connections: map[string]uint64{"interface": 50, "no leg": 0, "no place": 3},
				Requests: 60, Interfaces: []string{"eth0"},
			}),
			vip("192.0.2.11:80", &api.RouterProxied{Connections: map[string]uint64{"interface": 0}}),
		},
	}
}

func TestStatusOfProxied(t *testing.T) {
	const unused = "  proxied: 0 connections (0 live), 0 requests\n"
	for _, wide := range []bool{false, true} {
		var out bytes.Buffer
		if err := printRouter(&out, proxying(), wide, time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"7 of 8 sessions in use\n",
			"the table of sessions is full: clients that find no idle leg are proxied; raise limits.sessions\n",
			"VIP 192.0.2.10:80, handoff http, 1 route\n" +
				"  proxied: 53 connections (2 live), 60 requests; interface: 50, no place: 3\n" +
				"  clients come in on eth0, which is not in its interfaces\n",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("wide %v: no %q in\n%s", wide, want, &out)
			}
		}
		if strings.Contains(out.String(), unused) != wide {
			t.Errorf("wide %v: of a VIP that proxies nothing:\n%s", wide, &out)
		}
	}
}

func TestTopOfProxied(t *testing.T) {
	status := func(context.Context) (api.RouterStatus, error) {
		s := *proxying()
		s.Process = api.Process{Part: "router", PID: 1}
		return s, nil
	}
	socket := serve(t, api.Backend{Part: api.RouterBackend{Status: status}})
	_, out, errs := said(t, "top", "--once", "--control", socket)
	var line string
	for l := range strings.Lines(out) {
		if strings.Contains(l, "router proxied ") {
			line += strings.Join(strings.Fields(l), " ")
		}
	}
	if line != "router proxied 192.0.2.10:80 interface 2 0/s 53 0 B/s" {
		t.Errorf("%q in\n%s%s", line, out, errs)
	}
}
