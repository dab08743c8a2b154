package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/experiments/experimentstest"
	"baton/lab"
)

const forwarderUnit = "../../packaging/baton-forwarder.service"

// unitsCapabilities are what the unit leaves to the forwarder, in setpriv's words.
func unitsCapabilities(t *testing.T) []string {
	t.Helper()
	unit, err := os.ReadFile(forwarderUnit)
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

// TestForwarderUnitsPrivileges runs the forwarder with the capabilities that the systemd unit leaves to it: through a life, and
// without each.
func TestForwarderUnitsPrivileges(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	all := unitsCapabilities(t)
	l := lab.New(t)
	a, b, host := l.Host("a"), l.Host("b"), l.Host("edge")
	l.Link(lab.End{Host: a, Addrs: []string{"10.8.0.1/24"}}, lab.End{Host: host, Name: "p1"}, lab.LinkOptions{})
	l.Link(lab.End{Host: b, Addrs: []string{"10.8.0.2/24"}}, lab.End{Host: host, Name: "p2"}, lab.LinkOptions{})
	dir := t.TempDir()
	file, socket := filepath.Join(dir, "f.yaml"), filepath.Join(l.Dir(), "f.sock")
	write(t, file, "name: unit\nports: [p1, p2]\nlocal: lo7\nfail_mode: standalone\nmetrics: 127.0.0.1:9410\n"+
		"listen: [tcp:127.0.0.1:6654]\nstate: "+filepath.Join(dir, "state")+"\ncontrol: "+socket+"\n")
	unload := func() {
		if out, err := host.Exec(context.Background(), program, "forwarder", "cleanup", "-c", file); err != nil {
			t.Error(err, out)
		}
	}
	t.Cleanup(unload)
	start := func(t *testing.T, capabilities []string) *lab.Process {
		t.Helper()
		bounding := "--bounding-set=-all"
		for _, c := range capabilities {
			bounding += ",+" + c
		}
		p, err := host.Start(lab.Program{
			Path: "setpriv", Args: []string{bounding, "--inh-caps=-all", "--no-new-privs", program, "forwarder", "run", "-c", file},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ping := func() error {
		_, err := a.Exec(t.Context(), "ping", "-c", "1", "-W", "1", "10.8.0.2")
		return err
	}
	t.Run("a life", func(t *testing.T) {
		for range 2 { // the second takes over
			p := start(t, all)
			lab.Eventually(t, long, func() error {
				if !strings.Contains(p.Log(), "forwarder is up") {
					return fmt.Errorf("not up:\n%s", p.Log())
				}
				return ping()
			})
			if strings.Contains(p.Log(), "level=ERROR") {
				t.Errorf("errors:\n%s", p.Log())
			}
			if err := p.Stop(long); err != nil {
				t.Errorf("%v:\n%s", err, p.Log())
			}
			if err := ping(); err != nil {
				t.Errorf("after its end: %v", err)
			}
		}
		unload()
	})
	for _, missing := range all {
		t.Run("without "+missing, func(t *testing.T) {
			p := start(t, slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == missing }))
			select {
			case <-p.Done():
			case <-time.After(long):
				t.Fatalf("it runs:\n%s", p.Log())
			}
			if want := "missing capability: CAP_" + strings.ToUpper(missing); !strings.Contains(p.Log(), want) {
				t.Errorf("no %q in:\n%s", want, p.Log())
			}
		})
	}
}

// TestForwarderUnitIsValid has systemd read the unit.
func TestForwarderUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIP: systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(forwarderUnit)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "baton-forwarder.service")
	write(t, file, strings.ReplaceAll(string(unit), "/usr/local/bin/baton", "/bin/true"))
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
