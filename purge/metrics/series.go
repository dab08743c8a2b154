// Package metrics exports the status of a purge to Prometheus and /healthz. Every name begins with baton_purge_.
package metrics

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"baton/api"
	"baton/exporter"
)

const namespace = "baton_purge"

type numbers struct{ exporter.Numbers }

// Handler serves /metrics and /healthz. status is called at each request, perhaps from several goroutines.
func Handler(version string, status func() (api.PurgeStatus, error)) http.Handler {
	return exporter.Process[api.PurgeStatus]{Namespace: namespace, Version: version, Status: status, Series: Series, Unready: Unready}.Handler()
}

// Series are the numbers of a purge.
func Series(s *api.PurgeStatus) []exporter.Number {
	var n numbers
	n.Gauge("waiting_connections", "Marked connections, which are dormant unless they answer in time.", float64(s.Waiting.Used))
	n.Gauge("waiting_connections_limit", "How many connections may be marked at one time.", float64(s.Waiting.Limit))
	for i := range s.Policies {
		n.ofPolicy(&s.Policies[i])
	}
	const resets = "Resets sent in addition to the kernel's, by result."
	n.Counter("resets_total", resets, s.Resets, "result", "sent")
	n.Counter("resets_total", resets, s.ResetsFailed, "result", "failed")
	for _, v := range slices.Sorted(maps.Keys(s.Verdicts)) {
		n.Counter("verdicts_total", "Connections and timeouts, by the kernel program's verdict.", s.Verdicts[v], "verdict", v)
	}
	for _, f := range s.Features {
		n.Yes("feature_used", "1 when the kernel and the capabilities of the process allow it.", f.Used, "feature", f.Name)
	}
	for _, g := range s.Cgroups {
		n.Yes("cgroup_watched", "1 when the control group exists.", !slices.Contains(s.CgroupsMissing, g), "cgroup", g)
	}
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.Reloads, "result", "ok")
	n.Counter("config_reloads_total", "Reloads of the configuration, by result.", s.ReloadsFailed, "result", "failed")
	n.Gauge("config_loaded_timestamp_seconds", "When the configuration in force was loaded.", float64(s.Loaded.UnixNano())/1e9)
	return n.Numbers
}

func (n *numbers) ofPolicy(p *api.PurgePolicy) {
	n.Yes("policy_in_force", "1 when the policy is configured and not a dry run.", p.InForce && !p.DryRun, "policy", p.Name)
	n.Counter("marks_total", "Times a connection became unresponsive and was marked.", p.Marked, "policy", p.Name)
	n.Counter("marks_found_total", "Of these, connections that were unresponsive before the start or reload.", p.Found, "policy", p.Name)
	for _, o := range []struct {
		outcome string
		n       uint64
	}{
		{"ended", p.Ended}, {"heard", p.Heard}, {"gone", p.Gone}, {"spared", p.Spared}, {"dropped", p.Dropped}, {"failed", p.Failed},
	} {
		n.Counter("connections_total", "Marked connections, by outcome.", o.n, "policy", p.Name, "outcome", o.outcome)
	}
}

// Unready lists why a purge is not working; empty when it is.
func Unready(s *api.PurgeStatus) []string {
	reasons := []string{}
	for _, g := range s.CgroupsMissing {
		reasons = append(reasons, fmt.Sprintf("control group %s does not exist", g))
	}
	return reasons
}
