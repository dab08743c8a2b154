package forwarder

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"baton/api"
	"baton/exporter"
	"baton/openflow"
)

// namespace prefixes every metric.
const namespace = "baton_forwarder"

// tally counts messages and removed entries. Its methods may be called from any goroutine.
type tally struct {
	messages [32][outcomes]atomic.Uint64 // by openflow.Type
	removed  [4]atomic.Uint64            // flow entries, by openflow.FlowRemovedReason
}

// outcome is the result of a controller's message.
type outcome int

const (
	done    outcome = iota
	refused         // invalid, or refers to something that does not exist
	failed          // the kernel refused it
	outcomes
)

func (o outcome) String() string { return [...]string{"done", "refused", "failed"}[o] }

// message counts a handled message.
func (t *tally) message(kind openflow.Type, err error) {
	o := done
	var fault *openflow.Fault
	switch {
	case errors.As(err, &fault):
		o = refused
	case err != nil:
		o = failed
	}
	t.messages[int(kind)%len(t.messages)][o].Add(1)
}

func (t *tally) gone(why openflow.FlowRemovedReason) { t.removed[int(why)%len(t.removed)].Add(1) }

// metricsHandler serves /metrics and /healthz. status is called for each request, possibly concurrently.
func metricsHandler(version string, status func() (api.ForwarderStatus, error), series func(*api.ForwarderStatus) []exporter.Number) http.Handler {
	return exporter.Process[api.ForwarderStatus]{Namespace: namespace, Version: version, Status: status, Series: series, Unready: unready}.Handler()
}

// Metrics serves the metrics and the health of a process with one forwarder. The status is read at each request: the
// forwarder's own, or for the reference one in which everything has a value.
func (f *Forwarder) Metrics(status func() (api.ForwarderStatus, error)) http.Handler {
	return metricsHandler(f.version, status, f.tally.series)
}

// series are the metrics of a process with one forwarder.
func (t *tally) series(s *api.ForwarderStatus) []exporter.Number {
	return append(t.own(s), configuration(s)...)
}

// configuration are the metrics of a process's configuration.
func configuration(s *api.ForwarderStatus) []exporter.Number {
	var n exporter.Numbers
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.Reloads, "result", "ok")
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.ReloadsFailed, "result", "failed")
	n.Gauge("config_loaded_timestamp_seconds", "When the configuration in force was loaded.", float64(s.Loaded.UnixNano())/1e9)
	return n
}

// own are a forwarder's own metrics. A table without entries and packets has none.
func (t *tally) own(s *api.ForwarderStatus) []exporter.Number {
	var n exporter.Numbers
	for _, verdict := range slices.Sorted(maps.Keys(s.Packets)) {
		n.Counter("packets_total", "Packets by verdict.", s.Packets[verdict], "verdict", verdict)
	}
	n.Counter("megaflow_hits_total", "Packets served by a cached megaflow.", s.MegaflowsHit)
	n.Counter("microflow_hits_total", "Packets of bound flows served by a cached microflow, without the tables.", s.MicroflowsHit)
	n.Counter("upcalls_lost_total", "Packets for controllers lost because user space was too slow.", s.UpcallsLost)
	n.Counter("copies_lost_total", "Copies of packets that could not be made.", s.CopiesLost)
	for _, table := range s.Tables {
		id := strconv.Itoa(table.Table)
		n.GaugeInt("table_entries", "Flow entries of a table.", table.Entries, "table", id)
		n.Counter("table_lookups_total", "Packets looked up in a table.", table.Lookups, "table", id)
		n.Counter("table_misses_total", "Packets that matched no entry of a table.", table.Misses, "table", id)
	}
	type usage struct {
		name, what string
		api.Usage
	}
	held := []usage{{"entries", "Flow entries", s.Entries}, {"groups", "Groups", s.Groups}, {"meters", "Meters", s.Meters}}
	if s.Bindings != nil {
		held = append(held, usage{"bindings", "Flows bound to a link", s.Bindings.Flows})
		for _, p := range s.Bindings.Ports {
			labels := append([]string(nil), "port", p.Port, "interface", p.Interface)
			n.GaugeInt("binding_flows", "Flows bound to the port.", int(p.Flows), labels...)
			n.GaugeInt("binding_flows_active", "Bound flows that had a packet recently.", int(p.Active), labels...)
			n.Counter("binding_syns_total", "TCP handshakes started on the port.", p.SYNs, labels...)
			n.Counter("binding_syn_repeats_total", "SYNs retransmitted on the port.", p.SYNRepeats, labels...)
			n.Counter("binding_sent_bytes_total", "Bytes sent by flows bound to the port.", p.Sent, labels...)
			n.Counter("binding_received_bytes_total", "Bytes received by flows bound to the port.", p.Received, labels...)
		}
	}
	for _, u := range held {
		n.GaugeInt(u.name, u.what+" in use.", u.Used)
		n.GaugeInt(u.name+"_limit", u.what+", maximum.", u.Limit)
	}
	for _, p := range s.Ports {
		n.Yes("port_up", "1 when frames can be sent out of the port.", p.Up, "port", p.Number, "interface", p.Interface)
	}
	for _, e := range s.Endpoints {
		roles := map[string]int{"equal": 0, "master": 0, "slave": 0}
		for _, c := range e.Channels {
			roles[c.Role]++
		}
		for _, role := range slices.Sorted(maps.Keys(roles)) {
			n.GaugeInt("channels", "OpenFlow channels that are up, by role.", roles[role], "endpoint", e.Endpoint, "role", role)
		}
		for _, c := range []struct {
			name, help string
			value      uint64
		}{
			{"channels_opened_total", "OpenFlow channels that came up.", e.Opened},
			{"channel_messages_received_total", "Messages of controllers.", e.Received},
			{"channel_messages_refused_total", "Messages of controllers that were answered with an error.", e.Refused},
			{"channel_messages_sent_total", "Messages to controllers, without packet-ins.", e.Sent},
			{"packet_ins_total", "Packet-ins sent.", e.PacketIns},
			{"packet_ins_dropped_total", "Packet-ins dropped because the controller was too slow.", e.PacketInsDropped},
			{"connections_rejected_total", "Connections rejected or evicted at the limit of channels.", e.Rejected},
		} {
			n.Counter(c.name, c.help, c.value, "endpoint", e.Endpoint)
		}
	}
	if s.Journal != nil {
		n.GaugeInt("journal_records", "Messages in the file that stores flow entries.", s.Journal.Records)
		n.GaugeInt("journal_bytes", "Size of the file that stores flow entries.", int(s.Journal.Bytes))
	}
	for kind := range t.messages {
		for o := range outcomes {
			if count := t.messages[kind][o].Load(); count > 0 || openflow.Type(kind) == openflow.TypeFlowMod {
				n.Counter("messages_total", "Messages that change or query the pipeline or send a packet, by outcome.", count,
					"message", strings.ToLower(openflow.Type(kind).String()), "outcome", o.String())
			}
		}
	}
	for why := range t.removed {
		n.Counter("entries_removed_total", "Flow entries removed.", t.removed[why].Load(),
			"reason", strings.ToLower(openflow.FlowRemovedReason(why).String()))
	}
	return n
}

// unready returns why the forwarder is not ready: no port can send, or no controller is connected. Its flow entries forward packets without a
// controller, too.
func unready(s *api.ForwarderStatus) []string {
	reasons := []string{}
	for i := range s.Datapaths {
		one := &s.Datapaths[i]
		for _, reason := range unready(one) {
			reasons = append(reasons, one.Name+": "+reason)
		}
	}
	if len(s.Datapaths) > 0 {
		return reasons
	}
	if !slices.ContainsFunc(s.Ports, func(p api.ForwarderPort) bool { return p.Up }) {
		reasons = append(reasons, fmt.Sprintf("no port is up (of %d)", len(s.Ports)))
	}
	controllers, connected := 0, 0
	for _, e := range s.Endpoints {
		if !e.Listens {
			controllers++
			connected += len(e.Channels)
		}
	}
	if controllers > 0 && connected == 0 {
		reasons = append(reasons, fmt.Sprintf("no controller is connected (of %d)", controllers))
	}
	return reasons
}
