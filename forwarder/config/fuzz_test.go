package config

import (
	"strings"
	"testing"
)

// FuzzParse: error or value, never both, never neither, never a panic, and a message is one line.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(everything))
	f.Add([]byte(""))
	f.Add([]byte("a: &a {b: *a}\n<<: *a\n"))
	f.Add([]byte("ports: {? [1] : a, 2: }\n"))
	f.Add([]byte("ports: [{interface: a, side: host}, {interface: b}]\nnormal: stack\nlimits: {bindings: 4096}\n"))
	f.Add([]byte("ports: [a]\ncontrollers: [\"tcp:[fe80::1%a]:1\", {connect: tcp:a:1}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("f", data)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v, want one of them", cfg, err)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if line = strings.TrimSuffix(line, "\n"); strings.ContainsAny(line, "\n\r") || !strings.HasPrefix(line, "f") {
					t.Fatalf("message is not one line of the file: %q", line)
				}
			}
			return
		}
		if len(cfg.Ports) == 0 || cfg.Name == "" || cfg.Retry.Least <= 0 || cfg.Retry.Most < cfg.Retry.Least || cfg.Limits.Tables < 1 {
			t.Fatalf("accepted the impossible: %+v", cfg)
		}
		for i, p := range cfg.Ports {
			if p.No < 1 || p.Interface == "" || i > 0 && cfg.Ports[i-1].No >= p.No {
				t.Fatalf("accepted impossible ports: %+v", cfg.Ports)
			}
		}
		for _, c := range cfg.Controllers {
			if c.Connect.Address == "" || c.Idle <= 0 || c.Dead <= c.Idle || c.Connect.Method == "tls" && cfg.TLS == nil {
				t.Fatalf("accepted an impossible controller: %+v", c)
			}
		}
		for _, l := range cfg.Listen {
			if l.Listen.Address == "" || l.Idle <= 0 || l.Dead <= l.Idle || l.Listen.Method == "tls" && cfg.TLS == nil {
				t.Fatalf("accepted an impossible listener: %+v", l)
			}
		}
	})
}
