package anycast_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"baton/api"
	"baton/lab"
	"baton/lab/build"
)

// two starts two sites, of which the first is preferred by its router as long as both announce alike: the second prepends.
func two(t *testing.T) (*network, *site, *site) {
	t.Helper()
	n := newNetwork(t, 2)
	a, b := n.sites[0], n.sites[1]
	a.start("")
	n.answers("a")
	b.start("")
	b.at("announce")
	n.shown(b, "BGP.as_path: 64512\n")
	for _, s := range n.sites {
		s.is("aware of the other", func(st *api.AnycastSite) bool { return st.Others[0].Alive })
	}
	return n, a, b
}

func TestDrainMovesTheRoute(t *testing.T) {
	t.Parallel()
	n, a, b := two(t)
	a.mustInstruct("drain")
	n.shown(a, "(65535,0)")
	n.answers("b")
	a.mustInstruct("none")
	n.shown(a, "BGP.as_path: 64512\n")
	b.mustInstruct("drain")
	n.answers("a")
	if err := b.instruct(api.AnycastInstruction{Kind: "level", Level: "dran"}); !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "(did you mean drain?)") {
		t.Errorf("an unknown level: %v", err)
	}
	if err := b.instruct(api.AnycastInstruction{Kind: "drain", Site: "paris"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("an unknown site: %v", err)
	}
	b.mustInstruct("none")
	if err := b.instruct(api.AnycastInstruction{Kind: "level", Level: "prepend-3"}); err != nil {
		t.Fatal(err)
	}
	n.shown(b, "BGP.as_path: 64512 64512 64512 64512\n")
}

// TestDeath has a site's service die, then the other's: the last one is not withdrawn, and when all are dead, all announce.
func TestDeath(t *testing.T) {
	t.Parallel()
	n, a, b := two(t)
	a.touch("alive", false)
	n.shown(a, "")
	n.answers("b")
	b.touch("alive", false)
	b.at("drain")
	n.shown(b, "(65535,0)")
	a.at("drain")
	n.shown(a, "(65535,0)")
	if got, err := n.ask(); err != nil || got == "" {
		t.Errorf("%q answers, %v", got, err)
	}
	b.is("the last", func(st *api.AnycastSite) bool { return strings.Contains(st.Reason, "the last site known to be up") })
	if err := b.instruct(api.AnycastInstruction{Kind: "maintenance"}); !errors.Is(err, api.ErrConflict) {
		t.Errorf("maintenance of the last site: %v", err)
	}
	a.touch("alive", true)
	n.answers("a")
	n.shown(b, "") // others are there again
	b.touch("alive", true)
	b.at("announce")
}

// TestProcessesEnd has the process of a site end in all ways.
func TestProcessesEnd(t *testing.T) {
	t.Parallel()
	n, a, b := two(t)
	if err := a.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.shown(a, "")
	n.answers("b")
	<-a.Done()
	// The address is still there; a successor takes it over, and takes it away at its end.
	a.Process = n.baton(a.host, "anycast-a2", a.file("anycast.yaml"), a.config(""))
	a.at("announce")
	if err := b.Stop(soon); err != nil {
		t.Fatalf("b ends: %v\n%s", err, b.Log())
	}
	n.shown(b, "")
	n.answers("a")
	if err := a.Stop(soon); err != nil {
		t.Fatalf("a ends: %v\n%s", err, a.Log())
	}
	// Without a successor the command takes it away, once the process does not run.
	path, err := build.Program("baton")
	if err != nil {
		t.Fatal(err)
	}
	cleanup := func() (string, error) {
		return a.host.Exec(t.Context(), path, "anycast", "cleanup", "-c", a.file("anycast.yaml"))
	}
	a.Process = n.baton(a.host, "anycast-a3", a.file("anycast.yaml"), a.config(""))
	if out, err := cleanup(); lab.ExitCode(err) != 1 {
		t.Errorf("cleanup beside a process that runs: %v\n%s", err, out)
	}
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := cleanup(); err != nil || out != fmt.Sprintf("removed address %s/32 of lo\nremoved control socket %s\n", service, a.file("control.sock")) {
		t.Errorf("cleanup: %v\n%s", err, out)
	}
	for _, s := range n.sites {
		out, err := s.host.Exec(t.Context(), "ip", "address", "show", "dev", "lo")
		if err != nil || strings.Contains(out, service) {
			t.Errorf("site %s has the service's address still: %v\n%s", s.name, err, out)
		}
	}
}

// TestLoadSheds has the load of a site go up, and its router prefer the other.
func TestLoadSheds(t *testing.T) {
	t.Parallel()
	n, a, _ := two(t)
	a.write("load", "0.9")
	a.at("med")
	n.shown(a, "BGP.med: 100\n")
	n.answers("b")
	a.write("load", "2")
	n.shown(a, "BGP.as_path: 64512 64512 64512 64512\n")
	a.write("load", "nonsense")
	a.is("without a load", func(st *api.AnycastSite) bool { return st.Load == nil && st.Level == "announce" })
}

// TestMaintenance empties a site, withdraws it, and keeps the instruction over a restart.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	a, b := n.sites[0], n.sites[1]
	more := "  drain: 1s\n  state: " + n.file("a-state.json") + "\n"
	a.start(more)
	n.answers("a")
	b.start("")
	b.at("announce")
	a.is("aware of the other", func(st *api.AnycastSite) bool { return st.Others[0].Alive })
	a.mustInstruct("maintenance")
	n.shown(a, "")
	n.answers("b")
	if err := a.Stop(soon); err != nil {
		t.Fatal(err)
	}
	a.Process = n.baton(a.host, "anycast-a2", a.file("anycast.yaml"), a.config(more))
	a.is("in maintenance still", func(st *api.AnycastSite) bool {
		return st.Health == "up" && st.Instruction.Kind == "maintenance" && st.Peers[0].State == "established" && st.Level != "announce"
	})
	a.mustInstruct("none")
	a.at("announce")
}

// TestStopDrains has a site end slowly: it announces behind all others first, and takes no instructions.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	a, b := n.sites[0], n.sites[1]
	a.start("  stop: 4s\n")
	n.answers("a")
	b.start("")
	b.at("announce")
	n.shown(b, "BGP.as_path: 64512\n")
	if err := a.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n.shown(a, "(65535,0)")
	n.answers("b")
	b.is("sees the other site leave", func(st *api.AnycastSite) bool { return !st.Others[0].Alive })
	if err := a.instruct(api.AnycastInstruction{Kind: "none"}); !errors.Is(err, api.ErrConflict) {
		t.Errorf("an instruction while it stops: %v", err)
	}
	n.shown(a, "")
	if err := a.Wait(t.Context()); err != nil {
		t.Errorf("the end: %v\n%s", err, a.Log())
	}
}

// TestReload adds a prefix, and keeps the session; a configuration that is wrong changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1)
	a := n.sites[0]
	a.start("")
	n.answers("a")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(a.file("anycast.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	more := strings.Replace(a.config(""), "[192.0.2.0/24]", "[192.0.2.0/24, 198.51.100.0/24]", 1)
	write(more)
	if err := a.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	n.shown(a, "198.51.100.0/24")
	n.shown(a, "192.0.2.0/24")
	write(strings.Replace(more, "as: 64512", "as: 64513", 1))
	if _, err := a.control.Reload(t.Context()); !errors.Is(err, api.ErrConflict) || !strings.Contains(err.Error(), "site.bgp.as: takes effect only after a restart") {
		t.Errorf("another AS: %v", err)
	}
	write("nonsense: 1\n")
	if _, err := a.control.Reload(t.Context()); !errors.Is(err, api.ErrConflict) {
		t.Errorf("nonsense: %v", err)
	}
	write(a.config(""))
	if _, err := a.control.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, soon, func() error {
		out, err := n.bird.Birdc(t.Context(), "show", "route")
		if err == nil && strings.Contains(out, "198.51.100.0/24") {
			err = fmt.Errorf("the prefix is there still:\n%s", out)
		}
		return err
	})
	a.is("on its first session", func(st *api.AnycastSite) bool { return st.Peers[0].Ups == 1 && st.Peers[0].State == "established" })
	n.answers("a")
}

// plannerConfig is that of a planner of all sites, on the router's host.
func (n *network) plannerConfig() string {
	identity := n.authority.Identity(n.t, "plan")
	sites := ""
	for _, s := range n.sites {
		sites += fmt.Sprintf("    - {name: %s, url: \"https://%s:%d\", capacity: 1gbit}\n", s.name, s.address, sitePort)
	}
	return fmt.Sprintf(`name: plan
control: %s
tls: {certificate: %s, key: %s, authority: %s}
planner:
  interval: 300ms
  stale: 2s
  settle: 2s
  sites:
%s`, n.file("plan.sock"), identity.Certificate, identity.Key, identity.Authority, sites)
}

// TestPlanner has the planner propose that a full site sheds; when the planner is gone, the site announces plainly.
func TestPlanner(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	a, b := n.sites[0], n.sites[1]
	a.start("  planner: plan\n")
	n.answers("a")
	b.start("  planner: plan\n")
	b.at("announce")
	plan := n.baton(n.router, "planner", n.file("plan.yaml"), n.plannerConfig())
	control := api.NewClient(n.file("plan.sock"))
	defer control.Close()
	lab.Eventually(t, soon, func() error {
		s, err := control.Anycast(t.Context())
		if err == nil && (!s.Planner.Sites[0].Alive || !s.Planner.Sites[1].Alive) {
			err = fmt.Errorf("the planner knows %+v", s.Planner.Sites)
		}
		return err
	})
	a.write("load", "0.95")
	a.at("med")
	n.answers("b")
	a.is("there by a proposal", func(st *api.AnycastSite) bool { return st.Reason == "proposed by the planner" && st.Proposal.Fresh })

	if s, err := control.Anycast(t.Context()); err != nil || s.Planner.Sites[0].Proposal != "med" || s.Planner.Sites[1].Proposal != "announce" {
		t.Errorf("the planner says %+v, %v", s.Planner, err)
	}

	// A planner that is cut off is as good as none, until it is back.
	n.cut()
	a.is("on its own", func(st *api.AnycastSite) bool { return st.Level == "announce" && !st.Proposal.Fresh })
	n.mend()
	a.at("med")

	// A planner that is killed in the middle: the next one goes on from what is.
	if err := plan.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-plan.Done()
	a.is("on its own", func(st *api.AnycastSite) bool {
		return st.Level == "announce" && strings.Contains(st.Reason, "no fresh proposal") && !st.Proposal.Fresh
	})
	n.baton(n.router, "planner2", n.file("plan.yaml"), n.plannerConfig())
	a.at("med")

	if _, err := control.AnycastInstruct(t.Context(), api.AnycastInstruction{Kind: "drain", Site: "b"}); err != nil {
		t.Fatal(err)
	}
	b.at("drain")
	if _, err := control.AnycastInstruct(t.Context(), api.AnycastInstruction{Kind: "drain", Site: "nowhere"}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("an unknown site: %v", err)
	}
	if _, err := control.AnycastInstruct(t.Context(), api.AnycastInstruction{Kind: "level", Site: "b", Level: "nonsense"}); !errors.Is(err, api.ErrConflict) {
		t.Errorf("an unknown level: %v", err)
	}
}

// cut has the router drop what sites, and a planner on its host, say to each other. BGP goes on.
func (n *network) cut() {
	n.t.Helper()
	for _, rule := range []string{
		"add table ip cut",
		"add chain ip cut forward { type filter hook forward priority 0; }", fmt.Sprintf("add rule ip cut forward tcp dport %d drop", sitePort),
		"add chain ip cut output { type filter hook output priority 0; }", fmt.Sprintf("add rule ip cut output tcp dport %d drop", sitePort),
	} {
		n.nft(rule)
	}
}

func (n *network) mend() {
	n.t.Helper()
	n.nft("delete table ip cut")
}

func (n *network) nft(command string) {
	n.t.Helper()
	if out, err := n.router.Exec(n.t.Context(), "nft", command); err != nil {
		n.t.Fatalf("nft %s: %v %s", command, err, out)
	}
}

// TestPartition cuts a site off from the other, not from its router: neither takes the other for gone for good, and both announce.
func TestPartition(t *testing.T) {
	t.Parallel()
	n, a, b := two(t)
	n.cut()
	a.is("alone", func(st *api.AnycastSite) bool { return !st.Others[0].Alive })
	b.is("alone", func(st *api.AnycastSite) bool { return !st.Others[0].Alive })
	a.touch("alive", false)
	a.at("drain") // b may be gone: a stays, behind b if it is not
	n.answers("b")
	n.mend()
	n.shown(a, "")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1)
	a := n.sites[0]
	a.start("")
	a.at("announce")
	client := a.host.HTTPClient(soon)
	defer client.CloseIdleConnections()
	get := func(path string) (int, string) {
		t.Helper()
		r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", metricsPort, path))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(text)
	}
	lab.Eventually(t, soon, func() error {
		if status, text := get("/healthz"); status != http.StatusOK {
			return fmt.Errorf("status %d: %s", status, text)
		}
		return nil
	})
	_, text := get("/metrics")
	for _, want := range []string{
		`baton_anycast_level_in_force{level="announce"} 1`, `baton_anycast_session_up{peer="router"} 1`, `baton_anycast_check_healthy{check="file"} 1`,
		"baton_anycast_load_ratio 0.1", "baton_anycast_level_changes_total 1",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	a.touch("alive", false)
	a.at("withdraw")
	if status, text := get("/healthz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "health is down") {
		t.Errorf("status %d: %s", status, text)
	}
}
