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
	f.Add([]byte("vips: [{address: \"[::1]:80\", routes: [{match: {headers: [{name: a}]}}]}]\n"))
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
		pools := make(map[string]bool)
		for _, p := range cfg.Pools {
			pools[p.Name] = true
			if len(p.Surrogates) == 0 || p.Legs.Min > p.Legs.Max || p.Legs.Idle <= 0 {
				t.Fatalf("accepted an impossible pool: %+v", p)
			}
		}
		for _, v := range cfg.VIPs {
			if !v.Address.IsValid() || v.Address.Port() == 0 || len(v.Routes) == 0 {
				t.Fatalf("accepted an impossible VIP: %+v", v)
			}
			for _, r := range v.Routes {
				if !pools[r.Pool] || r.Line < 1 {
					t.Fatalf("accepted an impossible route: %+v", r)
				}
			}
		}
	})
}
