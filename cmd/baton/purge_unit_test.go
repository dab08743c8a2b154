package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/experiments/experimentstest"
	"baton/lab"
)

const purgeUnit = "../../packaging/baton-purge.service"

// purgeBits are the capabilities of the unit.
var purgeBits = map[string]int{
	"CAP_BPF": unix.CAP_BPF, "CAP_PERFMON": unix.CAP_PERFMON, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN, "CAP_NET_RAW": unix.CAP_NET_RAW,
}

// purgeSetting returns what the purge's unit sets.
func purgeSetting(t *testing.T, key string) []string {
	t.Helper()
	unit, err := os.ReadFile(purgeUnit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), key+"="); ok {
			return strings.Fields(list)
		}
	}
	t.Fatalf("the unit has no %s", key)
	return nil
}

// TestPurgeUnitsPrivileges runs the purge with the systemd unit's privileges: it ends a connection, and without each capability it
// reports which one is missing.
func TestPurgeUnitsPrivileges(t *testing.T) {
	lab.NeedRoot(t)
	all := purgeSetting(t, "CapabilityBoundingSet")
	if ambient := purgeSetting(t, "AmbientCapabilities"); !slices.Equal(ambient, all) {
		t.Errorf("ambient %v, bounding set %v: the purge needs all of them", ambient, all)
	}
	calls := systemCalls(t, purgeSetting(t, "SystemCallFilter"))
	l := lab.New(t)
	client, server := l.Host("client"), l.Host("server")
	k := l.Link(lab.End{Host: client, Addrs: []string{"10.8.0.2/24"}}, lab.End{Host: server, Addrs: []string{"10.8.0.1/24"}}, lab.LinkOptions{})
	dir, err := os.MkdirTemp("", "baton-unit-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for from, name := range map[string]string{experimentstest.Program(t): "baton", "/proc/self/exe": "tester"} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(dir, "purge.sock")
	write(t, filepath.Join(dir, "purge.yaml"), fmt.Sprintf("control: %q\npolicies: [{name: web, ports: [80]}]\n", socket))
	if err := os.Chmod(filepath.Join(dir, "purge.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	start := func(capabilities []string) *lab.Process {
		c := confinement{User: relayUser, Calls: calls}
		for _, name := range capabilities {
			c.Capabilities = append(c.Capabilities, purgeBits[name])
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		const script = `mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup; mount -o remount,bind,ro /sys/fs/cgroup; exec "$@"`
		p, err := server.Start(lab.Program{
			Path: "sh", Env: []string{confined + "=" + string(text)}, Name: "purge",
			Args: []string{
				"-c", script, "sh", filepath.Join(dir, "tester"), filepath.Join(dir, "baton"), "purge", "run", "-c", filepath.Join(dir, "purge.yaml"),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ask := func() (api.PurgeStatus, error) {
		c := api.NewClient(socket)
		defer c.Close()
		return c.Purge(t.Context())
	}
	ready := func(p *lab.Process) {
		t.Helper()
		lab.Eventually(t, long, func() error {
			if !strings.Contains(p.Log(), "msg=ready") {
				return fmt.Errorf("it is not ready:\n%s", p.Log())
			}
			return nil
		})
	}

	t.Run("a life", func(t *testing.T) {
		p := start(all)
		ready(p)
		listener, err := server.Listen("tcp", "10.8.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		c, err := client.Dial(t.Context(), "tcp", "10.8.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		accepted, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		k.B.Lose(1)
		if _, err := accepted.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, long, func() error {
			s, err := ask()
			if err != nil {
				return err
			}
			if s.Policies[0].Ended != 1 || s.Resets != 1 || !s.Features[0].Used || !s.Features[1].Used {
				return fmt.Errorf("%+v\n%s", s, p.Log())
			}
			return nil
		})
		k.B.Lose(0)
		if strings.Contains(p.Log(), "level=ERROR") || strings.Contains(p.Log(), "level=WARN") {
			t.Errorf("the log:\n%s", p.Log())
		}
		if err := p.Stop(long); err != nil {
			t.Errorf("%v:\n%s", err, p.Log())
		}
	})
	for _, missing := range all {
		t.Run("without "+missing, func(t *testing.T) {
			p := start(slices.DeleteFunc(slices.Clone(all), func(c string) bool { return c == missing }))
			if missing == "CAP_NET_RAW" { // it runs, and reports what it lacks
				ready(p)
				if s, err := ask(); err != nil || s.Features[0].Used || !strings.Contains(s.Features[0].Reason, missing) {
					t.Errorf("%+v, %v", s.Features, err)
				}
				if err := p.Stop(long); err != nil {
					t.Error(err)
				}
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			if err := p.Wait(ctx); err == nil || ctx.Err() != nil {
				t.Fatalf("it runs: %v\n%s", err, p.Log())
			}
			if want := "missing capability: " + missing; !strings.Contains(p.Log(), want) {
				t.Errorf("no %q in:\n%s", want, p.Log())
			}
		})
	}
}

// TestPurgeUnitIsValid has systemd read the unit.
func TestPurgeUnitIsValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("SKIP: systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(purgeUnit)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "baton-purge.service")
	write(t, file, strings.NewReplacer("/usr/local/bin/baton", "/bin/true", "User=baton-purge", "User=daemon").Replace(string(unit)))
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "systemd-analyze", "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestPrintPurge(t *testing.T) {
	now := time.Unix(1700000000, 0)
	s := api.PurgeStatus{
		Process: api.Process{Version: "v1", PID: 7, Started: now.Add(-time.Minute)}, Waiting: api.Usage{Used: 3, Limit: 262144}, Resets: 5,
		Cgroups: []string{"/a", "/b"}, CgroupsMissing: []string{"/b"},
		Features: []api.Feature{{Name: "resets", Reason: "no CAP_NET_RAW"}, {Name: "other", Used: true}},
		Policies: []api.PurgePolicy{
			{Name: "web", InForce: true, Ports: []string{"80", "8000-8100"}, Wait: 100, Floor: 360 * time.Millisecond, Ceiling: 30 * time.Second,
				Marked: 10, Ended: 4, Heard: 3, Gone: 2, Failed: 1},
			{Name: "tried", InForce: true, Ports: []string{"443"}, MaxRetries: 1, Floor: time.Second, Ceiling: time.Minute, DryRun: true, Spared: 9},
			{Name: "old", Ended: 8},
		},
		Verdicts: map[string]uint64{"watched": 20, "marked": 10, "shut": 0},
	}
	const want = `baton v1, pid 7, up 1m0s, 3 of 262144 connections marked, 5 resets in addition to the kernel's
without resets: no CAP_NET_RAW
control group /b does not exist

POLICY  PORTS          RETRIES  WAIT  UNRESPONSIVE  MARKED  ENDED  HEARD  GONE  SPARED  FAILED  STATE
web     80, 8000-8100  0        100%  360ms to 30s  10      4      3      2     0       1       in force
tried   443            1        0%    1s to 1m0s    0       0      0      0     9       0       dry run
old     -              0        0%    0s to 0s      0       8      0      0     0       0       gone

VERDICT  TIMES  
marked   10     
watched  20     
`
	var out strings.Builder
	if err := printPurge(&out, &s, false, now); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
