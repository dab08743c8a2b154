// Package metrics turns a relay's status into Prometheus metrics, and serves /healthz. Every name begins with baton_relay_.
package metrics

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"baton/api"
	"baton/exporter"
)

const namespace = "baton_relay"

type numbers struct{ exporter.Numbers }

// Handler serves /metrics and /healthz. It calls status for each request, possibly concurrently.
func Handler(version string, status func() (api.RelayStatus, error)) http.Handler {
	return exporter.Process[api.RelayStatus]{Namespace: namespace, Version: version, Status: status, Series: Series, Unready: Unready}.Handler()
}

// Series are a relay's metrics.
func Series(s *api.RelayStatus) []exporter.Number {
	var n numbers
	n.ofFlows(s)
	n.ofWorkers(s)
	if t := s.Trunks; t != nil {
		n.GaugeInt("trunks_waiting", "Idle trunks that other relays have opened.", t.Waiting.Used)
		n.GaugeInt("trunks_waiting_limit", "Limit of such trunks.", t.Waiting.Limit)
		n.GaugeInt("trunk_flows", "Flows that came by trunks.", t.Live)
		n.Counter("trunk_flows_total", "Flows that came by trunks.", t.Flows)
	}
	for i := range s.Peers {
		n.ofPeer(&s.Peers[i])
	}
	if c := s.Choice; c != nil {
		n.GaugeInt("destinations", "Destinations of entries with via: auto.", c.Destinations)
		n.GaugeInt("destinations_chosen", "Destinations with a chosen route.", c.Chosen)
		n.Counter("routes_changed_total", "Chosen routes, including the first for each destination.", c.Changes)
		n.Counter("choice_probes_total", "Probes to choose routes, sent from here or by peers on request.", c.Probes)
	}
	for _, verdict := range slices.Sorted(maps.Keys(s.Packets)) {
		n.Counter("packets_total", "Packets at the entries' interfaces by verdict.", s.Packets[verdict], "verdict", verdict)
	}
	for _, start := range s.Starts {
		labels := []string{"trunks", start.Trunks, "address", start.Address.String()}
		n.GaugeInt("start_window_segments", "Initial window of trunks; 0: the system's.", start.Window, labels...)
		n.Counter("trunks_established_total", "Trunks whose initial window was set.", start.Established, labels...)
		n.Counter("first_flights_total", "Completed first flights of trunks.", start.Flights, labels...)
		n.Counter("first_flight_segments_total", "Segments of first flights.", start.Sent, labels...)
		n.Counter("first_flight_retransmits_total", "Retransmitted segments of first flights.", start.Retransmitted, labels...)
		n.Counter("start_settings_refused_total", "Settings of trunks that the kernel rejected.", start.Refused, labels...)
	}
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.Reloads, "result", "ok")
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.ReloadsFailed, "result", "failed")
	n.Gauge("config_loaded_timestamp_seconds", "When the current configuration was loaded.", float64(s.Loaded.UnixNano())/1e9)
	return n.Numbers
}

func (n *numbers) ofFlows(s *api.RelayStatus) {
	for _, e := range s.Entries {
		n.GaugeInt("flows", "Flows of an entry.", e.Live, "entry", e.Name)
		n.Counter("flows_total", "Flows started at an entry.", e.Flows, "entry", e.Name)
		n.Yes("entry_open", "1 when all workers listen.", e.Open, "entry", e.Name)
	}
	n.GaugeInt("flows_limit", "Limit of flows.", s.Flows.Limit)
	n.Yes("stopping", "1 when no new flows are accepted.", s.Stopping)
	refused, expired := make(map[string]uint64), make(map[string]uint64)
	for _, w := range s.Workers {
		for status, count := range w.Refused {
			refused[status] += count
		}
		for wait, count := range w.Expired {
			expired[wait] += count
		}
	}
	for _, status := range slices.Sorted(maps.Keys(refused)) {
		n.Counter("refused_total", "Flows whose server was unavailable, by status.", refused[status], "status", status)
	}
	for _, wait := range slices.Sorted(maps.Keys(expired)) {
		n.Counter("expired_total", "Flows and trunks that timed out, by what they waited for.", expired[wait], "wait", wait)
	}
}

func (n *numbers) ofWorkers(s *api.RelayStatus) {
	for _, w := range s.Workers {
		id := strconv.Itoa(w.Worker)
		n.GaugeInt("worker_flows", "Flows and probes of a worker.", w.Live, "worker", id)
		n.Counter("worker_flows_total", "Flows started at a worker.", w.Flows, "worker", id)
		n.Counter("early_flows_total", "Flows started by a SYN.", w.Early, "worker", id)
		n.Counter("probes_total", "Distances measured for other relays.", w.Probes, "worker", id)
		n.Counter("flows_rerouted_total", "Flows sent by another route because relays did not reach their server.", w.Rerouted, "worker", id)
		n.Counter("copied_bytes_total", "Bytes of flows that were copied.", w.Copied, "worker", id)
		n.Counter("spliced_bytes_total", "Bytes of flows that were spliced.", w.Spliced, "worker", id)
		n.GaugeInt("pipes", "Open pipes for splices.", w.Pipes, "worker", id)
		n.Counter("without_pipe_total", "Splices replaced by copies for lack of a pipe.", w.WithoutPipe, "worker", id)
		n.Counter("full_total", "Times that accepting was suspended: a limit, or lack of descriptors or memory.", w.Full, "worker", id)
		n.Counter("bad_headers_total", "Invalid headers of clients (PROXY, SOCKS5, CONNECT) and of incoming trunks.", w.BadClientHeaders, "worker", id, "from", "client")
		n.Counter("bad_headers_total", "Invalid headers of clients (PROXY, SOCKS5, CONNECT) and of incoming trunks.", w.BadTrunkHeaders, "worker", id, "from", "trunk")
		n.Counter("bad_handshakes_total", "Failed TLS handshakes of incoming trunks.", w.BadHandshakes, "worker", id)
	}
}

func (n *numbers) ofPeer(p *api.RelayPeer) {
	n.Yes("peer_up", "0 when all workers failed in their last attempt to open a trunk.", !p.Down, "peer", p.Name)
	if p.RTT > 0 {
		n.Seconds("peer_rtt_seconds", "Round-trip time in handshakes of trunks.", p.RTT, "peer", p.Name)
	}
	n.GaugeInt("trunks_ready", "Ready trunks.", p.Ready, "peer", p.Name)
	n.GaugeInt("trunks_opening", "Trunks being opened.", p.Opening, "peer", p.Name)
	n.GaugeInt("flows_waiting", "Flows that wait for a trunk.", p.Waiting, "peer", p.Name)
	n.Counter("trunks_opened_total", "Opened trunks.", p.Opened, "peer", p.Name)
	n.Counter("trunks_taken_total", "Flows that found a ready trunk.", p.Taken, "peer", p.Name)
	n.Counter("trunks_missed_total", "Flows that had to wait for a trunk.", p.Missed, "peer", p.Name)
	n.Counter("trunks_stale_total", "Ready trunks that the peer closed.", p.Stale, "peer", p.Name)
	n.Counter("trunks_failed_total", "Trunks that could not be opened.", p.Unopened, "peer", p.Name)
	n.Counter("trunks_broken_total", "Trunks that broke before an answer.", p.Broken, "peer", p.Name)
	n.Counter("flows_replayed_total", "Flows moved to another trunk after that.", p.Replayed, "peer", p.Name)
}

// Unready returns why a relay is not healthy; none if it is.
func Unready(s *api.RelayStatus) []string {
	reasons := []string{}
	if s.Stopping {
		reasons = append(reasons, "no new flows are accepted")
	}
	for _, e := range s.Entries {
		if !e.Open && e.Mode != "" {
			reasons = append(reasons, fmt.Sprintf("entry %s is not open", e.Name))
		}
	}
	if s.Trunks != nil && !s.Trunks.Open {
		reasons = append(reasons, "trunks are not accepted")
	}
	for _, p := range s.Peers {
		if p.Down && p.Ready == 0 {
			reasons = append(reasons, fmt.Sprintf("no trunk to %s: %s", p.Name, p.Failure))
		}
	}
	return reasons
}
