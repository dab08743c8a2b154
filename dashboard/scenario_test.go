package dashboard

import (
	"fmt"
	"net/netip"
	"time"

	"baton/api"
)

// service is the request router's address.
const service = "10.0.0.10:80"

// scenario is the paper's network with some sessions and a handoff that is over.
func scenario(now time.Time) map[string]any {
	first := handoff(17, now.Add(-40*time.Second))
	return map[string]any{
		"topology":   line(3, now),
		"sessions":   sessions(now),
		"handoffs":   []api.ControllerHandoff{failed(15, now.Add(-3*time.Minute)), handoff(16, now.Add(-70*time.Second)), first},
		"surrogates": surrogates(),
		"decisions":  decisions(now),
		"rates":      rates(now),
	}
}

// line is clients at an access switch, others behind it, and a core with the request router and the surrogates.
func line(switches int, now time.Time) api.ControllerTopology {
	t := api.ControllerTopology{}
	for i := 1; i <= switches; i++ {
		s := api.ControllerSwitch{
			ID: fmt.Sprintf("%016x", i), Name: fmt.Sprintf("transit-%d", i-1), Maker: "Open vSwitch", Role: "master", Up: true,
			Since: now.Add(-2 * time.Hour), Remote: fmt.Sprintf("192.0.2.%d:40112", i), Flows: 14 + i,
			Ports: []api.ControllerPort{
				{Number: 1, Name: "eth1", MAC: fmt.Sprintf("02:00:00:00:%02x:01", i), Up: true, Faces: "switch"},
				{Number: 2, Name: "eth2", MAC: fmt.Sprintf("02:00:00:00:%02x:02", i), Up: true, Faces: "switch"},
			},
		}
		switch i {
		case 1:
			s.Name = "access"
		case switches:
			s.Name, s.Core, s.Maker = "core", true, "Baton"
		}
		t.Switches = append(t.Switches, s)
		if i > 1 {
			t.Links = append(t.Links, between(i-1, i, now)...)
		}
	}
	at := func(kind, name, address string, sw, port int) api.ControllerHost {
		a := netip.MustParseAddr(address)
		b := a.As4()
		return api.ControllerHost{
			Name: name, Kind: kind, MAC: fmt.Sprintf("02:01:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3]), Addresses: []netip.Addr{a},
			At: api.ControllerPoint{Switch: fmt.Sprintf("%016x", sw), Port: uint32(port)}, Seen: now,
		}
	}
	t.Hosts = []api.ControllerHost{
		at("client", "client1", "10.0.1.1", 1, 11), at("client", "client2", "10.0.1.2", 1, 12), at("client", "client3", "10.0.1.3", 1, 13),
		at("router", "router", "10.0.0.10", switches, 11), at("surrogate", "se1", "10.0.0.21", switches, 12), at("surrogate", "se2", "10.0.0.22", switches, 13),
	}
	if switches > 2 {
		t.Hosts = append(t.Hosts, at("surrogate", "se3", "10.0.0.23", 2, 11))
	}
	return t
}

// between is a link in both directions.
func between(a, b int, now time.Time) []api.ControllerLink {
	from := api.ControllerPoint{Switch: fmt.Sprintf("%016x", a), Port: 2}
	to := api.ControllerPoint{Switch: fmt.Sprintf("%016x", b), Port: 1}
	return []api.ControllerLink{{From: from, To: to, Since: now}, {From: to, To: from, Since: now}}
}

func leg(surrogate int) api.RouterLeg {
	return api.RouterLeg{
		Local:  netip.MustParseAddrPort(fmt.Sprintf("10.0.0.10:%d", 20000+surrogate)),
		Remote: netip.MustParseAddrPort(fmt.Sprintf("10.0.0.2%d:80", surrogate)),
	}
}

func sessions(now time.Time) []api.ControllerSession {
	states := []api.ControllerSessionState{
		api.ControllerHandedOff, api.ControllerHandedOff, api.ControllerEstablished, api.ControllerHandedOff, api.ControllerRequested,
		api.ControllerHandshake, api.ControllerHandedOff, api.ControllerClosed,
	}
	var all []api.ControllerSession
	for i, state := range states {
		s := api.ControllerSession{
			Client:  netip.MustParseAddrPort(fmt.Sprintf("10.0.1.%d:%d", i%3+1, 41000+17*i)),
			Service: netip.MustParseAddrPort(service),
			State:   state,
			Since:   now.Add(-time.Duration(i*i+1) * 7 * time.Second),
		}
		if state == api.ControllerHandedOff || state == api.ControllerClosed {
			s.Surrogate, s.Leg, s.Handoff = fmt.Sprintf("se%d", i%3+1), leg(i%3+1), uint64(17-i%3)
		}
		all = append(all, s)
	}
	return all
}

// steps are those of the paper's figure 6.
func steps() []api.ControllerStep {
	var all []api.ControllerStep
	at := time.Duration(0)
	add := func(after time.Duration, kind, from, to, label string) {
		at += after
		all = append(all, api.ControllerStep{At: at, Kind: kind, From: from, To: to, Label: label})
	}
	µs := time.Microsecond
	add(0, "packet", "client", "controller", "SYN")
	add(90*µs, "packet-out", "controller", "router", "SYN")
	add(110*µs, "packet", "router", "controller", "SYN ACK")
	add(70*µs, "packet-out", "controller", "client", "SYN ACK")
	add(240*µs, "packet", "client", "router", "ACK")
	add(60*µs, "packet", "client", "controller", "GET /gallery/12.jpg")
	add(80*µs, "packet-out", "controller", "router", "GET /gallery/12.jpg")
	add(30*µs, "flow-mod", "controller", "core", "flow mod 1")
	add(120*µs, "call", "router", "controller", "setrequestsize 78")
	add(40*µs, "call", "router", "controller", "getmatchingsess")
	add(30*µs, "call", "controller", "router", "leg 10.0.0.10:20002")
	add(60*µs, "call", "router", "controller", "setrequestsize 82")
	add(50*µs, "packet", "router", "controller", "request, 82 bytes")
	add(40*µs, "flow-mod", "controller", "core", "flow mod 2")
	add(5*µs, "flow-mod", "controller", "access", "flow mod 3")
	add(5*µs, "flow-mod", "controller", "core", "flow mod 4")
	add(5*µs, "flow-mod", "controller", "access", "flow mod 5")
	add(5*µs, "flow-mod", "controller", "core", "flow mod 6")
	add(5*µs, "flow-mod", "controller", "core", "flow mod 7")
	add(180*µs, "barrier", "core", "controller", "barrier reply")
	add(20*µs, "packet-out", "controller", "surrogate", "request, 82 bytes")
	add(310*µs, "packet", "surrogate", "client", "acknowledgement")
	add(60*µs, "packet-out", "controller", "router", "RST of the client's session")
	add(10*µs, "packet-out", "controller", "router", "RST of the leg")
	return all
}

func handoff(id uint64, began time.Time) api.ControllerHandoff {
	return api.ControllerHandoff{
		ID: id, Client: netip.MustParseAddrPort("10.0.1.2:41017"), Service: netip.MustParseAddrPort(service), Leg: leg(2), Surrogate: "se2",
		Request: "GET /gallery/12.jpg", Began: began, Took: 1225*time.Microsecond + time.Duration(id%7)*40*time.Microsecond, Steps: steps(),
	}
}

// failed is a handoff that ended at the barrier.
func failed(id uint64, began time.Time) api.ControllerHandoff {
	h := handoff(id, began)
	h.Client = netip.MustParseAddrPort("10.0.1.1:41000")
	h.Took, h.Steps, h.Failure = 0, h.Steps[:15], "access refused flow mod 3: table full (OFPFMFC_TABLE_FULL)"
	return h
}

func surrogates() []api.ControllerSurrogate {
	return []api.ControllerSurrogate{
		{Name: "se1", Site: "bratislava", Address: netip.MustParseAddrPort("10.0.0.21:80"), Up: true, State: "in-service", Weight: 100, Sessions: 214, Handoffs: 18204, Legs: 31, Rate: 12.4},
		{Name: "se2", Site: "bratislava", Address: netip.MustParseAddrPort("10.0.0.22:80"), Up: true, State: "in-service", Weight: 50, Sessions: 105, Handoffs: 9077, Legs: 32, Rate: 6.1},
		{Name: "se3", Site: "kosice", Address: netip.MustParseAddrPort("10.0.0.23:80"), Up: true, State: "maintenance", Weight: 100, Sessions: 3, Handoffs: 4410, Legs: 0},
		{Name: "se4", Site: "kosice", Address: netip.MustParseAddrPort("10.0.0.24:80"), Error: "health check: connection refused", State: "in-service", Weight: 100},
	}
}

func decisions(now time.Time) []api.RoutingDecision {
	client := netip.MustParseAddr
	return []api.RoutingDecision{
		{
			Time: now.Add(-3 * time.Minute), Method: "dns", Client: client("10.0.1.1"), Name: "cdn.dizp.bt", Site: "bratislava", Surrogate: "se1",
			Because: []string{"coverage zone 10.0.1.0/24: bratislava", "se1 and se2 are in service", "consistent hash of the name: se1"},
		},
		{
			Time: now.Add(-70 * time.Second), Method: "handoff", Client: client("10.0.1.2"), Name: "cdn.dizp.bt", Path: "/gallery/12.jpg", Site: "bratislava", Surrogate: "se2",
			Because: []string{"coverage zone 10.0.1.0/24: bratislava", "weights 100 and 50", "fewest hops: se2"},
		},
		{
			Time: now.Add(-50 * time.Second), Method: "redirect", Client: client("2001:db8:7::19"), Name: "cdn.dizp.bt", Path: "/video/1.mp4?quality=high", Site: "kosice", Surrogate: "se3",
			Because: []string{"no coverage zone", "database: SK, kosice", "consistent hash of the path and quality: se3"},
		},
		{
			Time: now.Add(-40 * time.Second), Method: "handoff", Client: client("10.0.1.3"), Name: "cdn.dizp.bt", Path: "/big", Site: "kosice",
			Because: []string{"coverage zone 10.0.1.3/32: kosice", "se4 is down: health check: connection refused", "spill-over is off"},
		},
	}
}

// rates are five minutes of what a controller measures.
func rates(now time.Time) []api.ControllerRates {
	var all []api.ControllerRates
	for i := range 60 {
		wave := float64((i*37)%23)/4 + float64(i)/8
		all = append(all, api.ControllerRates{
			Time: now.Add(time.Duration(i-60) * 5 * time.Second), PacketIns: 40 + 4*wave, FlowMods: 90 + 7*wave, Handshakes: 12 + wave,
			Handoffs: 10 + wave/2, Failures: float64(i/30) / 5, Surrogates: map[string]float64{"se1": 6 + wave/4, "se2": 4 + wave/4, "se3": 0, "se4": 0},
		})
	}
	return all
}
