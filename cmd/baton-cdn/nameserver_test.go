package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/cmd/cli"
)

// serve is a name server that answers on a control socket, until the test ends.
func serve(t *testing.T, b api.NameserverBackend, reload func(context.Context) (api.ReloadResult, error)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "n.sock")
	l, err := api.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- api.Serve(ctx, l, api.Backend{Part: b, Reload: reload}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket
}

func TestNameserverVerbs(t *testing.T) {
	var asked api.NameserverQuestion
	scope := 24
	socket := serve(t, api.NameserverBackend{
		Status: func(context.Context) (api.NameserverStatus, error) {
			return api.NameserverStatus{
				Process: api.Process{Version: "v1", PID: 4711, Started: time.Now()}, Listen: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53")},
				Zones:      []api.NameserverZone{{Name: "example.test.", File: "/z", Serial: 7, Error: "/z:3: no address"}},
				Services:   []api.NameserverService{{Name: "content", Decisions: 5}},
				Surrogates: []api.NameserverSurrogate{{Name: "se1", Site: "west", Up: true, State: "in-service"}},
				Answers:    map[string]uint64{"routed": 5},
			}, nil
		},
		Query: func(_ context.Context, q api.NameserverQuestion) (api.NameserverExplanation, error) {
			asked = q
			return api.NameserverExplanation{Code: "NOERROR", Because: []string{"zone example.test."}, Answer: []string{"cdn A 192.0.2.1"}, Scope: &scope}, nil
		},
		Decisions: func(context.Context) ([]api.RoutingDecision, error) {
			return []api.RoutingDecision{{Name: "cdn.example.test", Surrogate: "se1", Because: []string{"first", "last"}}}, nil
		},
		Change: func(_ context.Context, c api.NameserverChange) (api.NameserverSurrogate, error) {
			if c.Surrogate != "se1" {
				return api.NameserverSurrogate{}, fmt.Errorf("surrogate %q: %w", c.Surrogate, api.ErrNotFound)
			}
			return api.NameserverSurrogate{Name: "se1", State: *c.State, Weight: 3}, nil
		},
	}, func(context.Context) (api.ReloadResult, error) {
		return api.ReloadResult{Config: "/n.yaml", Changed: []string{"zone example.test. has the serial 8 (7 before)"}}, nil
	})
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"status", 0, "pid 4711"}, {"status", 0, "zone example.test. is not as its file is:\n/z:3: no address\n"}, {"status -o json", 0, `"pid": 4711`},
		{"status -o wide", 0, "transfers 0"}, {"reload", 0, "has the serial 8 (7 before)"},
		{"query cdn.example.test", 0, "zone example.test.\n\nNOERROR, for the client's /24\ncdn A 192.0.2.1\n"},
		{"query cdn.example.test aaaa --client 192.0.2.7 -o json", 0, `"code": "NOERROR"`},
		{"query cdn.example.test --client nobody", cli.Usage, `--client: "nobody" is neither an address nor a network`},
		{"query", cli.Usage, "NAME is missing; for example: baton-cdn nameserver query cdn.example.net"},
		{"decisions", 0, "last"}, {"decisions -o wide", 0, "first; last"},
		{"surrogate se1 --state maintenance", 0, "se1: maintenance, weight 3\n"}, {"surrogate se1", cli.Usage, "--state or --weight is missing"},
		{"surrogate se1 --state maintenence", cli.Usage, `--state: "maintenence" is not one of in-service, maintenance: did you mean maintenance?`},
		{"surrogate se7 --state maintenance", cli.Usage, `surrogate "se7": not found`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			status, out, errs := said(t, append([]string{"nameserver"}, append(strings.Fields(tt.args), "--control", socket)...)...)
			if status != tt.code || !strings.Contains(out+errs, tt.want) {
				t.Errorf("status %d, %q, %q; want %d, %q", status, out, errs, tt.code, tt.want)
			}
		})
	}
	if asked.Client != netip.MustParsePrefix("192.0.2.0/24") && asked.Type != "AAAA" {
		t.Errorf("asked %+v", asked)
	}
}

// TestCheckZones: the mistakes of all zones are told with their places, and make exit status 2.
func TestCheckZones(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const good = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n"
	file := write("n.yaml", "listen: [\"127.0.0.1:53\"]\nzones: [{name: a.test, file: a}, {name: b.test, file: b}]\n")
	write("a", good+"x CNAME y\n")
	write("b", good)
	status, out, errs := said(t, "nameserver", "check", "-c", file)
	if status != 0 || out != file+": configuration OK: 2 zones, 7 records\n" || errs != "warning: "+dir+"/a:5: x.a.test. is an alias of y.a.test., which does not exist\n" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	write("a", good+"x A nonsense\n")
	write("b", good+"other.test. A 192.0.2.1\n")
	status, _, errs = said(t, "nameserver", "check", "-c", file)
	if status != cli.Usage || !strings.Contains(errs, "baton-cdn: "+dir+"/a:5:12: \"nonsense\" is wrong in the data of a record of type A (write: www A 192.0.2.1)\n") ||
		!strings.Contains(errs, "baton-cdn: "+dir+"/b:5: other.test. is outside of the zone b.test. (a name of the zone, or another file)\n") {
		t.Errorf("status %d, %q", status, errs)
	}
	write("a", good)
	write("n.yaml", "listen: [\"127.0.0.1:53\"]\nzones: [{name: a.test, file: a, keys: keys}, {name: b.test, file: c}]\n")
	status, _, errs = said(t, "nameserver", "check", "-c", file)
	if status != cli.Usage || !strings.Contains(errs, "zones[0].keys: open "+dir+"/keys: no such file or directory (baton nameserver key a.test --folder "+dir+"/keys makes one)\n") ||
		!strings.Contains(errs, ":2:67: zones[1].file: \""+dir+"/c\": no such file (create it, or name another file)\n") {
		t.Errorf("status %d, %q", status, errs)
	}
}

// TestKey: a key is made once, is its owner's, and signs a zone; its DS record is shown again.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	status, out, errs := said(t, "nameserver", "key", "A.test", "--folder", dir)
	path := strings.TrimPrefix(strings.Split(out, "\n")[0], "key: ")
	if status != 0 || !strings.Contains(out, "\na.test.\t3600\tIN\tDS\t") {
		t.Fatalf("status %d, %q, %q", status, out, errs)
	}
	if info, err := os.Stat(path + ".private"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, again, _ := said(t, "nameserver", "key", path+".key"); again != out {
		t.Errorf("%q, and again %q", out, again)
	}
	zone, file := filepath.Join(dir, "z"), filepath.Join(dir, "n.yaml")
	for name, text := range map[string]string{
		zone: "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n",
		file: "listen: [\"127.0.0.1:53\"]\nzones: [{name: a.test, file: z, key: " + filepath.Base(path) + "}]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if status, _, errs := said(t, "nameserver", "check", "-c", file); status != 0 {
		t.Errorf("status %d, %s", status, errs)
	}
	if err := os.Chmod(path+".private", 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := said(t, "nameserver", "check", "-c", file); status != cli.Usage || !strings.Contains(errs, "n.yaml:2:38: zones[0].key: ") || !strings.Contains(errs, "chmod 600") {
		t.Errorf("status %d, %s", status, errs)
	}
}
