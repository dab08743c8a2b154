package forwarder

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"baton/api"
	"baton/openflow"
)

// namespace begins the name of every metric.
const namespace = "baton_forwarder"

// tally counts what nothing else does. Its methods may be called from any goroutine.
type tally struct {
	messages [32][outcomes]atomic.Uint64 // by openflow.Type
	removed  [4]atomic.Uint64            // flow entries, by openflow.FlowRemovedReason
}

// outcome is what became of a controller's message.
type outcome int

const (
	done    outcome = iota
	refused         // against the specification, or what it asks for is not there
	failed          // the kernel did not take it
	outcomes
)

func (o outcome) String() string { return [...]string{"done", "refused", "failed"}[o] }

// message counts a message that has been carried out, or not.
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

// number is one series at the time of a scrape.
type number struct {
	api.Counter
	gauge bool // the value may fall
}

// series are the forwarder's numbers. A table without an entry that no packet has come to has none.
func series(s *api.ForwarderStatus, t *tally) []number {
	var out []number
	add := func(gauge bool, name, help string, value uint64, labels ...string) {
		n := number{api.Counter{Name: name, Help: help, Value: value}, gauge}
		for i := 0; i < len(labels); i += 2 {
			if n.Labels == nil {
				n.Labels = make(map[string]string)
			}
			n.Labels[labels[i]] = labels[i+1]
		}
		out = append(out, n)
	}
	counter := func(name, help string, value uint64, labels ...string) { add(false, name, help, value, labels...) }
	gauge := func(name, help string, value int, labels ...string) { add(true, name, help, uint64(value), labels...) }

	for _, verdict := range slices.Sorted(maps.Keys(s.Packets)) {
		counter("packets_total", "Packets by what became of them.", s.Packets[verdict], "verdict", verdict)
	}
	counter("path_hits_total", "Packets whose path through the tables was cached.", s.PathsHit)
	counter("shortcut_hits_total", "Packets of flows that were picked for, which needed no tables.", s.ShortcutsHit)
	counter("punts_lost_total", "Packets for controllers that user space was too slow for.", s.PuntsLost)
	counter("copies_lost_total", "Copies of packets that the kernel could not make.", s.CopiesLost)
	for _, t := range s.Tables {
		id := strconv.Itoa(t.Table)
		gauge("table_entries", "Flow entries of a table.", t.Entries, "table", id)
		counter("table_lookups_total", "Packets that came to a table.", t.Lookups, "table", id)
		counter("table_misses_total", "Packets that met no entry of a table.", t.Misses, "table", id)
	}
	type usage struct {
		name, what string
		api.Usage
	}
	held := []usage{{"entries", "Flow entries", s.Entries}, {"groups", "Groups", s.Groups}, {"meters", "Meters", s.Meters}}
	if s.Picks != nil {
		held = append(held, usage{"picks", "Flows whose link is remembered", s.Picks.Flows})
		for _, p := range s.Picks.Ports {
			labels := append([]string(nil), "port", p.Port, "interface", p.Interface)
			gauge("pick_flows", "Flows whose remembered link is the port.", int(p.Flows), labels...)
			gauge("pick_flows_active", "Those of them that had a packet a moment ago.", int(p.Active), labels...)
			counter("pick_syns_total", "Handshakes that began by the port.", p.SYNs, labels...)
			counter("pick_syn_repeats_total", "SYNs that were sent again by the port.", p.SYNRepeats, labels...)
			counter("pick_sent_bytes_total", "Bytes that flows have sent by the port.", p.Sent, labels...)
			counter("pick_received_bytes_total", "Bytes that flows have received by the port.", p.Received, labels...)
		}
	}
	for _, u := range held {
		gauge(u.name, u.what+" held.", u.Used)
		gauge(u.name+"_limit", u.what+" that there is room for.", u.Limit)
	}
	for _, p := range s.Ports {
		gauge("port_up", "1 when frames can be sent out of the port.", bit(p.Up), "port", p.Number, "interface", p.Interface)
	}
	for _, e := range s.Endpoints {
		roles := map[string]int{"equal": 0, "master": 0, "slave": 0}
		for _, c := range e.Channels {
			roles[c.Role]++
		}
		for _, role := range slices.Sorted(maps.Keys(roles)) {
			gauge("channels", "OpenFlow channels that are up, by role.", roles[role], "endpoint", e.Endpoint, "role", role)
		}
		for _, c := range []struct {
			name, help string
			value      uint64
		}{
			{"channels_opened_total", "OpenFlow channels that came up.", e.Opened},
			{"channel_messages_received_total", "Messages of controllers.", e.Received},
			{"channel_messages_refused_total", "Messages of controllers that were answered with an error.", e.Refused},
			{"channel_messages_sent_total", "Messages to controllers but packet-ins.", e.Sent},
			{"packet_ins_total", "Packet-ins sent.", e.PacketIns},
			{"packet_ins_dropped_total", "Packet-ins that a slow controller left no room for.", e.PacketInsDropped},
			{"connections_rejected_total", "Connections above the limit of channels.", e.Rejected},
		} {
			counter(c.name, c.help, c.value, "endpoint", e.Endpoint)
		}
	}
	if s.Journal != nil {
		gauge("journal_records", "Messages in the file that flow entries survive in.", s.Journal.Records)
		gauge("journal_bytes", "Size of the file that flow entries survive in.", int(s.Journal.Bytes))
	}
	for kind := range t.messages {
		for o := range outcomes {
			if n := t.messages[kind][o].Load(); n > 0 || openflow.Type(kind) == openflow.TypeFlowMod {
				counter("messages_total", "Messages that change or ask the pipeline or send a packet, by outcome.", n,
					"message", strings.ToLower(openflow.Type(kind).String()), "outcome", o.String())
			}
		}
	}
	for why := range t.removed {
		counter("entries_removed_total", "Flow entries that are gone.", t.removed[why].Load(),
			"reason", strings.ToLower(openflow.FlowRemovedReason(why).String()))
	}
	return out
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// collector asks the forwarder at each scrape. It is unchecked: which series there are, the state decides.
type collector struct {
	status func() (api.ForwarderStatus, error)
	tally  *tally
}

func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	s, err := c.status()
	if err != nil {
		out <- prometheus.NewInvalidMetric(prometheus.NewDesc(namespace+"_status", "The forwarder's state.", nil, nil), err)
		return
	}
	for _, n := range series(&s, c.tally) {
		kind := prometheus.CounterValue
		if n.gauge {
			kind = prometheus.GaugeValue
		}
		keys := slices.Sorted(maps.Keys(n.Labels))
		values := make([]string, len(keys))
		for i, k := range keys {
			values[i] = n.Labels[k]
		}
		desc := prometheus.NewDesc(namespace+"_"+n.Name, n.Help, keys, nil)
		metric, err := prometheus.NewConstMetric(desc, kind, float64(n.Value), values...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err) // the scrape says so and keeps the others
		}
		out <- metric
	}
}

// handler serves /metrics and /healthz.
func (f *Forwarder) handler() http.Handler { return metricsHandler(f.version, f.status, &f.tally) }

func metricsHandler(version string, status func() (api.ForwarderStatus, error), t *tally) http.Handler {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "1, labelled by the version.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build,
		&collector{status, t})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, Registry: registry, MaxRequestsInFlight: 8, Timeout: 10 * time.Second,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		s, err := status()
		reasons := unready(&s)
		if err != nil {
			reasons = []string{err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if len(reasons) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		json.NewEncoder(w).Encode(health{len(reasons) == 0, reasons}) // fails only when the client has gone
	})
	return mux
}

// health is the body of /healthz.
type health struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"` // empty when ready
}

// unready says why the forwarder cannot do what it is there for: no port to send by, or nobody to tell it what to do. Without a
// controller its flow entries forward all the same.
func unready(s *api.ForwarderStatus) []string {
	reasons := []string{}
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
