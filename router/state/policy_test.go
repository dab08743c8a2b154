package state

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kernel "baton/datapath/router"
	"baton/router/choose"
	"baton/router/config"
	"baton/router/health"
	"baton/router/legs"
)

// sharedState is a state of a configuration with those pools, and files beside it.
func sharedState(t *testing.T, pools string, files map[string]string) (*Compiled, string) {
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
	s, err := Compile(cfg, &Numbers{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// allUp is a snapshot with all surrogates up.
func allUp(c *Compiled) *Snapshot {
	return c.Snapshot(func(string) health.State { return health.State{Up: true} }, func(p *NumberedPool) *choose.Shared {
		return choose.NewShared(p.Config, p.Config.Shared.Policy, nil, func(string) choose.Seen { return choose.Seen{Up: true} })
	})
}

// tablesOf are a snapshot's tables for an MTU of 1500 and surrogates on other hosts.
func tablesOf(s *Snapshot) kernel.Tables {
	return s.Tables(1500, func(uint16) legs.Facts { return legs.Facts{} }, func(string) bool { return false })
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
	tables := tablesOf(allUp(few))
	if got := tables.Pools[few.Numbered[1].ID]; got.Policy != kernel.Upcall {
		t.Errorf("pool b: %+v, and there is no room for its tables", got)
	}
	if got := tables.Pools[few.Numbered[0].ID]; got.Policy != kernel.Nearest || len(tables.Zones) != kernel.MaxZoneTables-left {
		t.Errorf("pool a: %+v, %d zones", got, len(tables.Zones))
	}
	enough, _ := sharedState(t, strings.Replace(pools.String(), "policy: nearest\n    nearest: [{prefix: 10.0.0.0/24, surrogates: [n0]}, ", "policy: nearest\n    nearest: [{prefix: 10.0.0.0/24, surrogates: [n0]}] #", 1),
		map[string]string{"policy.yaml": sites.String() + "default: site0\n"})
	tables = tablesOf(allUp(enough))
	if got := tables.Pools[enough.Numbered[1].ID]; got.Policy != kernel.Nearest {
		t.Errorf("pool b: %+v, and there is room for its tables", got)
	}
}

// TestPublicOfPolicy: redirected clients find a surrogate by its public name in the pool, else by its host in the policy, else by its address.
func TestPublicOfPolicy(t *testing.T) {
	c, _ := sharedState(t, "  a: {policy: {file: DIR/policy.yaml}, surrogates: [{name: s1, address: \"10.0.0.1:80\", public: \"https://a.test\"}, {name: s2, address: \"10.0.0.2:80\"}, {name: s3, address: \"10.0.0.3:80\"}]}\n"+
		"  b: {surrogates: [{name: x, address: \"10.0.0.1:80\"}]}\n", map[string]string{"policy.yaml": "sites: {one: {surrogates: {s1: {host: b.test}, s2: {host: \"b.test:81\"}, s3: }}}\n"})
	s := allUp(c)
	for i, want := range []string{"https://a.test", "http://b.test:81", ""} {
		if got := s.Pools[0].Public(i); got != want {
			t.Errorf("surrogate %d is at %q, want %q", i, got, want)
		}
	}
	if got := s.Pools[1].Public(0); got != "" {
		t.Errorf("a pool without such a policy: %q", got)
	}
}
