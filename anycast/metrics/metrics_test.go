package metrics

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"baton/api"
)

func status() api.AnycastStatus {
	load := 0.5
	return api.AnycastStatus{
		Site: &api.AnycastSite{
			Levels: []api.AnycastLevel{{Name: "announce"}, {Name: "med"}, {Name: "withdraw"}}, Level: "med", Health: "up", Load: &load, Penalty: 500, Budget: 1000,
			Changes: 3, Held: "dwell", Checks: []api.AnycastCheck{{Name: "web", Health: "up"}}, Loads: []api.AnycastLoad{{Name: "uplink", Share: &load}, {Name: "lost", Error: "late"}},
			Peers: []api.AnycastPeer{{Name: "r1", State: "established", Ups: 2}, {Name: "r2", State: "active"}}, Others: []api.AnycastNeighbor{{Name: "paris", Alive: true}},
			Proposal: &api.AnycastProposal{},
		},
		Planner: &api.AnycastPlanner{
			Sites: []api.AnycastNeighbor{{Name: "paris", Alive: true, Load: &load}}, Forwarders: []string{"000000000000002a"}, Overload: 7,
			Map: []api.AnycastIngress{{Name: "west", Site: "paris", Demand: 1000}, {Name: "east"}}, Next: []api.AnycastMove{{Step: 1}},
		},
	}
}

func TestHandler(t *testing.T) {
	s := status()
	var broken error
	server := httptest.NewServer(Handler("v1", func() (api.AnycastStatus, error) { return s, broken }))
	defer server.Close()
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	_, text := get("/metrics")
	for _, want := range []string{
		"baton_anycast_level 1", `baton_anycast_level_in_force{level="med"} 1`, `baton_anycast_level_in_force{level="announce"} 0`,
		"baton_anycast_level_changes_total 3", "baton_anycast_level_held 1", "baton_anycast_flap_penalty 500", "baton_anycast_flap_budget 1000",
		"baton_anycast_healthy 1", `baton_anycast_check_healthy{check="web"} 1`, "baton_anycast_load_ratio 0.5", `baton_anycast_measured_load_ratio{load="uplink"} 0.5`,
		`baton_anycast_measurement_failed{load="lost"} 1`, "baton_anycast_instruction_active 0", `baton_anycast_session_up{peer="r2"} 0`,
		`baton_anycast_session_ups_total{peer="r1"} 2`, `baton_anycast_other_alive{site="paris"} 1`, "baton_anycast_proposal_fresh 0",
		`baton_anycast_planner_site_alive{site="paris"} 1`, `baton_anycast_planner_site_load_ratio{site="paris"} 0.5`, "baton_anycast_planner_forwarders 1",
		"baton_anycast_planner_overload_bytes_per_second 7", "baton_anycast_planner_moves_left 1", `baton_anycast_planner_demand_bytes_per_second{ingress="west"} 1000`,
		`baton_anycast_planner_mapped{ingress="east"} 0`, `baton_anycast_build_info{version="v1"} 1`, `baton_anycast_config_reloads_total{result="failed"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, `measured_load_ratio{load="lost"}`) {
		t.Error("a measurement that never succeeded is exported")
	}
	if code, text := get("/healthz"); code != http.StatusOK || !strings.Contains(text, `"ready":true`) {
		t.Errorf("/healthz: %d %s", code, text)
	}
	broken = errors.New("no state")
	if code, text := get("/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(text, "no state") {
		t.Errorf("/healthz of one that is broken: %d %s", code, text)
	}
}

func TestUnready(t *testing.T) {
	tests := []struct {
		name   string
		change func(s *api.AnycastStatus)
		want   string
	}{
		{"ready", func(*api.AnycastStatus) {}, ""},
		{"down", func(s *api.AnycastStatus) { s.Site.Health, s.Site.Cause = "down", "check web: status 503" }, "health is down: check web: status 503"},
		{"no session", func(s *api.AnycastStatus) { s.Site.Peers[0].State = "active" }, "there is no session with any router"},
		{"no router", func(s *api.AnycastStatus) { s.Site.Peers = nil }, ""},
		{"routers that could not be updated", func(s *api.AnycastStatus) { s.Site.Fault = "announce: it is closed" }, "announce: it is closed"},
		{"a site that does not report", func(s *api.AnycastStatus) { s.Planner.Sites[0].Alive = false }, "site paris is not known to be up: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := status()
			tt.change(&s)
			if got := strings.Join(Unready(&s), "; "); got != tt.want {
				t.Errorf("Unready: %q, want %q", got, tt.want)
			}
		})
	}
}
