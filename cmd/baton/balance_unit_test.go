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

	"baton/experiments/experimentstest"
	"baton/lab"
	"baton/lab/peers"
)

const balanceUnit = "../../packaging/baton-balance.service"

// TestBalanceUnitsPrivileges runs the balance with what the systemd unit leaves to it: through a life, with connections over both links, and
// without each capability it says what it lacks and leaves nothing.
func TestBalanceUnitsPrivileges(t *testing.T) {
	lab.NeedRoot(t)
	all, calls := unitSettingIn(t, balanceUnit, "CapabilityBoundingSet"), systemCalls(t, unitSettingIn(t, balanceUnit, "SystemCallFilter"))
	l := lab.New(t)
	host, server := l.Host("host"), l.Host("server")
	host.Private("/run/baton")
	server.Interface("lo").Address("198.51.100.10/32")
	for i := range 2 {
		near, far := fmt.Sprintf("192.0.2.%d", 16*i+2), fmt.Sprintf("192.0.2.%d", 16*i+1)
		l.Link(lab.End{Host: host, Addrs: []string{near + "/28"}}, lab.End{Host: server, Addrs: []string{far + "/28"}}, lab.LinkOptions{})
		if _, err := host.Exec(t.Context(), "ip", "route", "add", "default", "via", far, "metric", fmt.Sprint(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	peers.Nginx(server, peers.NginxOptions{NoAccessLog: true, Workers: 1, Server: "add_header X-From $remote_addr always;"})
	name := fmt.Sprintf("u%d", os.Getpid()%1000000)
	file, program, tester := filepath.Join(l.Dir(), "balance.yaml"), experimentstest.Program(t), filepath.Join(l.Dir(), "tester")
	copyProgram(t, "/proc/self/exe", tester)
	write(t, file, fmt.Sprintf("name: %s\nmethod: round-robin\nlinks: [eth0, eth1]\ncontrol: %s/balance.sock\n", name, l.Dir()))
	cleanup := func() (string, error) {
		p, err := host.Start(lab.Program{Path: program, Args: []string{"balance", "cleanup", "-c", file}, Unlogged: true})
		if err != nil {
			return "", err
		}
		err = p.Wait(context.WithoutCancel(t.Context()))
		return p.Log(), err
	}
	t.Cleanup(func() { _, _ = cleanup() })
	start := func(capabilities []string) *lab.Process {
		return startConfined(t, host, 0, capabilities, calls, tester, program, "balance", "run", "-c", file)
	}

	t.Run("a life", func(t *testing.T) {
		p := start(all)
		lab.Eventually(t, long, func() error {
			if !strings.Contains(p.Log(), "msg=ready") {
				return fmt.Errorf("it is not ready:\n%s", p.Log())
			}
			return nil
		})
		seen := make(map[string]bool)
		for range 2 {
			c := host.HTTPClient(long)
			r, err := c.Get("http://198.51.100.10/1k")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			seen[r.Header.Get("X-From")] = true
			c.CloseIdleConnections()
		}
		if len(seen) != 2 {
			t.Errorf("connections came from %v", seen)
		}
		if strings.Contains(p.Log(), "level=ERROR") || strings.Contains(p.Log(), "level=WARN") {
			t.Errorf("the log:\n%s", p.Log())
		}
		if err := p.Stop(long); err != nil {
			t.Errorf("%v:\n%s", err, p.Log())
		}
		if out, err := cleanup(); err != nil || !strings.HasPrefix(out, "nothing is left") {
			t.Errorf("it has left something: %v\n%s", err, out)
		}
	})
	for _, missing := range all {
		t.Run("without "+missing, func(t *testing.T) {
			p := start(slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == missing }))
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			if err := p.Wait(ctx); err == nil || ctx.Err() != nil {
				_ = p.Kill()
				t.Fatalf("it runs: %v\n%s", err, p.Log())
			}
			if !strings.Contains(p.Log(), missing) {
				t.Errorf("no %q in:\n%s", missing, p.Log())
			}
			if out, err := cleanup(); err != nil || !strings.HasPrefix(out, "nothing is left") {
				t.Errorf("it has left something: %v\n%s", err, out)
			}
		})
	}
}

// TestBalanceUnitIsValid has systemd read the unit.
func TestBalanceUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIP: systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(balanceUnit)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "baton-balance.service")
	write(t, file, strings.ReplaceAll(string(unit), "/usr/local/bin/baton", "/bin/true"))
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
