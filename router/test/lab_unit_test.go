package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"baton/lab"
)

const unitFile = "../../packaging/baton-router.service"

// capabilities are the unit's capabilities, in setpriv's notation.
func capabilities(t *testing.T) []string {
	t.Helper()
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "CapabilityBoundingSet="); ok {
			return strings.Fields(strings.ReplaceAll(strings.ToLower(list), "cap_", ""))
		}
	}
	t.Fatal("the unit has no CapabilityBoundingSet")
	return nil
}

// unprivileged starts the router with only these capabilities.
func (n *network) unprivileged(config string, capabilities []string) *running {
	n.t.Helper()
	r, path, err := n.prepare(config)
	if err != nil {
		n.t.Fatal(err)
	}
	bounding := "--bounding-set=-all"
	for _, c := range capabilities {
		bounding += ",+" + c
	}
	r.Process, err = n.router.Start(lab.Program{
		Path: "setpriv", Args: []string{bounding, "--inh-caps=-all", "--no-new-privs", path, "router", "run", "-c", r.file},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return r
}

// TestUnitsPrivileges runs the router with the systemd unit's capabilities, through its whole life, and with each one missing.
func TestUnitsPrivileges(t *testing.T) {
	all := capabilities(t)
	config := func(n *network, idle string) string {
		s := n.sites[0]
		return fmt.Sprintf("vips:\n  - {address: %q, interfaces: [%s], routes: [{match: {path_prefix: /bytes}, pool: p}]}\n"+
			"pools:\n  p: {legs: {idle: %s}, surrogates: [{name: s1, address: %q}]}\n", vip4, n.front.Name, idle, s.v4)
	}
	network := func(t *testing.T) *network {
		n := newNetwork(t)
		s := n.site("s1", lab.LinkOptions{})
		serve(t, s.Host, s.name)
		return n
	}
	renewed := func(r *running) func() error {
		return func() error {
			if strings.Contains(r.Log(), "level=ERROR") {
				return fmt.Errorf("an error:\n%s", r.Log())
			}
			if r.metrics()[`baton_router_leg_events_total{event="retired",surrogate="s1"}`] == 0 {
				return fmt.Errorf("no leg was renewed:\n%s", r.Log())
			}
			return nil
		}
	}
	t.Run("a life", func(t *testing.T) {
		n := network(t)
		r := n.unprivileged(config(n, "1h"), all)
		if err := r.await(); err != nil {
			t.Fatal(err)
		}
		kept := n.open(t, vip4)
		got, err := kept.get("a.test", "/bytes/1000")
		got.expect(t, err, "s1", 200, patternText(1000))
		if err := r.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-r.Done()
		before := r.before
		r = n.unprivileged(config(n, "1h"), all) // adopts
		r.before = before
		if err := r.await(); err != nil {
			t.Fatal(err)
		}
		got, err = kept.get("a.test", "/bytes/1000")
		got.expect(t, err, "s1", 200, patternText(1000))
		kept.Close()
		other := n.open(t, vip4)
		if got, err := other.get("a.test", "/x"); err != nil || got.StatusCode != 404 {
			t.Errorf("%v %v, want the router's own 404", got.Response, err)
		}
		other.Close()
		if err := r.configure(config(n, "1s")); err != nil {
			t.Fatal(err)
		}
		if err := r.Signal(syscall.SIGHUP); err != nil { // as ExecReload
			t.Fatal(err)
		}
		if err := lab.Poll(answersWithin, renewed(r)); err != nil {
			t.Error(err)
		}
		r.stop()
	})
	for _, missing := range all {
		t.Run("without "+missing, func(t *testing.T) {
			n := network(t)
			r := n.unprivileged(config(n, "1s"), slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == missing }))
			err := lab.Poll(answersWithin, func() error {
				select {
				case <-r.Done():
					return nil
				default:
				}
				if strings.Contains(r.Log(), "cannot renew idle legs") {
					return nil
				}
				return fmt.Errorf("it runs")
			})
			if err != nil {
				t.Errorf("%v:\n%s", err, r.Log())
			}
			if log := r.Log(); !strings.Contains(log, strings.ToUpper(missing)) && !strings.Contains(log, "permi") {
				t.Errorf("the log does not say what is missing:\n%s", log)
			}
		})
	}
}

// TestUnitIsValid: systemd accepts the unit.
func TestUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIP: systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "baton-router.service")
	installed := strings.ReplaceAll(string(unit), "/usr/local/bin/baton", "/bin/true")
	if err := os.WriteFile(file, []byte(installed), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(deadline(t), "systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
