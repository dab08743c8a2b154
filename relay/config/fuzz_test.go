package config

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/relay/trunkproto"
)

// FuzzParse: error or value, never both, never neither, never a panic, and a message is one line. What is accepted can work.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(everything))
	f.Add([]byte(""))
	f.Add([]byte("a: &a {b: *a}\n<<: *a\n"))
	f.Add([]byte("name: a\ntrunks: &t {listen: [\"[::]:1\"], plaintext: {secret_file: /s}}\npeers: [{<<: *t, name: b}]\n"))
	f.Add([]byte("name: a\nentries: [{listen: \"[::]:1\", mode: transparent, intercept: {destinations: [\"::/0\"], ports: [1-2]}, interfaces: [e]}]\n"))
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
		if !trunkproto.ValidName(cfg.Name) || len(cfg.Entries) == 0 && cfg.Trunks == nil {
			t.Fatalf("accepted an impossible relay: %+v", cfg)
		}
		if l := cfg.Limits; l.PerSource > l.Early || l.Early > l.Flows || l.PerSource < 1 || l.Pipe < 4096 {
			t.Fatalf("accepted impossible limits: %+v", l)
		}
		if tr := cfg.Trunks; tr != nil {
			checkCredentials(t, tr.Credentials)
			checkTuning(t, tr.Tuning)
			if len(tr.Listen) == 0 || slices.ContainsFunc(tr.Listen, func(a netip.AddrPort) bool { return !usable(a) }) {
				t.Fatalf("accepted impossible trunks: %+v", tr)
			}
		}
		var peers []string
		for _, p := range cfg.Peers {
			checkCredentials(t, p.Credentials)
			checkTuning(t, p.Tuning)
			if p.Line < 1 || p.Name == cfg.Name || slices.Contains(peers, p.Name) || !usable(p.Address) || p.Ready.Min > p.Ready.Max {
				t.Fatalf("accepted an impossible peer: %+v", p)
			}
			peers = append(peers, p.Name)
		}
		for _, e := range cfg.Entries {
			checkEntry(t, cfg, &e, peers)
		}
	})
}

func usable(a netip.AddrPort) bool {
	return a.IsValid() && a.Port() != 0 && !a.Addr().Is4In6() && a.Addr().Zone() == ""
}

func checkCredentials(t *testing.T, c Credentials) {
	pem := c.Certificate != "" && c.Key != "" && c.Authority != ""
	if !(c.Security == TLS && pem && c.SecretFile == "" || c.Security == Plaintext && c.SecretFile != "" && c.Certificate+c.Key+c.Authority == "") {
		t.Fatalf("accepted impossible credentials: %+v", c)
	}
}

func checkTuning(t *testing.T, u Tuning) {
	s := u.Start
	if s.Least > s.Most || s.Learn != (s.Least > 0) || s.Rate < 0 || u.Buffer < 0 {
		t.Fatalf("accepted impossible tuning: %+v", u)
	}
}

func checkEntry(t *testing.T, cfg *Config, e *Entry, peers []string) {
	early := e.EarlySYN != EarlyOff
	switch {
	case e.Line < 1, !trunkproto.ValidName(e.Name), !usable(e.Listen), (e.Mode == Plain) != e.Destination.IsValid():
	case e.Intercept != nil && (e.Mode != Transparent || len(e.Interfaces) == 0 || len(e.Intercept.Ports) == 0):
	case early && (len(e.Interfaces) == 0 || e.Mode != Plain && e.Intercept == nil):
	case len(e.Via) >= trunkproto.MaxHops, slices.ContainsFunc(e.Via, func(name string) bool { return !trunkproto.ValidName(name) }):
	case len(e.Via) > 0 && (!slices.Contains(peers, e.Via[0]) || slices.Contains(e.Via, cfg.Name)):
	case len(e.Via) == 0 && !e.Auto && e.Mode != Plain && len(cfg.Allow) == 0:
	case e.Auto && (len(e.Via) > 0 || len(cfg.Peers) == 0 || e.ClientAddress == Spoofed):
	default:
		return
	}
	t.Fatalf("accepted an impossible entry: %+v", e)
}
