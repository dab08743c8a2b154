// Package metrics is what a purge tells Prometheus, and /healthz: its status in numbers. Every name begins with baton_purge_.
package metrics

import (
	"fmt"
	"maps"
	"slices"

	"baton/api"
)

const namespace = "baton_purge"

// Number is one series at the time of a scrape.
type Number struct {
	Name   string // without the prefix
	Help   string
	Labels map[string]string
	Value  float64
	Gauge  bool // the value may fall
}

type numbers []Number

func (n *numbers) add(gauge bool, name, help string, value float64, labels []string) {
	x := Number{Name: name, Help: help, Value: value, Gauge: gauge}
	for i := 0; i < len(labels); i += 2 {
		if x.Labels == nil {
			x.Labels = make(map[string]string)
		}
		x.Labels[labels[i]] = labels[i+1]
	}
	*n = append(*n, x)
}

func (n *numbers) counter(name, help string, value uint64, labels ...string) {
	n.add(false, name, help, float64(value), labels)
}

func (n *numbers) gauge(name, help string, value float64, labels ...string) {
	n.add(true, name, help, value, labels)
}

func (n *numbers) yes(name, help string, is bool, labels ...string) {
	value := 0.0
	if is {
		value = 1
	}
	n.gauge(name, help, value, labels...)
}

// Series are the numbers of a purge.
func Series(s *api.PurgeStatus) []Number {
	var n numbers
	n.gauge("waiting_connections", "Connections that are dormant unless they are heard of.", float64(s.Waiting.Used))
	n.gauge("waiting_connections_limit", "How many may be waited for at one time.", float64(s.Waiting.Limit))
	for i := range s.Policies {
		n.ofPolicy(&s.Policies[i])
	}
	const resets = "Resets beside the kernel's, by result."
	n.counter("resets_total", resets, s.Resets, "result", "sent")
	n.counter("resets_total", resets, s.ResetsFailed, "result", "failed")
	for _, v := range slices.Sorted(maps.Keys(s.Verdicts)) {
		n.counter("verdicts_total", "Connections and timeouts, by what the kernel made of them.", s.Verdicts[v], "verdict", v)
	}
	for _, f := range s.Features {
		n.yes("feature_used", "1 when the kernel and the user's rights allow it.", f.Used, "feature", f.Name)
	}
	for _, g := range s.Cgroups {
		n.yes("cgroup_watched", "1 when there is this control group.", !slices.Contains(s.CgroupsMissing, g), "cgroup", g)
	}
	n.counter("config_reloads_total", "Reloads of the configuration, by result.", s.Reloads, "result", "ok")
	n.counter("config_reloads_total", "Reloads of the configuration, by result.", s.ReloadsFailed, "result", "failed")
	n.gauge("config_loaded_timestamp_seconds", "When the configuration in force was loaded.", float64(s.Loaded.UnixNano())/1e9)
	return n
}

func (n *numbers) ofPolicy(p *api.PurgePolicy) {
	n.yes("policy_in_force", "1 when the policy is in the configuration and no dry run.", p.InForce && !p.DryRun, "policy", p.Name)
	n.counter("marks_total", "Silences that would make a connection dormant.", p.Marked, "policy", p.Name)
	n.counter("marks_found_total", "Of them, those that were there before the purge.", p.Found, "policy", p.Name)
	for _, o := range []struct {
		outcome string
		n       uint64
	}{
		{"ended", p.Ended}, {"heard", p.Heard}, {"gone", p.Gone}, {"spared", p.Spared}, {"dropped", p.Dropped}, {"failed", p.Failed},
	} {
		n.counter("connections_total", "Marked connections, by what became of them.", o.n, "policy", p.Name, "outcome", o.outcome)
	}
}

// Unready says why a purge cannot do what it is there for; nothing: it can.
func Unready(s *api.PurgeStatus) []string {
	reasons := []string{}
	for _, g := range s.CgroupsMissing {
		reasons = append(reasons, fmt.Sprintf("there is no control group %s", g))
	}
	return reasons
}
