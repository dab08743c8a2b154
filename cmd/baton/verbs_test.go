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
	"baton/cmd/cli/part"
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

// daemons answer for each part.
func daemons(pid int) map[string]api.Backend {
	process := func(name string) api.Process {
		return api.Process{Version: "v1", PID: pid, Started: time.Now().Add(-time.Hour), Name: name}
	}
	all := map[string]api.Backend{}
	for name, part := range map[string]api.Part{
		"router": routerDaemon(process("")),
		"relay": api.RelayBackend{
			Status: func(context.Context) (api.RelayStatus, error) { return api.RelayStatus{Process: process("r")}, nil },
			Distances: func(context.Context) (api.RelayDistances, error) {
				return api.RelayDistances{Destinations: []api.RelayDestination{{Destination: "d", Chosen: true, Via: []string{"x"}, Instead: [][]string{{"y", "z"}}}}}, nil
			},
		},
		"anycast": api.AnycastBackend{Status: func(context.Context) (api.AnycastStatus, error) {
			return api.AnycastStatus{Process: process("a"), Site: &api.AnycastSite{Level: "med", Health: "up"}}, nil
		}, Instruct: func(_ context.Context, i api.AnycastInstruction) (api.AnycastStatus, error) {
			return api.AnycastStatus{}, fmt.Errorf("%w: level %q is not on this site's ladder (did you mean med?)", api.ErrInvalid, i.Level)
		}},
		"forwarder": api.ForwarderBackend{Status: func(context.Context) (api.ForwarderStatus, error) {
			return api.ForwarderStatus{Process: process("f")}, nil
		}},
		"balance": api.BalanceBackend{Status: func(context.Context) (api.BalanceStatus, error) {
			return api.BalanceStatus{Process: process("b")}, nil
		}},
		"purge": api.PurgeBackend{Status: func(context.Context) (api.PurgeStatus, error) {
			return api.PurgeStatus{Process: process(""), Policies: []api.PurgePolicy{{Name: "web"}}}, nil
		}},
	} {
		all[name] = api.Backend{Part: part}
	}
	return all
}

func routerDaemon(process api.Process) api.RouterBackend {
	return api.RouterBackend{
		Status: func(context.Context) (api.RouterStatus, error) {
			return api.RouterStatus{Process: process, Pools: []api.RouterPool{{Name: "p", Surrogates: []api.RouterSurrogate{{Name: "s1", Up: true}}}}}, nil
		},
		Sessions: func(_ context.Context, yield func(api.RouterSession) bool) error {
			_ = yield(api.RouterSession{Surrogate: "s1"}) && yield(api.RouterSession{Surrogate: "s2"})
			return nil
		},
		Backend: func(_ context.Context, c api.RouterBackendChange) (api.RouterBackendResult, error) {
			r := api.RouterBackendResult{Do: c.Do, Surrogate: c.Surrogate, Present: true, Pool: "p", Address: c.Address, Sessions: 2, Saved: true}
			if c.Weight != nil {
				r.Weight = *c.Weight
			}
			r.Draining = c.Do == api.RouterBackendDrain || c.Do == api.RouterBackendRemove
			r.Present = !c.Now
			switch {
			case c.Surrogate == "s7" && c.Do != api.RouterBackendAdd:
				return r, fmt.Errorf("surrogate %q: %w", c.Surrogate, api.ErrNotFound)
			case c.Surrogate == "s8":
				r.Present, r.Problem = false, "its name is another one's"
			}
			return r, nil
		},
	}
}

// TestFormatsOfStatus: each part's status parses in the formats of programs, and has the same in all.
func TestFormatsOfStatus(t *testing.T) {
	for _, p := range parts() {
		t.Run(p.Name, func(t *testing.T) {
			socket := serve(t, daemons(4711)[p.Name])
			for format, parse := range map[string]func([]byte, any) error{
				"json": json.Unmarshal, "yaml": func(b []byte, to any) error { return yaml.Unmarshal(b, to) },
			} {
				var s struct{ PID int }
				status, out, errs := said(t, p.Name, "status", "--control", socket, "-o", format)
				if err := parse([]byte(out), &s); status != 0 || err != nil || s.PID != 4711 {
					t.Errorf("%s: status %d, %v: %s%s", format, status, err, out, errs)
				}
			}
			status, table, errs := said(t, p.Name, "status", "--control", socket)
			_, wide, _ := said(t, p.Name, "status", "--control", socket, "-o", "wide")
			if status != 0 || !strings.Contains(table, "pid 4711") || len(wide) <= len(table) {
				t.Errorf("status %d, table %d bytes, wide %d: %s%s", status, len(table), len(wide), table, errs)
			}
		})
	}
}

// TestVerbsOfParts asks a daemon by the commands that only one part has.
func TestVerbsOfParts(t *testing.T) {
	sockets := map[string]string{}
	for name, b := range daemons(1) {
		sockets[name] = serve(t, b)
	}
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
		{"router backend add p s7 192.0.2.7:80 --weight 3", 0, "s7 is in pool p, at 192.0.2.7:80 with weight 3\n"},
		{"router backend add p s7 [2001:db8::7]:80 -o json", 0, `"address": "[2001:db8::7]:80"`},
		{"router backend add p s7 web.test:80", cli.Usage, `"web.test:80" is not ADDRESS:PORT`},
		{"router backend add p s7 192.0.2.7:80 --weight 300", cli.Usage, "300 is not a weight"},
		{"router backend add p s7", cli.Usage, "ADDRESS is missing"},
		{"router backend remove s1", 0, "s1 gets no new sessions, and is removed when those that it has (2) have ended\n"},
		{"router backend remove s1 --now", 0, "s1 is removed\n"},
		{"router backend weight s1 5", 0, "s1 has weight 5\n"},
		{"router backend weight s1 much", cli.Usage, `"much" is not a weight`},
		{"router backend reset --all", 0, "no surrogate is changed by command\n"},
		{"router backend reset", cli.Usage, "give a surrogate, or --all"},
		{"router backend reset s8", 0, "s8 is not in a pool: its name is another one's\n"},
		{"router backend drain s7", cli.Usage, `surrogate "s7": not found`},
		{"relay routes", 0, "d            via x"},
		{"relay routes -o wide", 0, "y z"},
		{"relay stop", cli.Usage, "--graceful is missing"},
		{"anycast plan", cli.Usage, "a is no planner"},
		{"anycast level medd", cli.Usage, `baton: level "medd" is not on this site's ladder (did you mean med?)`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.Fields(tt.args)
			status, out, errs := said(t, append(args, "--control", sockets[args[0]])...)
			if status != tt.code || !strings.Contains(out+errs, tt.want) || (status == 0) != (errs == "") {
				t.Errorf("status %d, %q, %q; want %d, %q", status, out, errs, tt.code, tt.want)
			}
		})
	}
}

// TestReload: the command says whether the new configuration was taken, what has changed, and why it was refused.
func TestReload(t *testing.T) {
	var answer error
	socket := serve(t, api.Backend{Part: api.PurgeBackend{}, Reload: func(context.Context) (api.ReloadResult, error) {
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
			status, out, errs := said(t, p.Name, "reload", "--control", socket)
			if status != tt.code || !strings.HasPrefix(out+errs, tt.want) {
				t.Errorf("%s: status %d, %q, want %d, %q", p.Name, status, out+errs, tt.code, tt.want)
			}
		}
	}
}

// TestHostStatus: a line for each daemon that runs, wherever it is found, and once.
func TestHostStatus(t *testing.T) {
	dir := t.TempDir()
	var all []*part.Part
	for i, p := range parts() {
		usual := serve(t, daemons(100 + i)[p.Name])
		p.Sockets = []string{usual, filepath.Dir(usual) + "/*.sock", dir + "/none.sock"}
		if p.Name == "balance" {
			p.Sockets = nil
		}
		all = append(all, p)
	}
	found, err := part.Running(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := part.PrintRunning(&out, found, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if n := strings.Count(out.String(), "\n"+p.Name+" "); (n == 1) != (p.Sockets != nil) {
			t.Errorf("%d lines of %s in\n%s", n, p.Name, out.String())
		}
	}
	if !strings.Contains(out.String(), "level med, health up") || !strings.Contains(out.String(), "1h0m0s") {
		t.Errorf("printed\n%s", out.String())
	}
	if found, err := part.Running(t.Context(), nil); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
	if here, err := part.Running(t.Context(), onHost()); err == nil && len(here) == 0 {
		status, _, errs := said(t, "status")
		if want := "baton: no part of Baton is running; to start one: systemctl start baton-router, or "; status != cli.Failure || !strings.HasPrefix(errs, want) {
			t.Errorf("status %d, %q, want %q", status, errs, want)
		}
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
		if part.Exists(p.File()) {
			t.Skipf("SKIP: there is %s", p.File())
		}
		for _, verb := range []string{"run", "check", "cleanup"} {
			status, _, errs := said(t, p.Name, verb)
			want := fmt.Sprintf("baton: there is no /etc/baton/%[1]s.yaml: write it, or name another file: baton %[1]s %[2]s -c %[1]s.yaml\n", p.Name, verb)
			if status != cli.Usage || errs != want {
				t.Errorf("%s %s: status %d, %q, want %q", p.Name, verb, status, errs, want)
			}
		}
	}
}
