package metrics

import (
	"fmt"
	"maps"
	"slices"

	"baton/api"
	"baton/exporter"
	"baton/router/outcome"
)

// Series exports a router's status.
func Series(s *api.RouterStatus) []exporter.Number {
	var n exporter.Numbers
	for _, verdict := range slices.Sorted(maps.Keys(s.Packets)) {
		n.Counter("packets_total", "Packets by verdict.", s.Packets[verdict], "verdict", verdict)
	}
	n.GaugeInt("sessions", "Sessions that the kernel has spliced.", s.Sessions)
	n.GaugeInt("session_places", "Places of the table of sessions that are in use, by sessions and legs.", s.Places)
	n.GaugeInt("sessions_limit", "Places of the table of sessions: limits.sessions.", s.Limit)
	for _, p := range s.Pools {
		for i := range p.Surrogates {
			ofSurrogate(&n, p.Name, &p.Surrogates[i])
		}
		for i := range p.Discover {
			ofSource(&n, p.Name, &p.Discover[i])
		}
	}
	left := 0
	for _, v := range s.VIPs {
		left += v.LeftOut
		for _, c := range v.Certificates {
			n.Gauge("own_certificate_expires_timestamp_seconds", "When a certificate of the router's own expires.", float64(c.Expires.Unix()), "vip", v.Address.String(), "file", c.File)
		}
		ofController(&n, v.Address.String(), v.Controller)
		ofProxied(&n, v.Address.String(), v.Proxied)
	}
	for _, o := range s.Overlaps {
		n.GaugeInt("certificate_overlaps", "Names by which certificates of two pools of a VIP overlap: browsers may send requests to the wrong one.", len(o.Names),
			"vip", o.VIP.String(), "pool", o.Pool, "other", o.Other)
	}
	ofQUIC(&n, s.QUIC)
	for _, l := range s.AccessLogs {
		const help = "Records of requests, by output of the access log and what became of them."
		n.Counter("access_log_records_total", help, l.Written, "output", l.Output, "result", "written")
		n.Counter("access_log_records_total", help, l.Skipped, "output", l.Output, "result", "skipped")
		for _, reason := range slices.Sorted(maps.Keys(l.Lost)) {
			n.Counter("access_log_records_total", help, l.Lost[reason], "output", l.Output, "result", "lost_"+reason)
		}
		n.Yes("access_log_up", "1 while an output of the access log takes records.", l.Error == "", "output", l.Output)
	}
	const leftOut = "Hosts of routes for which the kernel's tables have no room, and 1 for all others of a VIP: " +
		"user space decides their requests."
	n.GaugeInt("hosts_left_out", leftOut, left)
	n.GaugeInt("surrogates_left_out", "Surrogates that a source or the API has, but that cannot be in their pool.", len(s.LeftOut))
	n.GaugeInt("surrogate_changes", "Surrogates that the API has added or changed.", len(s.Changes))
	const merges = "Times that sources or the API have changed the surrogates in force, by result."
	n.Counter("surrogate_merges_total", merges, s.Merges, "result", "ok")
	n.Counter("surrogate_merges_total", merges, s.MergesFailed, "result", "failed")
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.Reloads, "result", "ok")
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.ReloadsFailed, "result", "failed")
	n.Gauge("config_loaded_timestamp_seconds", "When the configuration in force was loaded.", float64(s.Loaded.UnixNano())/1e9)
	return n
}

func ofController(n *exporter.Numbers, vip string, c *api.RouterController) {
	if c == nil {
		return
	}
	n.Yes("controller_up", "1 while a VIP of mode reactive is connected to a controller.", c.Connected, "vip", vip)
	n.GaugeInt("reactive_legs", "Idle connections to surrogates of a VIP of mode reactive.", c.IdleLegs, "vip", vip)
	const help = "Sessions of a VIP of mode reactive, by what became of them: handed_over, or proxied with the reason."
	n.Counter("reactive_sessions_total", help, c.HandedOver, "vip", vip, "result", "handed_over", "reason", "")
	for _, why := range slices.Sorted(maps.Keys(c.Proxied)) {
		n.Counter("reactive_sessions_total", help, c.Proxied[why], "vip", vip, "result", "proxied", "reason", why)
	}
}

func ofProxied(n *exporter.Numbers, vip string, p *api.RouterProxied) {
	if p == nil {
		return
	}
	n.Counter("proxied_requests_total", "Requests that were proxied to a surrogate.", p.Requests, "vip", vip)
	for _, why := range slices.Sorted(maps.Keys(p.Connections)) {
		n.Counter("proxied_connections_total",
			"Client connections that are not spliced but proxied, by reason: "+outcome.ListReasons()+".",
			p.Connections[why], "vip", vip, "reason", why)
	}
}

func ofSurrogate(n *exporter.Numbers, pool string, s *api.RouterSurrogate) {
	in := []string{"pool", pool, "surrogate", s.Name}
	for _, legs := range []struct {
		state string
		n     int
	}{{"idle", s.IdleLegs}, {"spliced", s.Sessions}, {"opening", s.OpeningLegs}} {
		n.GaugeInt("legs", "Server legs of a surrogate, by state: idle, spliced, opening.", legs.n, append(in, "state", legs.state)...)
	}
	n.Yes("surrogate_up", "1 when new sessions may go to the surrogate, draining aside.", s.Up, in...)
	n.Yes("surrogate_draining", "1 while the operator drains the surrogate.", s.Draining, in...)
	for _, c := range s.Certificates {
		at := []string{"pool", pool, "surrogate", s.Name, "server", c.Server}
		n.GaugeInt("certificate_warnings", "Warnings about the certificate that a surrogate shows for a name.", len(c.Warnings), at...)
		if !c.Expires.IsZero() {
			n.Gauge("certificate_expires_timestamp_seconds", "When the certificate that a surrogate shows for a name expires.", float64(c.Expires.Unix()), at...)
		}
	}
	of := []string{"surrogate", s.Name}
	n.Counter("kernel_handoffs_total", "Sessions spliced or moved to a surrogate.", s.Handoffs, of...)
	n.Counter("legs_recycled_total", "Server legs returned to their pool.", s.Recycled, of...)
	n.Counter("handoffs_failed_total", "Handoffs that ended before the first response byte.", s.Failed, of...)
	n.Counter("to_surrogate_bytes_total", "TCP payload of ended sessions, to the surrogate.", s.BytesTo, of...)
	n.Counter("from_surrogate_bytes_total", "TCP payload of ended sessions, from the surrogate.", s.BytesFrom, of...)
}

// ofSource exports a source of surrogates. Its age is the time since the timestamp.
func ofSource(n *exporter.Numbers, pool string, s *api.RouterSource) {
	of := []string{"pool", pool, "source", s.Name}
	n.GaugeInt("discovered_surrogates", "Surrogates of the last set of a source.", s.Surrogates, of...)
	n.Counter("discovery_updates_total", "Sets of a source that differed from the one before.", s.Updates, of...)
	n.Yes("discovery_up", "1 while a source works; 0 while its last set stays because it has failed.", s.Error == "", of...)
	if !s.Success.IsZero() {
		n.Gauge("discovery_last_success_timestamp_seconds", "When a source last had a whole set.", float64(s.Success.UnixNano())/1e9, of...)
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Failures)) {
		n.Counter("discovery_failures_total", "Failures of a source, by kind.", s.Failures[kind], append(of[:len(of):len(of)], "kind", kind)...)
	}
}

func ofQUIC(n *exporter.Numbers, q *api.RouterQUIC) {
	if q == nil {
		return
	}
	for _, verdict := range slices.Sorted(maps.Keys(q.Packets)) {
		n.Counter("quic_packets_total", "Datagrams of QUIC VIPs by verdict.", q.Packets[verdict], "verdict", verdict)
	}
	n.GaugeInt("quic_sessions", "QUIC clients' addresses that have a surrogate.", q.Sessions)
	n.GaugeInt("quic_flights_held", "First flights of QUIC clients whose hello is not whole.", q.Held)
	const made = "Sessions of QUIC made, by what their surrogate was found by: a hello, or a connection id."
	n.Counter("quic_sessions_total", made, q.Made, "by", "hello")
	n.Counter("quic_sessions_total", made, q.Moved, "by", "id")
	n.GaugeInt("quic_moved_unproven", "Sessions of QUIC made by a connection id whose client may be forged.", q.Unproven)
	for _, why := range slices.Sorted(maps.Keys(q.MovedEvicted)) {
		n.Counter("quic_moved_evicted_total",
			"Sessions of QUIC made by a connection id that were ended for another one, by whose share was in use.",
			q.MovedEvicted[why], "reason", why)
	}
	n.Counter("quic_flights_lost_total", "First flights of QUIC clients forgotten before their hello was whole, by reason.", q.Expired, "reason", "expired")
	n.Counter("quic_flights_lost_total", "First flights of QUIC clients forgotten before their hello was whole, by reason.", q.Evicted, "reason", "evicted")
	for _, why := range slices.Sorted(maps.Keys(q.Refused)) {
		n.Counter("quic_refused_total", "QUIC connections and datagrams refused, by reason.", q.Refused[why], "reason", why)
	}
}

// Unready lists why a router is not ready: it is ready if the data path is attached and each pool has a usable surrogate.
func Unready(s *api.RouterStatus) []string {
	reasons := []string{}
	handoff := func(v api.RouterVIP) bool { return v.Mode == "handoff" }
	if len(s.Interfaces) == 0 && slices.ContainsFunc(s.VIPs, handoff) {
		reasons = append(reasons, "the data path is not attached")
	}
	usable := func(sg api.RouterSurrogate) bool { return sg.Up && !sg.Draining }
	for _, p := range s.Pools {
		if !slices.ContainsFunc(p.Surrogates, usable) {
			reasons = append(reasons, fmt.Sprintf("no surrogate of pool %s is up (of %d)", p.Name, len(p.Surrogates)))
		}
	}
	return reasons
}
