package anycast_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// frrPath is a path as FRRouting's bgpd prints it.
type frrPath struct {
	AS struct {
		String string `json:"string"`
	} `json:"aspath"`
	Community struct {
		String string `json:"string"`
	} `json:"community"`
	Best struct {
		Overall bool `json:"overall"`
	} `json:"bestpath"`
	Hops []struct {
		IP string `json:"ip"`
	} `json:"nexthops"`
}

// frrPaths are the service's, by the site's address, and the best of them.
func frrPaths(f *peers.FRRouter) (all map[string]frrPath, best string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	out, err := f.Vtysh(ctx, "show bgp ipv4 unicast 192.0.2.0/24 json")
	if err != nil && !strings.Contains(out, "not in table") {
		return nil, "", err
	}
	var table struct {
		Paths []frrPath `json:"paths"`
	}
	if err == nil && strings.TrimSpace(out) != "" {
		if err := json.Unmarshal([]byte(out), &table); err != nil {
			return nil, "", fmt.Errorf("%w: %s", err, out)
		}
	}
	all = make(map[string]frrPath)
	for _, p := range table.Paths {
		if len(p.Hops) == 0 {
			continue
		}
		all[p.Hops[0].IP] = p
		if p.Best.Overall {
			best = p.Hops[0].IP
		}
	}
	return all, best, nil
}

// TestFRR has another router choose between sites: by a drain, by a host that is lost, and when nobody is well.
func TestFRR(t *testing.T) {
	t.Parallel()
	n := newHosts(t, 2)
	config := "router bgp 65000\n bgp router-id 10.0.0.1\n no bgp ebgp-requires-policy\n"
	for _, s := range n.sites {
		config += fmt.Sprintf(" neighbor %[1]s remote-as 64512\n neighbor %[1]s passive\n", s.address)
	}
	f := peers.FRR(n.router, config)
	chosen := func(best *site, known ...*site) {
		t.Helper()
		lab.Eventually(t, soon, func() error {
			all, at, err := frrPaths(f)
			if err == nil && (at != best.address || len(all) != len(known) ||
				slices.ContainsFunc(known, func(s *site) bool { _, there := all[s.address]; return !there })) {
				err = fmt.Errorf("FRR has %+v; want %s to be the best of %d", all, best.name, len(known))
			}
			return err
		})
	}
	a, b := n.sites[0], n.sites[1]
	a.start("")
	chosen(a, a)
	b.start("")
	chosen(a, a, b) // the older one
	for _, s := range n.sites {
		s.is("aware of the other", func(st *api.AnycastSite) bool { return st.Others[0].Alive })
	}
	a.mustInstruct("drain")
	chosen(b, a, b)
	all, _, err := frrPaths(f)
	if p := all[a.address]; err != nil || p.AS.String != "64512 64512 64512 64512" || !strings.Contains(p.Community.String, "graceful-shutdown") {
		t.Errorf("a draining site is announced as %+v, %v", p, err)
	}
	b.mustInstruct("drain")
	a.mustInstruct("none")
	chosen(a, a, b)
	b.mustInstruct("none")

	// The host is lost with its process: only the hold timer detects that.
	n.router.Interface("toa").Lose(1)
	if err := a.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	chosen(b, b)
	b.is("alone", func(st *api.AnycastSite) bool { return !st.Others[0].Alive })
	b.touch("alive", false)
	b.at("drain")
	lab.Eventually(t, soon, func() error {
		all, best, err := frrPaths(f)
		if err == nil && (best != b.address || !strings.Contains(all[best].Community.String, "graceful-shutdown")) {
			err = fmt.Errorf("FRR has %+v", all)
		}
		return err
	})
}
