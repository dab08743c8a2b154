package forwarder

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"baton/api"
	"baton/exporter"
	"baton/openflow"
)

// full has at least one series of each name.
func full() api.ForwarderStatus {
	return api.ForwarderStatus{
		Ports: []api.ForwarderPort{{Number: "1", Interface: "eth1", Up: true}, {Number: "LOCAL", Interface: "sw0"}},
		Endpoints: []api.ForwarderEndpoint{
			{Endpoint: "tcp:192.0.2.7:6653", Opened: 2, Received: 3, Refused: 1, PacketIns: 9, PacketInsDropped: 4,
				Channels: []api.ForwarderChannel{{Role: "master"}}},
			{Endpoint: "tcp:127.0.0.1:6654", Listens: true, Rejected: 5},
		},
		Tables:  []api.ForwarderTable{{Table: 0, Entries: 3, Lookups: 1 << 40, Misses: 7}, {Table: 253, Lookups: 1, Misses: 1}},
		Entries: api.Usage{Used: 3, Limit: 100}, Groups: api.Usage{Limit: 10}, Meters: api.Usage{Used: 1, Limit: 5},
		Journal: &api.ForwarderJournal{Records: 4, Bytes: 512},
		Bindings: &api.ForwarderBindings{Flows: api.Usage{Used: 2, Limit: 9}, Ports: []api.ForwarderBindingPort{
			{Port: "1", Interface: "eth1", Flows: 2, Active: 1, SYNs: 4, SYNRepeats: 3, Sent: 6, Received: 7},
		}},
		Packets: map[string]uint64{"forwarded": 10, "drop_miss": 2}, MegaflowsHit: 6, MicroflowsHit: 7, UpcallsLost: 5, CopiesLost: 8,
	}
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	return rec.Code, rec.Body.String()
}

func TestSeries(t *testing.T) {
	var count tally
	count.message(openflow.TypeFlowMod, nil)
	count.message(openflow.TypeFlowMod, nil)
	count.message(openflow.TypeFlowMod, &openflow.Fault{Code: openflow.FlowModFailedOverlap})
	count.message(openflow.TypeGroupMod, errors.New("the kernel's table is full"))
	count.gone(openflow.RemovedIdleTimeout)
	h := metricsHandler("v1", func() (api.ForwarderStatus, error) { return full(), nil }, count.series)
	code, body := get(t, h, "/metrics")
	if code != http.StatusOK {
		t.Fatalf("GET /metrics = %d %s", code, body)
	}
	got := strings.Split(body, "\n")
	for _, want := range []string{
		`baton_forwarder_build_info{version="v1"} 1`,
		`baton_forwarder_packets_total{verdict="forwarded"} 10`,
		`baton_forwarder_packets_total{verdict="drop_miss"} 2`,
		`baton_forwarder_config_reloads_total{result="failed"} 0`,
		`baton_forwarder_bindings 2`,
		`baton_forwarder_bindings_limit 9`,
		`baton_forwarder_binding_flows{interface="eth1",port="1"} 2`,
		`baton_forwarder_binding_flows_active{interface="eth1",port="1"} 1`,
		`baton_forwarder_binding_syns_total{interface="eth1",port="1"} 4`,
		`baton_forwarder_binding_syn_repeats_total{interface="eth1",port="1"} 3`,
		`baton_forwarder_binding_sent_bytes_total{interface="eth1",port="1"} 6`,
		`baton_forwarder_binding_received_bytes_total{interface="eth1",port="1"} 7`,
		`baton_forwarder_megaflow_hits_total 6`,
		`baton_forwarder_microflow_hits_total 7`,
		`baton_forwarder_upcalls_lost_total 5`,
		`baton_forwarder_copies_lost_total 8`,
		`baton_forwarder_table_entries{table="0"} 3`,
		`baton_forwarder_table_lookups_total{table="0"} 1.099511627776e+12`,
		`baton_forwarder_table_misses_total{table="253"} 1`,
		`baton_forwarder_entries 3`,
		`baton_forwarder_entries_limit 100`,
		`baton_forwarder_groups 0`,
		`baton_forwarder_meters_limit 5`,
		`baton_forwarder_port_up{interface="eth1",port="1"} 1`,
		`baton_forwarder_port_up{interface="sw0",port="LOCAL"} 0`,
		`baton_forwarder_channels{endpoint="tcp:192.0.2.7:6653",role="master"} 1`,
		`baton_forwarder_channels{endpoint="tcp:127.0.0.1:6654",role="slave"} 0`,
		`baton_forwarder_channel_messages_refused_total{endpoint="tcp:192.0.2.7:6653"} 1`,
		`baton_forwarder_packet_ins_dropped_total{endpoint="tcp:192.0.2.7:6653"} 4`,
		`baton_forwarder_connections_rejected_total{endpoint="tcp:127.0.0.1:6654"} 5`,
		`baton_forwarder_journal_bytes 512`,
		`baton_forwarder_messages_total{message="flow_mod",outcome="done"} 2`,
		`baton_forwarder_messages_total{message="flow_mod",outcome="refused"} 1`,
		`baton_forwarder_messages_total{message="flow_mod",outcome="failed"} 0`,
		`baton_forwarder_messages_total{message="group_mod",outcome="failed"} 1`,
		`baton_forwarder_entries_removed_total{reason="idle_timeout"} 1`,
		`# TYPE baton_forwarder_table_entries gauge`,
		`# TYPE baton_forwarder_packets_total counter`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestScrapeOfAnEnding: what cannot be read leaves what can.
func TestScrapeOfAnEnding(t *testing.T) {
	h := metricsHandler("v1", func() (api.ForwarderStatus, error) { return api.ForwarderStatus{}, errEnding }, (&tally{}).series)
	if code, body := get(t, h, "/metrics"); code != http.StatusOK || !strings.Contains(body, "baton_forwarder_build_info") {
		t.Errorf("GET /metrics = %d %s", code, body)
	}
	if code, body := get(t, h, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, errEnding.Error()) {
		t.Errorf("GET /healthz = %d %s", code, body)
	}
}

func TestHealthz(t *testing.T) {
	up := api.ForwarderPort{Number: "1", Up: true}
	down := api.ForwarderPort{Number: "2"}
	connected := api.ForwarderEndpoint{Channels: []api.ForwarderChannel{{Role: "equal"}}}
	asked := api.ForwarderEndpoint{Listens: true}
	tests := []struct {
		name   string
		status api.ForwarderStatus
		want   string // "" for ready
	}{
		{"one of two ports", api.ForwarderStatus{Ports: []api.ForwarderPort{up, down}}, ""},
		{"no port", api.ForwarderStatus{Ports: []api.ForwarderPort{down, down}}, "no port is up (of 2)"},
		{"a controller", api.ForwarderStatus{Ports: []api.ForwarderPort{up}, Endpoints: []api.ForwarderEndpoint{{}, connected}}, ""},
		{"no controller", api.ForwarderStatus{Ports: []api.ForwarderPort{up}, Endpoints: []api.ForwarderEndpoint{{}, asked}},
			"no controller is connected (of 1)"},
		{"listens alone", api.ForwarderStatus{Ports: []api.ForwarderPort{up}, Endpoints: []api.ForwarderEndpoint{asked}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := metricsHandler("v1", func() (api.ForwarderStatus, error) { return tt.status, nil }, (&tally{}).series)
			code, body := get(t, h, "/healthz")
			wantCode, want := http.StatusOK, `{"ready":true,"reasons":[]}`+"\n"
			if tt.want != "" {
				wantCode, want = http.StatusServiceUnavailable, `{"ready":false,"reasons":["`+tt.want+`"]}`+"\n"
			}
			if code != wantCode || body != want {
				t.Errorf("got %d %s, want %d %s", code, body, wantCode, want)
			}
		})
	}
}

func TestServeMetricsEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- exporter.Serve(ctx, l, metricsHandler("v1", func() (api.ForwarderStatus, error) { return full(), nil }, (&tally{}).series))
	}()
	r, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || !strings.Contains(string(body), "baton_forwarder_entries 3") {
		t.Errorf("%v: %s", err, body)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
}
