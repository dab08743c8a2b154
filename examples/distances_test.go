package examples_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/lab"
	"baton/router/config"
)

// measured is what a relay tells, of servers in the order mumbai, dubai, paris, and one of IPv6; 0: it does not answer.
func measured(t *testing.T, rtts ...time.Duration) string {
	t.Helper()
	d := api.RelayDistances{Relay: "here", Peers: []api.RelayPeerDistance{}}
	servers := []string{"198.51.100.5:80", "198.51.100.69:80", "203.0.113.5:80", "[2001:db8::5]:80"}
	for i, rtt := range rtts {
		d.Destinations = append(d.Destinations, api.RelayDestination{
			Destination: servers[i], Server: netip.MustParseAddrPort(servers[i]), Fixed: true, Up: rtt > 0, RTT: rtt,
		})
	}
	d.Destinations = append(d.Destinations,
		api.RelayDestination{Destination: "192.0.2.0/24:80", Server: netip.MustParseAddrPort("192.0.2.1:80"), Up: true, RTT: 1},
		api.RelayDestination{Destination: "198.51.100.5:443", Server: netip.MustParseAddrPort("198.51.100.5:443"), Fixed: true, Up: true, RTT: 1})
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// need skips a test whose programs are not there, where that is allowed.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			if lab.Required() {
				t.Fatalf("%s is required here (make deps)", p)
			}
			t.Skipf("SKIP: %s is not installed (make deps)", p)
		}
	}
}

// TestNearestZones: what the script writes is a router's configuration, and says where clients go.
func TestNearestZones(t *testing.T) {
	need(t, "jq")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"frankfurt": measured(t, 120*time.Millisecond, 80*time.Millisecond, 10*time.Millisecond, 0),
		"lagos":     measured(t, 0, 90*time.Millisecond, 91*time.Millisecond),
		"new":       `{"relay":"new","peers":[],"destinations":[]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "distances/nearest.sh", "distances/router.yaml.in", "distances/surrogates",
		"192.0.2.0/25="+filepath.Join(dir, "frankfurt"), "192.0.2.128/25="+filepath.Join(dir, "lagos"), "2001:db8::/32="+filepath.Join(dir, "new")).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cfg, err := config.Parse("router.yaml", out)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	got := make(map[string]string)
	for _, z := range cfg.Pools[0].Nearest {
		got[z.Prefix.String()] = strings.Join(z.Surrogates, " ")
	}
	want := map[string]string{
		"192.0.2.0/25": "paris dubai mumbai", "192.0.2.128/25": "dubai paris mumbai", "2001:db8::/32": "mumbai dubai paris",
	}
	for prefix, order := range want {
		if got[prefix] != order {
			t.Errorf("%s: %q, want %q", prefix, got[prefix], order)
		}
	}
	if len(got) != len(want) {
		t.Errorf("zones %v", got)
	}
}

// TestZone: a real name server's program takes the zone, and the nearest servers that answer are in it.
func TestZone(t *testing.T) {
	need(t, "jq", "named-checkzone")
	ms := time.Millisecond
	for _, tt := range []struct {
		name string
		rtts []time.Duration
		want []string
	}{
		{"the nearest", []time.Duration{100 * ms, 10 * ms, 30 * ms}, []string{"A 198.51.100.69"}},
		{"as near", []time.Duration{100 * ms, 99 * ms, 150 * ms, 118 * ms}, []string{"A 198.51.100.5", "A 198.51.100.69", "AAAA 2001:db8::5"}},
		{"one does not answer", []time.Duration{100 * ms, 0, 30 * ms}, []string{"A 203.0.113.5"}},
		{"none answers", []time.Duration{0, 0}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			script := exec.CommandContext(t.Context(), "distances/zone.sh", "cdn.example.net.", "ns.example.net.", "www", "80")
			script.Stdin = strings.NewReader(measured(t, tt.rtts...))
			zone, err := script.Output()
			if (err != nil) != (tt.want == nil) || err != nil && len(zone) > 0 {
				t.Fatalf("%v\n%s", err, zone)
			}
			if err != nil {
				return
			}
			check := exec.CommandContext(t.Context(), "named-checkzone", "-D", "cdn.example.net", "/dev/stdin")
			check.Stdin = bytes.NewReader(zone)
			told, err := check.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, told, zone)
			}
			var got []string
			for line := range strings.Lines(string(told)) {
				if f := strings.Fields(line); len(f) == 5 && f[0] == "www.cdn.example.net." {
					got = append(got, f[3]+" "+f[4])
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q in\n%s", got, tt.want, told)
			}
		})
	}
}
