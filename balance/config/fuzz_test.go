package config

import (
	"strings"
	"testing"
)

// FuzzParse: error or value, never both, never neither, never a panic, and a message is one line. What is accepted can work.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{minimal, everything, "", "a: &a {b: *a}\n<<: *a\n",
		"links: [{interface: a, cap: {bytes: 1e300TB, every: week, day: 7}}]\ninternal: {ipv4: 1.1.1.1/30, ipv6: ff::/126}\n",
		"datapath: ovs\naffinity: 1s\nmethod: controller\nlinks: [a]\nrules: [{services: [tcp/1-65535, udp], application: {user: 0}}]\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("f", data)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v, want one of them", cfg, err)
		}
		if err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				oneLine(t, line)
			}
			return
		}
		for _, w := range cfg.Warnings {
			oneLine(t, w)
		}
		possible(t, cfg)
	})
}

func oneLine(t *testing.T, line string) {
	t.Helper()
	if strings.ContainsAny(line, "\n\r") || !strings.HasPrefix(line, "f:") {
		t.Fatalf("message is not one line of the file: %q", line)
	}
}

func possible(t *testing.T, cfg *Config) {
	t.Helper()
	if len(cfg.Links) == 0 || cfg.Name == "" || cfg.Control == "" || cfg.State == "" || cfg.Weights.Least > cfg.Weights.Most || cfg.Limits.Flows <= 0 {
		t.Fatalf("accepted an impossible balance: %+v", cfg)
	}
	if cfg.Datapath == OpenVSwitch && cfg.Method != Hash && cfg.Method != Controller {
		t.Fatalf("accepted %s on Open vSwitch", cfg.Method)
	}
	links, interfaces := make(map[string]bool), make(map[string]bool)
	for _, l := range cfg.Links {
		if l.Name == "" || l.Interface == "" || links[l.Name] || interfaces[l.Interface] || l.Weight < 0 || l.Weight > 65535 || len(l.Gateways) > 2 {
			t.Fatalf("accepted an impossible link: %+v", l)
		}
		if c := l.Cap; c != nil && (c.Bytes == 0 || c.Every == "" || c.Day < 1 || c.Every == Week && c.Day > 7) {
			t.Fatalf("accepted an impossible cap: %+v", c)
		}
		if p := l.Probe; p != nil && !p.Off && (p.Every <= 0 || p.Dead < p.Every) {
			t.Fatalf("accepted an impossible probe: %+v", p)
		}
		links[l.Name], interfaces[l.Interface] = true, true
	}
	for _, r := range cfg.Rules {
		for _, name := range r.Links {
			if !links[name] {
				t.Fatalf("accepted a rule with an unknown link: %+v", r)
			}
		}
		for _, s := range r.Services {
			if s.First > s.Last || s.Protocol == 0 {
				t.Fatalf("accepted an impossible service: %+v", s)
			}
		}
	}
	for class := range len(cfg.Applications()) + 1 {
		for _, a := range []struct{ gateway, own string }{
			{cfg.Internal.Gateway4(class).String(), cfg.Internal.IPv4.Addr().String()}, {cfg.Internal.Gateway6(class).String(), cfg.Internal.IPv6.Addr().String()},
		} {
			if a.gateway == "invalid IP" || a.gateway == a.own {
				t.Fatalf("accepted an internal network without a gateway for class %d: %+v", class, cfg.Internal)
			}
		}
	}
}
