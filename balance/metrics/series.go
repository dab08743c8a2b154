// Package metrics exports the status of a balance to Prometheus and /healthz. Every name begins with baton_balance_.
package metrics

import (
	"maps"
	"net/http"
	"slices"

	"baton/api"
	"baton/exporter"
)

const namespace = "baton_balance"

type numbers struct{ exporter.Numbers }

// Handler serves /metrics and /healthz. status is called at each request, perhaps from several goroutines.
func Handler(version string, status func() (api.BalanceStatus, error)) http.Handler {
	return exporter.Process[api.BalanceStatus]{Namespace: namespace, Version: version, Status: status, Series: Series, Unready: Unready}.Handler()
}

// Series returns the numbers of a balance.
func Series(s *api.BalanceStatus) []exporter.Number {
	var n numbers
	n.GaugeInt("flows", "Flows with a remembered link.", s.Flows.Used)
	n.GaugeInt("flows_limit", "Most flows with a remembered link.", s.Flows.Limit)
	for i := range s.Links {
		n.ofLink(&s.Links[i])
	}
	n.Counter("resets_total", "Connections ended because their link was lost.", s.Resets)
	for _, v := range slices.Sorted(maps.Keys(s.Verdicts)) {
		n.Counter("verdicts_total", "Packets, by the switch's verdict.", s.Verdicts[v], "verdict", v)
	}
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.Reloads, "result", "ok")
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.ReloadsFailed, "result", "failed")
	n.Gauge("config_loaded_timestamp_seconds", "When the configuration in force was loaded.", float64(s.Loaded.UnixNano())/1e9)
	return n.Numbers
}

func (n *numbers) ofLink(l *api.BalanceLink) {
	is := []string{"link", l.Name}
	n.Yes("link_usable", "1 if new flows can use the link.", l.Usable(), is...)
	n.Yes("link_used", "1 if new flows use the link: it is usable, and in the current tier.", l.State == api.BalanceUsed, is...)
	n.GaugeInt("link_weight", "The link's share of new flows, relative to the other weights.", l.Weight, is...)
	n.Gauge("link_flows_active", "Flows that send or receive.", float64(l.Active), is...)
	n.Gauge("link_flows", "Remembered flows with the link.", float64(l.Flows), is...)
	n.Counter("link_connections_total", "TCP connections opened over the link.", l.Connections, is...)
	n.Counter("link_bytes_total", "Bytes of the link's interface, by direction.", l.Sent, "link", l.Name, "direction", "sent")
	n.Counter("link_bytes_total", "Bytes of the link's interface, by direction.", l.Received, "link", l.Name, "direction", "received")
	if l.RTT > 0 {
		n.Seconds("link_rtt_seconds", "Smoothed time of handshakes.", l.RTT, is...)
	}
	n.Gauge("link_loss_ratio", "Share of retransmitted segments.", l.Loss, is...)
	if l.Capacity > 0 {
		n.Gauge("link_capacity_bytes_per_second", "Measured capacity of the link.", l.Capacity/8, is...)
	}
	if l.Cap != nil {
		n.Gauge("link_cap_used_bytes", "Bytes of this period that count against the cap.", float64(l.Cap.Used), is...)
		n.Gauge("link_cap_bytes", "The cap.", float64(l.Cap.Bytes), is...)
	}
}

// Unready lists why a balance is not working; empty if it is.
func Unready(s *api.BalanceStatus) []string {
	reasons := []string{}
	for i := range s.Links {
		l := &s.Links[i]
		if l.Usable() {
			return []string{}
		}
		reasons = append(reasons, "link "+l.Name+": "+l.State)
	}
	return reasons
}
