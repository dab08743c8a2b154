package metrics

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"baton/api"
	"baton/exporter"
)

// full has at least one series of each name.
func full() api.RelayStatus {
	at := netip.MustParseAddrPort
	return api.RelayStatus{
		Process: api.Process{Loaded: time.Unix(1700000000, 0), Reloads: 1, ReloadsFailed: 2}, Flows: api.Usage{Used: 5, Limit: 100},
		Workers: []api.RelayWorker{
			{Worker: 0, Live: 3, Flows: 7, Refused: map[string]uint64{"no_trunk": 2, "refused": 0}, Expired: map[string]uint64{"header": 1}, Spliced: 1 << 40},
			{Worker: 1, Early: 4, Probes: 5, Rerouted: 13, Refused: map[string]uint64{"no_trunk": 3}, Copied: 6, Pipes: 7, WithoutPipe: 8, Full: 9, BadClientHeaders: 10,
				BadTrunkHeaders: 11, BadHandshakes: 12},
		},
		Entries: []api.RelayEntry{{Name: "web", Open: true, Mode: "plain", Live: 3, Flows: 7}, {Name: "old", Live: 1}},
		Trunks:  &api.RelayTrunks{Open: true, Waiting: api.Usage{Used: 1, Limit: 4096}, Live: 1, Flows: 2},
		Peers: []api.RelayPeer{
			{Name: "mumbai", RTT: 215 * time.Millisecond, Ready: 4, Opening: 1, Waiting: 2, Opened: 3, Taken: 5, Missed: 6, Stale: 7, Unopened: 8, Broken: 9,
				Replayed: 10},
			{Name: "dubai", Down: true, Failure: "connection refused"},
		},
		Choice:  &api.RelayChoice{Destinations: 3, Chosen: 2, Changes: 5, Probes: 70},
		Packets: map[string]uint64{"steered": 9, "pass": 0},
		Starts: []api.RelayStart{{Trunks: "to", Address: at("203.0.113.7:7000"), Window: 40, Established: 1, Flights: 2, Sent: 3, Retransmitted: 4,
			Refused: 5}},
	}
}

func get(t *testing.T, path string, status func() (api.RelayStatus, error)) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	Handler("v1", status).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	return rec.Code, rec.Body.String()
}

func is(s api.RelayStatus, err error) func() (api.RelayStatus, error) {
	return func() (api.RelayStatus, error) { return s, err }
}

func TestSeries(t *testing.T) {
	code, body := get(t, "/metrics", is(full(), nil))
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	got := strings.Split(body, "\n")
	for _, want := range []string{
		`baton_relay_build_info{version="v1"} 1`,
		`baton_relay_flows{entry="web"} 3`,
		`baton_relay_flows{entry="old"} 1`,
		`baton_relay_flows_total{entry="web"} 7`,
		`# TYPE baton_relay_flows gauge`,
		`# TYPE baton_relay_flows_total counter`,
		`baton_relay_flows_limit 100`,
		`baton_relay_entry_open{entry="web"} 1`,
		`baton_relay_entry_open{entry="old"} 0`,
		`baton_relay_stopping 0`,
		`baton_relay_refused_total{status="no_trunk"} 5`,
		`baton_relay_refused_total{status="refused"} 0`,
		`baton_relay_expired_total{wait="header"} 1`,
		`baton_relay_worker_flows{worker="0"} 3`,
		`baton_relay_worker_flows_total{worker="0"} 7`,
		`baton_relay_early_flows_total{worker="1"} 4`,
		`baton_relay_probes_total{worker="1"} 5`,
		`baton_relay_flows_rerouted_total{worker="1"} 13`,
		`baton_relay_destinations 3`,
		`baton_relay_destinations_chosen 2`,
		`baton_relay_routes_changed_total 5`,
		`baton_relay_choice_probes_total 70`,
		`baton_relay_copied_bytes_total{worker="1"} 6`,
		`baton_relay_spliced_bytes_total{worker="0"} 1.099511627776e+12`,
		`baton_relay_pipes{worker="1"} 7`,
		`baton_relay_without_pipe_total{worker="1"} 8`,
		`baton_relay_full_total{worker="1"} 9`,
		`baton_relay_bad_headers_total{from="client",worker="1"} 10`,
		`baton_relay_bad_headers_total{from="trunk",worker="1"} 11`,
		`baton_relay_bad_handshakes_total{worker="1"} 12`,
		`baton_relay_trunks_waiting 1`,
		`baton_relay_trunks_waiting_limit 4096`,
		`baton_relay_trunk_flows 1`,
		`baton_relay_trunk_flows_total 2`,
		`baton_relay_peer_up{peer="mumbai"} 1`,
		`baton_relay_peer_up{peer="dubai"} 0`,
		`baton_relay_peer_rtt_seconds{peer="mumbai"} 0.215`,
		`baton_relay_trunks_ready{peer="mumbai"} 4`,
		`baton_relay_trunks_opening{peer="mumbai"} 1`,
		`baton_relay_flows_waiting{peer="mumbai"} 2`,
		`baton_relay_trunks_opened_total{peer="mumbai"} 3`,
		`baton_relay_trunks_taken_total{peer="mumbai"} 5`,
		`baton_relay_trunks_missed_total{peer="mumbai"} 6`,
		`baton_relay_trunks_stale_total{peer="mumbai"} 7`,
		`baton_relay_trunks_failed_total{peer="mumbai"} 8`,
		`baton_relay_trunks_broken_total{peer="mumbai"} 9`,
		`baton_relay_flows_replayed_total{peer="mumbai"} 10`,
		`baton_relay_packets_total{verdict="steered"} 9`,
		`baton_relay_start_window_segments{address="203.0.113.7:7000",trunks="to"} 40`,
		`baton_relay_trunks_established_total{address="203.0.113.7:7000",trunks="to"} 1`,
		`baton_relay_first_flights_total{address="203.0.113.7:7000",trunks="to"} 2`,
		`baton_relay_first_flight_segments_total{address="203.0.113.7:7000",trunks="to"} 3`,
		`baton_relay_first_flight_retransmits_total{address="203.0.113.7:7000",trunks="to"} 4`,
		`baton_relay_start_settings_refused_total{address="203.0.113.7:7000",trunks="to"} 5`,
		`baton_relay_config_reloads_total{result="ok"} 1`,
		`baton_relay_config_reloads_total{result="failed"} 2`,
		`baton_relay_config_loaded_timestamp_seconds 1.7e+09`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(body, `peer_rtt_seconds{peer="dubai"}`) {
		t.Error("a round-trip time that nobody has measured")
	}
}

func TestNamesAreClean(t *testing.T) {
	_, body := get(t, "/metrics", is(full(), nil))
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, namespace) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for line := range strings.Lines(body) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok &&
			!strings.HasPrefix(name, namespace+"_") && !strings.HasPrefix(name, "go_") &&
			!strings.HasPrefix(name, "process_") && !strings.HasPrefix(name, "promhttp_") {
			t.Errorf("name without the prefix: %s", name)
		}
	}
}

// What is not the relay's is told of when the relay does not answer.
func TestStatusFails(t *testing.T) {
	status := is(api.RelayStatus{}, errors.New("the worker has ended"))
	if code, body := get(t, "/metrics", status); code != http.StatusOK || !strings.Contains(body, "go_goroutines ") {
		t.Errorf("GET /metrics = %d %s", code, body)
	}
	if code, body := get(t, "/healthz", status); code != http.StatusServiceUnavailable || !strings.Contains(body, "the worker has ended") {
		t.Errorf("GET /healthz = %d %s", code, body)
	}
}

func TestHealthz(t *testing.T) {
	tests := []struct {
		name   string
		change func(*api.RelayStatus)
		want   string
	}{
		{"all is well", func(s *api.RelayStatus) { s.Peers = s.Peers[:1] }, `{"ready":true,"reasons":[]}`},
		{"a peer is down", func(*api.RelayStatus) {}, `{"ready":false,"reasons":["no trunk to dubai: connection refused"]}`},
		{"a peer is down, and trunks are ready", func(s *api.RelayStatus) { s.Peers[1].Ready = 1 }, `{"ready":true,"reasons":[]}`},
		{"closed", func(s *api.RelayStatus) {
			s.Peers, s.Stopping, s.Entries[0].Open, s.Trunks.Open = nil, true, false, false
		}, `{"ready":false,"reasons":["no new flows are accepted","entry web is not open","trunks are not accepted"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := full()
			tt.change(&s)
			code, body := get(t, "/healthz", is(s, nil))
			if want := strings.HasPrefix(tt.want, `{"ready":true`); (code == 200) != want || strings.TrimSpace(body) != tt.want {
				t.Errorf("GET /healthz = %d %s, want %s", code, body, tt.want)
			}
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- exporter.Serve(ctx, l, Handler("v1", is(full(), nil))) }()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: 10 * time.Second}
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 503, "/": 404} {
		res, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("GET %s = %d, want %d", path, res.StatusCode, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v, want nil", err)
	}
	if c, err := net.Dial("tcp4", l.Addr().String()); err == nil {
		c.Close()
		t.Error("the listener is still open")
	}
}
