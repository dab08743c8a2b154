// Package metrics exports the status of a site or a planner to Prometheus and /healthz. Every name begins with
// baton_anycast_.
package metrics

import (
	"fmt"
	"net/http"

	"baton/api"
	"baton/exporter"
)

const namespace = "baton_anycast"

type numbers struct{ exporter.Numbers }

// Handler serves /metrics and /healthz. status is called at each request, perhaps from several goroutines.
func Handler(version string, status func() (api.AnycastStatus, error)) http.Handler {
	return exporter.Process[api.AnycastStatus]{Namespace: namespace, Version: version, Status: status, Series: Series, Unready: Unready}.Handler()
}

// Series are the metrics of a process.
func Series(s *api.AnycastStatus) []exporter.Number {
	var n numbers
	if s.Site != nil {
		n.ofSite(s.Site)
	}
	if s.Planner != nil {
		n.ofPlanner(s.Planner)
	}
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.Reloads, "result", "ok")
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.ReloadsFailed, "result", "failed")
	n.Gauge("config_loaded_timestamp_seconds", "When the configuration in force was loaded.", float64(s.Loaded.UnixNano())/1e9)
	return n.Numbers
}

func (n *numbers) ofSite(s *api.AnycastSite) {
	for i, l := range s.Levels {
		if l.Name == s.Level {
			n.Gauge("level", "Step of the ladder that is in force: 0 is a plain announcement.", float64(i))
		}
		n.Yes("level_in_force", "1 for the level that is in force.", l.Name == s.Level, "level", l.Name)
	}
	n.Counter("level_changes_total", "Changes of the level.", s.Changes)
	n.Yes("level_held", "1 when another level is wanted, and dwell or the flap budget forbids it.", s.Held != "")
	n.Gauge("flap_penalty", "Penalty of routers that damp routes, as far as the site knows.", s.Penalty)
	n.Gauge("flap_budget", "Penalty that changes of the site's own choice do not exceed; 0: no bound.", s.Budget)
	n.Yes("healthy", "1 when all checks say so.", s.Health == "up")
	for _, c := range s.Checks {
		n.Yes("check_healthy", "1 when the check says so.", c.Health == "up", "check", c.Name)
	}
	if s.Load != nil {
		n.Gauge("load_ratio", "Load, as a share of the capacity; absent when it is not known.", *s.Load)
	}
	for _, l := range s.Loads {
		if l.Share != nil {
			n.Gauge("measured_load_ratio", "The last measurement, as a share of the capacity.", *l.Share, "load", l.Name)
		}
		n.Yes("measurement_failed", "1 when the last attempt to measure has failed.", l.Error != "", "load", l.Name)
	}
	n.Yes("instruction_active", "1 while an operator's instruction is in force.", s.Instruction.Kind != "")
	for _, p := range s.Peers {
		n.Yes("session_up", "1 when routes are exchanged with the router.", p.State == "established", "peer", p.Name)
		n.Counter("session_ups_total", "Times that the session was established.", uint64(p.Ups), "peer", p.Name)
	}
	for _, o := range s.Others {
		n.Yes("other_alive", "1 when another site is known to be up and to announce.", o.Alive, "site", o.Name)
	}
	if s.Proposal != nil {
		n.Yes("proposal_fresh", "1 when the planner's proposal is fresh enough to be used.", s.Proposal.Fresh)
	}
}

func (n *numbers) ofPlanner(p *api.AnycastPlanner) {
	for _, s := range p.Sites {
		n.Yes("planner_site_alive", "1 when the site reports to the planner that it is up.", s.Alive, "site", s.Name)
		if s.Load != nil {
			n.Gauge("planner_site_load_ratio", "Load that the site reports, as a share of its capacity.", *s.Load, "site", s.Name)
		}
	}
	n.Gauge("planner_forwarders", "Forwarders that are connected to the planner.", float64(len(p.Forwarders)))
	n.Gauge("planner_overload_bytes_per_second", "Bytes per second above capacities that the best map leaves.", p.Overload)
	n.Gauge("planner_moves_left", "Moves between the map there is and the best.", float64(len(p.Next)))
	for _, in := range p.Map {
		n.Gauge("planner_demand_bytes_per_second", "Bytes per second that an ingress asks of its site, as far as the planner knows.", in.Demand,
			"ingress", in.Name)
		n.Yes("planner_mapped", "1 when the ingress leads to a site.", in.Site != "", "ingress", in.Name)
	}
}

// Unready lists why a process is not working; empty when it is.
func Unready(s *api.AnycastStatus) []string {
	reasons := []string{}
	if site := s.Site; site != nil {
		if site.Health != "up" {
			reasons = append(reasons, fmt.Sprintf("health is %s: %s", site.Health, site.Cause))
		}
		if site.Fault != "" {
			reasons = append(reasons, site.Fault)
		}
		up := 0
		for _, p := range site.Peers {
			if p.State == "established" {
				up++
			}
		}
		if up == 0 && len(site.Peers) > 0 {
			reasons = append(reasons, "there is no session with any router")
		}
	}
	if p := s.Planner; p != nil {
		for _, n := range p.Sites {
			if !n.Alive {
				reasons = append(reasons, fmt.Sprintf("site %s is not known to be up: %s", n.Name, n.Error))
			}
		}
	}
	return reasons
}
