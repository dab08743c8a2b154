// Package metrics exports a controller's status, and the counts of its northbound server, to Prometheus.
package metrics

import (
	"net/http"

	"baton/api"
	"baton/controller/northbound"
	"baton/exporter"
)

// Metrics are those of a controller.
type Metrics struct {
	Status     func() (api.ControllerStatus, error)
	Northbound *northbound.Server // nil: none
}

// Handler serves the metrics and the health of a controller.
func (m Metrics) Handler(version string) http.Handler {
	return exporter.Process[api.ControllerStatus]{
		Namespace: "baton_controller", Version: version, Status: m.Status, Series: m.Series, Unready: unready,
	}.Handler()
}

// Series returns the numbers of a status, and those of the northbound server.
func (m Metrics) Series(s *api.ControllerStatus) []exporter.Number {
	n := exporter.Numbers(ofStatus(s))
	if m.Northbound != nil {
		m.Northbound.Series(&n)
	}
	return n
}

// unready says why a controller is not as it should be.
func unready(s *api.ControllerStatus) (reasons []string) {
	if !s.Store.Answers {
		reasons = append(reasons, "the store does not answer: "+s.Store.Error)
	}
	for _, sw := range s.Switches {
		if !sw.Up {
			reasons = append(reasons, "switch "+sw.Name+" is not connected")
		}
	}
	return reasons
}

// ofStatus returns the numbers of a status.
func ofStatus(s *api.ControllerStatus) []exporter.Number {
	var n exporter.Numbers
	for _, sw := range s.Switches {
		n.Yes("switch_up", "Whether the switch is connected.", sw.Up, "switch", sw.Name)
		n.Yes("switch_master", "Whether this controller is its master.", sw.Role == "master", "switch", sw.Name)
		n.GaugeInt("switch_flows", "Flow entries of this controller.", sw.Flows, "switch", sw.Name)
	}
	n.GaugeInt("links", "Links between switches, seen in both directions.", s.Links)
	n.GaugeInt("hosts", "Hosts that are known.", s.Hosts)
	n.GaugeInt("path_trees", "Destinations with entries; with spread: pair, pairs.", s.Paths.Trees)
	n.GaugeInt("path_entries", "Flow entries of paths.", s.Paths.Entries)
	n.GaugeInt("path_cached", "Pairs of hosts in the path cache.", s.Paths.Cached)
	n.Counter("path_cache_total", "Requests for paths.", s.Paths.Hits, "result", "hit")
	n.Counter("path_cache_total", "Requests for paths.", s.Paths.Misses, "result", "miss")
	n.Counter("path_reroutes_total", "Destinations that were rerouted.", s.Paths.Reroutes)
	n.Counter("path_failures_total", "Flow entries that a switch has not taken.", s.Paths.Failures)
	n.Counter("packet_ins_total", "Packets from switches that were handled.", s.Packets)
	n.Counter("packet_ins_dropped_total", "Packets from switches that were dropped by a full queue.", s.Overload)
	n.Counter("flow_mods_total", "Flow mods sent.", s.FlowMods)
	n.Counter("packet_outs_total", "Packets sent to switches.", s.PacketOuts)
	n.Counter("discovery_frames_total", "Discovery frames sent.", s.Discovery)
	n.Counter("neighbour_answers_total", "ARP requests and neighbour solicitations answered.", s.Answered)
	n.Counter("flooded_total", "Frames sent out of all ports of hosts.", s.Flooded)
	n.Counter("limited_total", "Frames above the limits of a port.", s.Limited)
	n.Counter("forwarded_total", "Packets that the controller has sent on.", s.Forwarded)
	n.Counter("undelivered_total", "Packets that it could not send on.", s.Undelivered)
	n.Counter("moves_total", "Moves of hosts and addresses that were accepted.", s.Moves)
	for reason, count := range s.Refused {
		n.Counter("refused_total", "Frames, links, hosts, moves and switches that were refused.", count, "reason", reason)
	}
	for _, u := range s.Surrogates {
		n.Yes("surrogate_up", "Whether the surrogate gets new sessions, as far as its checks and handoffs say.", u.Up, "surrogate", u.Name)
		n.Yes("surrogate_in_service", "Whether operators let the surrogate have new sessions.", u.State == api.InService, "surrogate", u.Name)
		n.GaugeInt("surrogate_sessions", "Sessions that are handed over to the surrogate.", u.Sessions, "surrogate", u.Name)
		n.GaugeInt("surrogate_idle_legs", "Idle legs of all request routers to the surrogate.", u.Legs, "surrogate", u.Name)
	}
	reactive(&n, s.Reactive)
	n.Yes("store_up", "Whether the store answers.", s.Store.Answers)
	n.GaugeInt("store_pending_records", "Records that the store does not have yet.", s.Store.Pending)
	n.Yes("master", "Whether this controller is the master.", s.Store.Master)
	n.Gauge("generation", "The master's generation.", float64(s.Store.Generation))
	n.Counter("config_reloads_total", "Reloads of the configuration.", s.Reloads, "result", "ok")
	n.Counter("config_reloads_total", "Reloads of the configuration.", s.ReloadsFailed, "result", "failed")
	n.Gauge("config_loaded_timestamp_seconds", "When the configuration was read.", float64(s.Loaded.Unix()))
	return n
}

func reactive(n *exporter.Numbers, r *api.ControllerReactive) {
	if r == nil {
		return
	}
	for surrogate, count := range r.Done {
		n.Counter("handoffs_total", "Sessions that were handed over.", count, "surrogate", surrogate)
	}
	for reason, count := range r.Failed {
		n.Counter("handoffs_failed_total", "Handoffs that failed: the request router has served the session.", count, "reason", reason)
	}
	for surrogate, count := range r.Unanswered {
		n.Counter("handoffs_unanswered_total", "Sessions that were handed over, and whose surrogate has not begun to answer in time.", count, "surrogate", surrogate)
	}
	n.GaugeInt("handoffs_live", "Sessions that are handed over or about to be.", r.Live)
	n.Counter("sessions_proxied_total", "Sessions that request routers have served themselves.", r.Proxied)
	n.Counter("session_packets_forwarded_total", "Packets of sessions that passed the controller.", r.Forwarded)
	n.Counter("session_packets_dropped_total", "Packets of sessions that may not pass.", r.Dropped)
	n.Counter("session_packets_lost_total", "Packets of sessions for which there was no way.", r.Lost)
}
