package router

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kernel "baton/datapath/router"
	"baton/policy"
	"baton/router/choose"
	"baton/router/config"
	"baton/router/health"
	"baton/router/legs"
)

// sharedState is a state of a configuration with those pools, and files beside it.
func sharedState(t *testing.T, pools string, files map[string]string) (*state, string) {
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
	s, err := newState(cfg, &numbers{})
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func (s *state) chooseAll(policyOf func(*config.Shared) *policy.Policy) kernel.Tables {
	s.choose(func(string) health.State { return health.State{Up: true} }, func(p *poolState) *choose.Shared {
		return choose.NewShared(p.cfg, policyOf(p.cfg.Shared), nil, func(string) choose.Seen { return choose.Seen{Up: true} })
	})
	return s.tables(1500, func(uint16) legs.Facts { return legs.Facts{} }, func(string) bool { return false })
}

// TestPolicysOwnFiles: coverage zones that change are in force without a reload; broken ones change nothing, and the status says so until they are mended.
func TestPolicysOwnFiles(t *testing.T) {
	const zones = "zones:\n  one: [10.1.0.0/24]\n"
	s, dir := sharedState(t, "  a: {policy: {file: DIR/policy.yaml}, surrogates: [{name: a/s1, address: \"10.0.0.1:80\"}, {name: a/s2, address: \"10.0.0.2:80\"}]}\n"+
		"  b: {policy: {file: DIR/policy.yaml}, surrogates: [{name: b/s1, address: \"10.0.0.1:80\"}, {name: b/s2, address: \"10.0.0.2:80\"}]}\n", map[string]string{
		"policy.yaml": "sites: {one: {surrogates: {s1: }}, two: {surrogates: {s2: }}}\ndefault: two\ncoverage: DIR/zones.yaml\n", "zones.yaml": zones,
	})
	r := &Router{log: slog.New(slog.DiscardHandler), shared: newShared()}
	r.state.Store(s)
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
		if got := r.shared.read(r); got != step.changed {
			t.Errorf("%s: changed %v, want %v", step.name, got, step.changed)
		}
		if got := strings.Join(r.shared.warnings(), "\n"); (got == "") != (step.warning == "") || !strings.Contains(got, step.warning) {
			t.Errorf("%s: warnings %q, want %q", step.name, got, step.warning)
		}
		tables := s.chooseAll(r.policyOf)
		for _, p := range s.pools {
			var prefixes []string
			for _, z := range tables.Zones {
				if z.Pool == p.id && len(z.Table) == 1 && z.Table[0] == p.ids[0] {
					prefixes = append(prefixes, z.Prefix.String())
				}
			}
			if strings.Join(prefixes, " ") != step.prefix || tables.Pools[p.id].Policy != kernel.Nearest {
				t.Errorf("%s: pool %s has %v at its first surrogate, want %s", step.name, p.cfg.Name, prefixes, step.prefix)
			}
		}
	}
}

// TestSharedTablesThatDoNotFit: a policy that needs more tables than are left is decided in user space; the other pools keep theirs.
func TestSharedTablesThatDoNotFit(t *testing.T) {
	var pools, sites strings.Builder
	nearest := func(name string, surrogates int) {
		fmt.Fprintf(&pools, "  %s:\n    policy: nearest\n    nearest: [", name)
		for i := range surrogates {
			fmt.Fprintf(&pools, "{prefix: 10.%d.%d.0/24, surrogates: [n%d]}, ", i/250, i%250, i)
		}
		pools.WriteString("]\n    legs: {min: 0}\n    surrogates: [")
		for i := range surrogates {
			fmt.Fprintf(&pools, "{name: n%d, address: \"10.0.%d.%d:80\"}, ", i, i/250, 1+i%250)
		}
		pools.WriteString("]\n")
	}
	const left = 10
	nearest("a", kernel.MaxZoneTables-left)
	pools.WriteString("  b:\n    policy: {file: DIR/policy.yaml}\n    legs: {min: 0}\n    surrogates: [")
	sites.WriteString("sites:\n")
	for i := range 2 * left {
		fmt.Fprintf(&pools, "{name: s%d, address: \"10.1.0.%d:80\"}, ", i, 1+i)
		fmt.Fprintf(&sites, "  site%d: {clients: [10.0.%d.0/24], surrogates: {s%d: }}\n", i, i, i)
	}
	pools.WriteString("]\n")
	few, _ := sharedState(t, pools.String(), map[string]string{"policy.yaml": sites.String() + "default: site0\n"})
	of := func(s *config.Shared) *policy.Policy { return s.Policy }
	tables := few.chooseAll(of)
	if got := tables.Pools[few.pools[1].id]; got.Policy != kernel.Upcall {
		t.Errorf("pool b: %+v, and there is no room for its tables", got)
	}
	if got := tables.Pools[few.pools[0].id]; got.Policy != kernel.Nearest || len(tables.Zones) != kernel.MaxZoneTables-left {
		t.Errorf("pool a: %+v, %d zones", got, len(tables.Zones))
	}
	enough, _ := sharedState(t, strings.Replace(pools.String(), "policy: nearest\n    nearest: [{prefix: 10.0.0.0/24, surrogates: [n0]}, ", "policy: nearest\n    nearest: [{prefix: 10.0.0.0/24, surrogates: [n0]}] #", 1),
		map[string]string{"policy.yaml": sites.String() + "default: site0\n"})
	tables = enough.chooseAll(of)
	if got := tables.Pools[enough.pools[1].id]; got.Policy != kernel.Nearest {
		t.Errorf("pool b: %+v, and there is room for its tables", got)
	}
}

// TestPublicOfPolicy: redirected clients find a surrogate by its public name in the pool, else by its host in the policy, else by its address.
func TestPublicOfPolicy(t *testing.T) {
	s, _ := sharedState(t, "  a: {policy: {file: DIR/policy.yaml}, surrogates: [{name: s1, address: \"10.0.0.1:80\", public: \"https://a.test\"}, {name: s2, address: \"10.0.0.2:80\"}, {name: s3, address: \"10.0.0.3:80\"}]}\n"+
		"  b: {surrogates: [{name: x, address: \"10.0.0.1:80\"}]}\n", map[string]string{"policy.yaml": "sites: {one: {surrogates: {s1: {host: b.test}, s2: {host: \"b.test:81\"}, s3: }}}\n"})
	s.chooseAll(func(s *config.Shared) *policy.Policy { return s.Policy })
	for i, want := range []string{"https://a.test", "http://b.test:81", ""} {
		if got := s.pools[0].public(i); got != want {
			t.Errorf("surrogate %d is at %q, want %q", i, got, want)
		}
	}
	if got := s.pools[1].public(0); got != "" {
		t.Errorf("a pool without such a policy: %q", got)
	}
}
