package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"baton/api"
)

// full has at least one series of each name.
func full() api.BalanceStatus {
	return api.BalanceStatus{
		Process: api.Process{Loaded: time.Unix(1700000000, 0), Reloads: 1, ReloadsFailed: 2}, Flows: api.Usage{Used: 3, Limit: 100}, Resets: 5,
		Links: []api.BalanceLink{
			{
				Name: "fibre", State: api.BalanceUsed, Weight: 100, Active: 6, Flows: 7, Connections: 12, Sent: 8, Received: 9, RTT: 250 * time.Millisecond, Loss: 0.25,
				Capacity: 1e8,
			},
			{Name: "lte", State: api.BalanceStandby, Weight: 10, Cap: &api.BalanceCap{Used: 10, Bytes: 11}},
			{Name: "dsl", State: "no carrier"},
		},
		Verdicts: map[string]uint64{"output": 21, "drop_bind_gone": 0},
	}
}

func get(t *testing.T, path string, s api.BalanceStatus, failure error) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	Handler("v1", func() (api.BalanceStatus, error) { return s, failure }).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	return rec.Code, rec.Body.String()
}

func TestSeries(t *testing.T) {
	code, body := get(t, "/metrics", full(), nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for _, line := range []string{
		"baton_balance_flows 3", "baton_balance_flows_limit 100",
		`baton_balance_link_usable{link="fibre"} 1`, `baton_balance_link_usable{link="lte"} 1`, `baton_balance_link_usable{link="dsl"} 0`,
		`baton_balance_link_used{link="fibre"} 1`, `baton_balance_link_used{link="lte"} 0`,
		`baton_balance_link_weight{link="fibre"} 100`,
		`baton_balance_link_flows_active{link="fibre"} 6`, `baton_balance_link_flows{link="fibre"} 7`, `baton_balance_link_connections_total{link="fibre"} 12`,
		`baton_balance_link_bytes_total{direction="sent",link="fibre"} 8`, `baton_balance_link_bytes_total{direction="received",link="fibre"} 9`,
		`baton_balance_link_rtt_seconds{link="fibre"} 0.25`, `baton_balance_link_loss_ratio{link="fibre"} 0.25`,
		`baton_balance_link_capacity_bytes_per_second{link="fibre"} 1.25e+07`,
		`baton_balance_link_cap_used_bytes{link="lte"} 10`, `baton_balance_link_cap_bytes{link="lte"} 11`,
		"baton_balance_resets_total 5",
		`baton_balance_verdicts_total{verdict="output"} 21`, `baton_balance_verdicts_total{verdict="drop_bind_gone"} 0`,
		`baton_balance_config_reloads_total{result="ok"} 1`, `baton_balance_config_reloads_total{result="failed"} 2`,
		"baton_balance_config_loaded_timestamp_seconds 1.7e+09", `baton_balance_build_info{version="v1"} 1`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("%q is not in\n%s", line, body)
		}
	}
	for _, none := range []string{`link_rtt_seconds{link="lte"}`, `link_cap_bytes{link="fibre"}`} {
		if strings.Contains(body, none) {
			t.Errorf("%s is reported though it is unknown", none)
		}
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	problems = slices.DeleteFunc(problems, func(p promlint.Problem) bool { return !strings.HasPrefix(p.Metric, namespace) })
	if len(problems) > 0 {
		t.Errorf("%v", problems)
	}
	if code, body := get(t, "/metrics", api.BalanceStatus{}, errors.New("no maps")); code != http.StatusOK || strings.Contains(body, "baton_balance_flows") {
		t.Errorf("of one that is broken: %d %s", code, body)
	}
}

func TestHealth(t *testing.T) {
	none := full()
	none.Links[0].State, none.Links[1].State = "dead", "over its cap"
	tests := []struct {
		name    string
		s       api.BalanceStatus
		failure error
		code    int
		want    string
	}{
		{"ready", full(), nil, http.StatusOK, `{"ready":true,"reasons":[]}`},
		{
			"no link", none, nil, http.StatusServiceUnavailable,
			`{"ready":false,"reasons":["link fibre: dead","link lte: over its cap","link dsl: no carrier"]}`,
		},
		{"broken", full(), errors.New("no maps"), http.StatusServiceUnavailable, `{"ready":false,"reasons":["no maps"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if code, body := get(t, "/healthz", tt.s, tt.failure); code != tt.code || strings.TrimSpace(body) != tt.want {
				t.Errorf("%d %s, want %d %s", code, body, tt.code, tt.want)
			}
		})
	}
}
