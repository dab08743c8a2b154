package metrics

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"baton/api"
	"baton/exporter"
)

// full has at least one series of each name.
func full() api.PurgeStatus {
	return api.PurgeStatus{
		Process: api.Process{Loaded: time.Unix(1700000000, 0), Reloads: 1, ReloadsFailed: 2}, Waiting: api.Usage{Used: 3, Limit: 100}, Resets: 5, ResetsFailed: 6,
		Features: []api.Feature{{Name: "resets", Used: true}, {Name: "orphans"}},
		Cgroups:  []string{"/a", "/b"}, CgroupsMissing: []string{"/b"},
		Policies: []api.PurgePolicy{
			{Name: "web", InForce: true, Marked: 20, Found: 7, Ended: 8, Spared: 9, Heard: 10, Gone: 11, Dropped: 12, Failed: 13},
			{Name: "tried", InForce: true, DryRun: true},
		},
		Verdicts: map[string]uint64{"watched": 21, "shut": 0},
	}
}

func get(t *testing.T, path string, s api.PurgeStatus, failure error) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	Handler("v1", func() (api.PurgeStatus, error) { return s, failure }).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	return rec.Code, rec.Body.String()
}

func TestSeries(t *testing.T) {
	code, body := get(t, "/metrics", full(), nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for _, line := range []string{
		"baton_purge_waiting_connections 3", "baton_purge_waiting_connections_limit 100",
		`baton_purge_policy_in_force{policy="web"} 1`, `baton_purge_policy_in_force{policy="tried"} 0`,
		`baton_purge_marks_total{policy="web"} 20`, `baton_purge_marks_found_total{policy="web"} 7`,
		`baton_purge_connections_total{outcome="ended",policy="web"} 8`, `baton_purge_connections_total{outcome="spared",policy="web"} 9`,
		`baton_purge_connections_total{outcome="heard",policy="web"} 10`, `baton_purge_connections_total{outcome="gone",policy="web"} 11`,
		`baton_purge_connections_total{outcome="dropped",policy="web"} 12`, `baton_purge_connections_total{outcome="failed",policy="web"} 13`,
		`baton_purge_resets_total{result="sent"} 5`, `baton_purge_resets_total{result="failed"} 6`,
		`baton_purge_verdicts_total{verdict="watched"} 21`, `baton_purge_verdicts_total{verdict="shut"} 0`,
		`baton_purge_feature_used{feature="resets"} 1`, `baton_purge_feature_used{feature="orphans"} 0`,
		`baton_purge_cgroup_watched{cgroup="/a"} 1`, `baton_purge_cgroup_watched{cgroup="/b"} 0`,
		`baton_purge_config_reloads_total{result="ok"} 1`, `baton_purge_config_reloads_total{result="failed"} 2`,
		"baton_purge_config_loaded_timestamp_seconds 1.7e+09", `baton_purge_build_info{version="v1"} 1`,
	} {
		if !strings.Contains(body, "\n"+line+"\n") {
			t.Errorf("%q is not in\n%s", line, body)
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
	if code, body := get(t, "/metrics", api.PurgeStatus{}, errors.New("no maps")); code != http.StatusOK || strings.Contains(body, "baton_purge_waiting") {
		t.Errorf("of one that is broken: %d %s", code, body)
	}
}

func TestHealth(t *testing.T) {
	whole := full()
	whole.CgroupsMissing = nil
	tests := []struct {
		name    string
		s       api.PurgeStatus
		failure error
		code    int
		want    string
	}{
		{"ready", whole, nil, http.StatusOK, `{"ready":true,"reasons":[]}`},
		{"a group is missing", full(), nil, http.StatusServiceUnavailable, `{"ready":false,"reasons":["control group /b does not exist"]}`},
		{"broken", whole, errors.New("no maps"), http.StatusServiceUnavailable, `{"ready":false,"reasons":["no maps"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if code, body := get(t, "/healthz", tt.s, tt.failure); code != tt.code || strings.TrimSpace(body) != tt.want {
				t.Errorf("%d %s, want %d %s", code, body, tt.code, tt.want)
			}
		})
	}
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- exporter.Serve(ctx, l, Handler("v1", func() (api.PurgeStatus, error) { return full(), nil }))
	}()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", r, err)
	}
	r.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
