package policies

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/health"
	"baton/router/legs"
	"baton/router/state"
)

// compiled is a configuration with those pools, and files beside it.
func compiled(t *testing.T, pools string, files map[string]string) (*state.Compiled, string) {
	t.Helper()
	dir := t.TempDir()
	files["router.yaml"] = "vips: [{address: \"10.9.9.1:80\", interfaces: [eth0], routes: [{match: {path_prefix: /a}, pool: a}, {pool: b}]}]\npools:\n" + pools
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(filepath.Join(dir, "router.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := state.Compile(cfg, &state.Numbers{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, dir
}

// TestPolicysOwnFiles: coverage zones that change are in force without a reload; broken ones change nothing, and the status says so until they are mended.
func TestPolicysOwnFiles(t *testing.T) {
	const zones = "zones:\n  one: [10.1.0.0/24]\n"
	c, dir := compiled(t, "  a: {policy: {file: DIR/policy.yaml}, surrogates: [{name: a/s1, address: \"10.0.0.1:80\"}, {name: a/s2, address: \"10.0.0.2:80\"}]}\n"+
		"  b: {policy: {file: DIR/policy.yaml}, surrogates: [{name: b/s1, address: \"10.0.0.1:80\"}, {name: b/s2, address: \"10.0.0.2:80\"}]}\n", map[string]string{
		"policy.yaml": "sites: {one: {surrogates: {s1: }}, two: {surrogates: {s2: }}}\ndefault: two\ncoverage: DIR/zones.yaml\n", "zones.yaml": zones,
	})
	var s *state.Snapshot
	p := New(Options{
		Log: slog.New(slog.DiscardHandler), Snapshot: func() *state.Snapshot { return s },
		Health:   func(string) health.State { return health.State{Up: true} },
		Sessions: func(uint16) uint64 { return 0 }, QUICSessions: func(netip.AddrPort) int { return 0 },
	})
	s = p.Snapshot(c)
	write := func(text string) {
		t.Helper()
		file := filepath.Join(dir, "zones.yaml")
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name, zones string
		changed     bool
		warning     string
		prefix      string
	}{
		{"nothing", zones, false, "", "10.1.0.0/24"},
		{"another zone", "zones:\n  one: [10.2.0.0/16]\n", true, "", "10.2.0.0/16"},
		{"broken", "zones: 7\n", true, "its earlier content stays in force", "10.2.0.0/16"},
		{"still broken", "", false, "its earlier content stays in force", "10.2.0.0/16"},
		{"mended", zones, true, "", "10.1.0.0/24"},
	} {
		if step.zones != "" && (step.changed || step.zones != zones) {
			write(step.zones)
		}
		if got := p.readFiles(); got != step.changed {
			t.Errorf("%s: changed %v, want %v", step.name, got, step.changed)
		}
		if got := strings.Join(p.Warnings(), "\n"); (got == "") != (step.warning == "") || !strings.Contains(got, step.warning) {
			t.Errorf("%s: warnings %q, want %q", step.name, got, step.warning)
		}
		s = p.Snapshot(c)
		tables := s.Tables(1500, func(uint16) legs.Facts { return legs.Facts{} }, func(string) bool { return false })
		for _, p := range s.Pools {
			var prefixes []string
			for _, z := range tables.Zones {
				if z.Pool == p.ID && len(z.Table) == 1 && z.Table[0] == p.IDs[0] {
					prefixes = append(prefixes, z.Prefix.String())
				}
			}
			if strings.Join(prefixes, " ") != step.prefix || tables.Pools[p.ID].Policy != kernel.Nearest {
				t.Errorf("%s: pool %s has %v at its first surrogate, want %s", step.name, p.Config.Name, prefixes, step.prefix)
			}
		}
	}
}
