package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"baton/api"
	"baton/cmd/cli"
)

// serve is a daemon that answers as a part does, until the test ends.
func serve(t *testing.T, b api.Backend) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "d.sock")
	l, err := api.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, l, b) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// statuses answers for all parts.
func statuses(pid int) api.Backend {
	began := time.Now().Add(-time.Hour)
	return api.Backend{
		Status: func(context.Context) (api.Status, error) {
			return api.Status{Version: "v1", PID: pid, Started: began, Pools: []api.Pool{{Name: "p", Surrogates: []api.Surrogate{{Name: "s1", Up: true}}}}}, nil
		},
		Relay: func(context.Context) (api.RelayStatus, error) {
			return api.RelayStatus{Version: "v1", PID: pid, Started: began, Name: "r"}, nil
		},
		Anycast: func(context.Context) (api.AnycastStatus, error) {
			return api.AnycastStatus{Version: "v1", PID: pid, Started: began, Name: "a", Site: &api.AnycastSite{Level: "med", Health: "up"}}, nil
		},
		Forwarder: func(context.Context) (api.ForwarderStatus, error) {
			return api.ForwarderStatus{Version: "v1", PID: pid, Started: began, Name: "f"}, nil
		},
		Balance: func(context.Context) (api.BalanceStatus, error) {
			return api.BalanceStatus{Version: "v1", PID: pid, Started: began, Name: "b"}, nil
		},
		Purge: func(context.Context) (api.PurgeStatus, error) {
			return api.PurgeStatus{Version: "v1", PID: pid, Started: began, Policies: []api.PurgePolicy{{Name: "web"}}}, nil
		},
		Distances: func(context.Context) (api.Distances, error) {
			return api.Distances{Destinations: []api.RelayDestination{{Destination: "d", Chosen: true, Via: []string{"x"}, Instead: [][]string{{"y", "z"}}}}}, nil
		},
		Sessions: func(_ context.Context, yield func(api.Session) bool) error {
			_ = yield(api.Session{Surrogate: "s1"}) && yield(api.Session{Surrogate: "s2"})
			return nil
		},
		Drain: func(_ context.Context, r api.DrainRequest) (api.DrainResult, error) {
			if r.Surrogate != "s1" {
				return api.DrainResult{}, fmt.Errorf("surrogate %q: %w", r.Surrogate, api.ErrNotFound)
			}
			return api.DrainResult{Surrogate: r.Surrogate, Draining: !r.Undo, Sessions: 2}, nil
		},
	}
}

// TestFormatsOfStatus: each part's status parses in the formats of programs, and has the same in all.
func TestFormatsOfStatus(t *testing.T) {
	socket := serve(t, statuses(4711))
	for _, p := range parts() {
		t.Run(p.name, func(t *testing.T) {
			for format, parse := range map[string]func([]byte, any) error{
				"json": json.Unmarshal, "yaml": func(b []byte, to any) error { return yaml.Unmarshal(b, to) },
			} {
				var s struct{ PID int }
				status, out, errs := said(t, p.name, "status", "--control", socket, "-o", format)
				if err := parse([]byte(out), &s); status != 0 || err != nil || s.PID != 4711 {
					t.Errorf("%s: status %d, %v: %s%s", format, status, err, out, errs)
				}
			}
			status, table, errs := said(t, p.name, "status", "--control", socket)
			_, wide, _ := said(t, p.name, "status", "--control", socket, "-o", "wide")
			if status != 0 || !strings.Contains(table, "pid 4711") || len(wide) <= len(table) {
				t.Errorf("status %d, table %d bytes, wide %d: %s%s", status, len(table), len(wide), table, errs)
			}
		})
	}
}

// TestVerbsOfParts asks a daemon by the commands that only one part has.
func TestVerbsOfParts(t *testing.T) {
	socket := serve(t, statuses(1))
	for _, tt := range []struct {
		args string
		code int
		want string // of output, or of the complaint
	}{
		{"router sessions -o json", 0, `"surrogate":"s2"`},
		{"router sessions -o yaml", 0, "surrogate: s2\n"},
		{"router backend list", 0, "p     s1"},
		{"router backend drain s1", 0, "s1 gets no new sessions; it has 2\n"},
		{"router backend undrain s1", 0, "s1 gets new sessions again; it has 2\n"},
		{"router backend undrain s1 -o json", 0, `"draining": false`},
		{"router backend drain s7", cli.Usage, `surrogate "s7": not found`},
		{"relay routes", 0, "d            via x"},
		{"relay routes -o wide", 0, "y z"},
		{"relay stop", cli.Usage, "--graceful is missing"},
		{"anycast plan", cli.Usage, "a is no planner"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			status, out, errs := said(t, append(strings.Fields(tt.args), "--control", socket)...)
			if status != tt.code || !strings.Contains(out+errs, tt.want) || (status == 0) != (errs == "") {
				t.Errorf("status %d, %q, %q; want %d, %q", status, out, errs, tt.code, tt.want)
			}
		})
	}
}

// TestReload: the command says whether the new configuration was taken, what has changed, and why it was refused.
func TestReload(t *testing.T) {
	var answer error
	socket := serve(t, api.Backend{Reload: func(context.Context) (api.ReloadResult, error) {
		return api.ReloadResult{Config: "/etc/x.yaml", Changed: []string{"pool p is new"}}, answer
	}})
	for _, p := range parts() {
		for _, tt := range []struct {
			answer error
			code   int
			want   string
		}{
			{nil, 0, "/etc/x.yaml is in force\npool p is new\n"},
			{fmt.Errorf("%w: /etc/x.yaml:1:2: a: is wrong", api.ErrConflict), cli.Usage, "baton: the new configuration was refused, the old one stays in force: /etc/x.yaml:1:2: a: is wrong\n"},
			{fmt.Errorf("%w: /etc/x.yaml:1:2: a: is wrong", api.ErrInvalid), cli.Usage, "baton: the new configuration was refused, the old one stays in force: /etc/x.yaml:1:2: a: is wrong\n"},
			{fmt.Errorf("no memory"), cli.Failure, "baton: no memory\n"},
		} {
			answer = tt.answer
			status, out, errs := said(t, p.name, "reload", "--control", socket)
			if status != tt.code || !strings.HasPrefix(out+errs, tt.want) {
				t.Errorf("%s: status %d, %q, want %d, %q", p.name, status, out+errs, tt.code, tt.want)
			}
		}
	}
}

// TestHostStatus: a line for each daemon that runs, wherever it is found, and once.
func TestHostStatus(t *testing.T) {
	dir := t.TempDir()
	var all []*part
	for i, p := range parts() {
		usual := serve(t, statuses(100+i))
		p.sockets = []string{usual, filepath.Dir(usual) + "/*.sock", dir + "/none.sock"}
		if p.name == "balance" {
			p.sockets = nil
		}
		all = append(all, p)
	}
	found, err := running(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printRunning(&out, found, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if n := strings.Count(out.String(), "\n"+p.name+" "); (n == 1) != (p.sockets != nil) {
			t.Errorf("%d lines of %s in\n%s", n, p.name, out.String())
		}
	}
	if !strings.Contains(out.String(), "level med, health up") || !strings.Contains(out.String(), "1h0m0s") {
		t.Errorf("printed\n%s", out.String())
	}
	if found, err := running(t.Context(), nil); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestCleanup: it is refused while the daemon runs; a stale socket goes; where nothing is left that is said.
func TestCleanup(t *testing.T) {
	dir := t.TempDir()
	socket, file := filepath.Join(dir, "purge.sock"), filepath.Join(dir, "purge.yaml")
	write(t, file, "control: "+socket+"\npolicies: [{name: web, ports: [80]}]\n")
	check := func(what string, code int, want string, args ...string) {
		t.Helper()
		if status, out, errs := said(t, append([]string{"purge", "cleanup", "-c", file}, args...)...); status != code || out+errs != want {
			t.Errorf("%s: status %d, %q, want %d, %q", what, status, out+errs, code, want)
		}
	}
	check("nothing", 0, "nothing is left of the purge of "+file+"\n")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	check("it runs", cli.Failure, "baton: the purge of "+file+" runs: stop it first: systemctl stop baton-purge\n")
	l.Close()
	check("it was killed", 0, "removed control socket "+socket+"\n")
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket is there still")
	}
	check("in JSON", 0, "{\n  \"removed\": []\n}\n", "-o", "json")
}

// TestRunsByDefault: without -c a part's own file is taken, and its absence says what to do.
func TestRunsByDefault(t *testing.T) {
	for _, p := range parts() {
		if exists(p.file()) {
			t.Skipf("SKIP: there is %s", p.file())
		}
		for _, verb := range []string{"run", "check", "cleanup"} {
			status, _, errs := said(t, p.name, verb)
			want := fmt.Sprintf("baton: there is no /etc/baton/%[1]s.yaml: write it, or name another file: baton %[1]s %[2]s -c %[1]s.yaml\n", p.name, verb)
			if status != cli.Usage || errs != want {
				t.Errorf("%s %s: status %d, %q, want %q", p.name, verb, status, errs, want)
			}
		}
	}
}
