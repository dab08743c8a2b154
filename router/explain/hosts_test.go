package explain

import (
	"fmt"
	"strings"
	"testing"

	"baton/router/config"
	"baton/router/route"
)

// hostRules are the rules of a VIP with a route for each of n hosts, and one for all others.
func hostRules(t testing.TB, n int) *Rules {
	t.Helper()
	cfg := &config.Config{
		VIPs: []config.VIP{{Mode: config.Handoff, Protocol: config.HTTP}, {Mode: config.Handoff, Protocol: config.TLS}},
		Pools: []config.Pool{
			{Name: "a", Surrogates: []config.Surrogate{{Name: "a1", Weight: 1}}},
			{Name: "b", Surrogates: []config.Surrogate{{Name: "b1", Weight: 1}}},
		},
	}
	for i := range n {
		name := fmt.Sprintf("h%d.net", i)
		for j, m := range []config.Match{{Host: name}, {SNI: name}} {
			cfg.VIPs[j].Routes = append(cfg.VIPs[j].Routes, config.Route{Match: m, Pool: "a", Line: i})
		}
	}
	for i := range cfg.VIPs {
		cfg.VIPs[i].Routes = append(cfg.VIPs[i].Routes, config.Route{Pool: "b", Line: n})
	}
	rules, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestExplainFewMisses: of thousands of routes that did not match ten are named, and the rest are counted.
func TestExplainFewMisses(t *testing.T) {
	rules := hostRules(t, 5000)
	for url, more := range map[string]int{
		"http://h4000.net:0/": 3990, "http://other.net:0/": 4990, "http://h10.net:0/": 0, "http://h3.net:0/": -7,
		"https://h4000.net:0/": 3990,
	} {
		e, err := rules.Explain(Question{URL: url}, AllUp)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Missed) != min(10, 10+more) || e.MissedMore != max(more, 0) || e.Decides != inKernel {
			t.Errorf("%s: %d misses and %d more, want %d more\n%s", url, len(e.Missed), e.MissedMore, more, e)
		}
		if want := fmt.Sprintf("nor %d more routes\n", more); strings.Contains(e.String(), want) != (more > 0) {
			t.Errorf("%s: %q in\n%s", url, want, e)
		}
	}
}

// TestExplainNoRoom: a host for which the kernel's tables have no room is decided in user space, and that is the
// reason.
func TestExplainNoRoom(t *testing.T) {
	rules := hostRules(t, 100)
	rules.Kernel = rules.Routes.Kernel(route.RoomOf(50))
	for url, want := range map[string]string{
		"http://h1.net:0/":    "",
		"http://h99.net:0/":   "the kernel's tables have no room for host h99.net",
		"https://h99.net:0/":  "the kernel's tables have no room for name h99.net",
		"http://other.net:0/": "the route on line 50 matches host h50.net, for which the kernel's tables have no room",
	} {
		e, err := rules.Explain(Question{URL: url}, AllUp)
		if err != nil {
			t.Fatal(err)
		}
		if (e.Decides == inKernel) != (want == "") || want != "" && e.Because != want {
			t.Errorf("%s: in %s because %q, want %q", url, e.Decides, e.Because, want)
		}
	}
}

// BenchmarkExplain answers a question: the time must not grow with the number of hosts.
func BenchmarkExplain(b *testing.B) {
	for _, n := range []int{100, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rules := hostRules(b, n)
			q := Question{URL: fmt.Sprintf("http://h%d.net:0/", n-1)}
			for b.Loop() {
				if _, err := rules.Explain(q, AllUp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
