package metrics

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"baton/api"
)

func TestSeries(t *testing.T) {
	s := api.NameserverStatus{
		Queries: 1, Answers: map[string]uint64{"routed": 2}, Refused: map[string]uint64{"REFUSED": 3}, Ignored: 4, Truncated: 5, Omitted: 6, Slipped: 7, Unsent: 8, Subnets: 9,
		Cookies: 10, DNSSEC: 11, Transfers: 12, Connections: api.Usage{Used: 13, Limit: 14}, ConnectionsRefused: 15,
		Zones: []api.NameserverZone{{Name: "example.test.", Serial: 16, Records: 17, Error: "z:1: wrong",
			Keys: []api.NameserverKey{{Tag: 29, Role: "ZSK", Signs: true, At: new(time.Unix(30, 0))}}}},
		Services:   []api.NameserverService{{Name: "content", Decisions: 18, Fallbacks: 19}},
		Surrogates: []api.NameserverSurrogate{{Name: "se1", Up: true, State: "maintenance", Weight: 20, Chosen: 21, Sessions: 22}},
		Sites:      []api.NameserverSite{{Name: "west", Sessions: 23, Full: true}},
		Controller: &api.NameserverController{Source: "kept", Heard: new(time.Unix(24, 0)), Connections: 25, Malformed: 26, Surrogates: 27, Zones: 28},
	}
	get := func(path string) (int, string) {
		rec := httptest.NewRecorder()
		Handler("v1", func() (api.NameserverStatus, error) { return s, nil }).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		return rec.Code, rec.Body.String()
	}
	_, body := get("/metrics")
	for _, line := range []string{
		"queries_total 1", `answers_total{kind="routed"} 2`, `refused_total{code="REFUSED"} 3`, "ignored_total 4", "truncated_total 5", `limited_total{outcome="omitted"} 6`,
		`limited_total{outcome="slipped"} 7`, "unsent_total 8", "subnet_queries_total 9", "cookie_queries_total 10", "dnssec_queries_total 11", "transfers_total 12",
		"tcp_connections 13", "tcp_connections_limit 14", "tcp_connections_refused_total 15", `zone_serial{zone="example.test."} 16`, `zone_records{zone="example.test."} 17`,
		`zone_stale{zone="example.test."} 1`, `decisions_total{service="content"} 18`, `fallbacks_total{service="content"} 19`, `surrogate_up{surrogate="se1"} 1`,
		`surrogate_in_service{surrogate="se1"} 0`, `surrogate_weight{surrogate="se1"} 20`, `surrogate_chosen_total{surrogate="se1"} 21`,
		`surrogate_sessions{surrogate="se1"} 22`, `site_sessions{site="west"} 23`, `site_full{site="west"} 1`, `state_source{source="kept"} 1`, `state_source{source="checks"} 0`,
		"controller_connected 0", "controller_heard_timestamp_seconds 24", "controller_connections_total 25", "controller_malformed_total 26", "controller_surrogates 27",
		"controller_zones 28", `zone_key_signs{key="29",role="ZSK",zone="example.test."} 1`, `zone_key_next_timestamp_seconds{key="29",role="ZSK",zone="example.test."} 30`,
	} {
		if !strings.Contains(body, "\nbaton_nameserver_"+line+"\n") {
			t.Errorf("%q is not in\n%s", line, body)
		}
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	problems = slices.DeleteFunc(problems, func(p promlint.Problem) bool { return !strings.HasPrefix(p.Metric, "baton_") })
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if code, body := get("/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "zone example.test. is not as its file is: z:1: wrong") {
		t.Errorf("%d %s", code, body)
	}
	s.Zones[0].Error = ""
	if code, body := get("/healthz"); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
}
