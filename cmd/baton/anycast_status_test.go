package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/api"

	"baton/cmd/cli"
)

func TestPrintAnycast(t *testing.T) {
	now := time.Unix(1700000000, 0)
	load, over := 0.5, 1.25
	preference := uint32(90)
	s := api.AnycastStatus{
		Process: api.Process{Version: "v1", PID: 7, Started: now.Add(-time.Hour), Name: "london"},
		Site: &api.AnycastSite{
			Prefixes: []string{"192.0.2.0/24", "2001:db8:1::/48"}, Level: "med", Since: now.Add(-time.Minute), Reason: "load 91 % of the capacity", Want: "prepend-1",
			Held: "flap budget", HeldUntil: now.Add(90 * time.Second), Penalty: 956.4, Budget: 1000, Health: "up", Load: &load, Fault: "announce: it is closed",
			Instruction: api.AnycastInstruction{Kind: "level", Level: "med", At: now.Add(-time.Minute)}, Proposal: &api.AnycastProposal{Planner: "plan", Level: "announce", Fresh: true},
			Levels: []api.AnycastLevel{
				{Name: "announce"}, {Name: "med", MED: 100, Enter: 0.85, Leave: 0.7},
				{Name: "drain", Prepend: 3, LocalPreference: &preference, Communities: []string{"65535:0", "64512:7"}}, {Name: "withdraw", Withdrawn: true},
			},
			Peers: []api.AnycastPeer{
				{Name: "r1", Address: "10.0.0.1", AS: 65000, State: "established", Since: now.Add(-time.Hour), Ups: 1},
				{Name: "r2", Address: "fd00::1", AS: 65000, State: "active", Since: now.Add(-time.Second), Last: "hold timer expired"},
			},
			Checks: []api.AnycastCheck{{Name: "web", Health: "up"}, {Name: "disk", Health: "unknown", Last: "exit status 1"}},
			Loads:  []api.AnycastLoad{{Name: "uplink", Share: &load, At: now.Add(-3 * time.Second)}, {Name: "script", Error: "no answer in time"}},
			Others: []api.AnycastNeighbor{{Name: "paris", Alive: true, Level: "announce", Health: "up", Load: &over, At: now.Add(-2 * time.Second)}, {Name: "rome", Error: "refused"}},
		},
		Planner: &api.AnycastPlanner{
			Because: "a step to less overload, distance or interruption", Moved: now.Add(-time.Second), Sites: []api.AnycastNeighbor{{Name: "paris", Alive: true, Proposal: "med"}, {Name: "rome"}},
			Map:  []api.AnycastIngress{{Name: "west", Site: "paris", Target: "london", Demand: 1.25e6}, {Name: "east", Target: "paris"}},
			Next: []api.AnycastMove{{Step: 1, Ingress: "west", From: "paris", To: "london"}, {Step: 2, Ingress: "east", To: "paris"}},
		},
	}
	const want = `london: baton v1, pid 7, up 1h0m0s
announces 192.0.2.0/24, 2001:db8:1::/48 at level med for 1m0s: load 91 % of the capacity
wants level prepend-1; flap budget holds it for 1m30s more
the routers do not know: announce: it is closed
instruction level med, given 1m0s ago
planner plan proposes level announce, fresh
health up, load 50 %, flap penalty 956 of 1000

LEVEL     MED  PREPEND  PREFERENCE  COMMUNITIES      ENTERED AT  LEFT BELOW  IN FORCE
announce  -    -        -           -                -           -           
med       100  -        -           -                85 %        70 %        yes
drain     -    3        90          65535:0 64512:7  -           -           
withdraw  -    -        -           -                -           -           

ROUTER  ADDRESS   AS     SESSION      FOR     UPS  ENDED LAST BY
r1      10.0.0.1  65000  established  1h0m0s  1    -
r2      fd00::1   65000  active       1s      0    hold timer expired

CHECK  HEALTH   LAST FAILURE
web    up       -
disk   unknown  exit status 1

LOAD    OF THE CAPACITY  AGE  FAULT
uplink  50 %             3s   -
script  -                -    no answer in time

SITE   UP   LEVEL     HEALTH  LOAD   REPORTED  FAULT
paris  yes  announce  up      125 %  2s        -
rome   no   -         -       -      -         refused
planner: a step to less overload, distance or interruption; last change 1s ago

SITE   UP   LEVEL  PROPOSED  HEALTH  LOAD  REPORTED  FAULT
paris  yes  -      med       -       -     -         -
rome   no   -      -         -       -     -         -

INGRESS  SITE   TARGET  DEMAND
west     paris  london  10.0 Mbit/s
east     -      paris   0.0 Mbit/s

STEP  INGRESS  FROM   TO
1     west     paris  london
2     east     -      paris
`
	var out bytes.Buffer
	if err := printAnycast(&out, &s, false, now); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

func TestPrintAnycastOfAMap(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for name, tt := range map[string]struct {
		s    api.AnycastStatus
		want string
	}{
		"a site that only reports": {api.AnycastStatus{Site: &api.AnycastSite{Level: "announce", Since: now, Reason: "healthy"}},
			"announces nothing itself, is at level announce for 0s: healthy\n"},
		"a planner that has just begun": {api.AnycastStatus{Planner: &api.AnycastPlanner{Because: "it has just begun"}},
			"planner: it has just begun; nothing was changed yet\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printAnycast(&out, &tt.s, false, now); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("printed\n%s\nwithout %q", out.String(), tt.want)
			}
		})
	}
}

// TestAnycastCommands asks a daemon that answers with what it was told.
func TestAnycastCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	l, err := api.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	var heard []api.AnycastInstruction
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- api.Serve(ctx, l, api.Backend{Part: api.AnycastBackend{
			Status: func(context.Context) (api.AnycastStatus, error) {
				return api.AnycastStatus{Process: api.Process{Name: "london"}}, nil
			},
			Instruct: func(_ context.Context, o api.AnycastInstruction) (api.AnycastStatus, error) {
				heard = append(heard, o)
				if o.Level == "nonsense" {
					return api.AnycastStatus{}, api.ErrInvalid
				}
				return api.AnycastStatus{Process: api.Process{Name: "london"}, Site: &api.AnycastSite{Level: "drain", Reason: "drained by instruction"}}, nil
			},
		}})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	file := filepath.Join(t.TempDir(), "anycast.yaml")
	if err := os.WriteFile(file, []byte(`name: london
control: `+path+`
site:
  prefixes: [192.0.2.0/24]
  bgp: {as: 64512, router_id: 10.0.0.2, peers: [{name: r1, address: 10.0.0.1, as: 65000}]}
  checks: [{name: web, tcp: "127.0.0.1:80"}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args string
		code int
		out  string
		want api.AnycastInstruction
	}{
		{"drain --control " + path, 0, "london: level drain: drained by instruction\n", api.AnycastInstruction{Kind: "drain"}},
		{"drain london --withdraw --force --config " + file, 0, "london: level drain: drained by instruction\n", api.AnycastInstruction{Kind: "maintenance", Site: "london", Force: true}},
		{"drain paris --control " + path, 0, "paris: the instruction is in force\n", api.AnycastInstruction{Kind: "drain", Site: "paris"}},
		{"undrain paris --control " + path, 0, "paris: the instruction is in force\n", api.AnycastInstruction{Kind: "none", Site: "paris"}},
		{"level med --control " + path, 0, "london: level drain: drained by instruction\n", api.AnycastInstruction{Kind: "level", Level: "med"}},
		{"level paris med --control " + path, 0, "paris: the instruction is in force\n", api.AnycastInstruction{Kind: "level", Site: "paris", Level: "med"}},
		{"level nonsense --control " + path, cli.Usage, "", api.AnycastInstruction{Kind: "level", Level: "nonsense"}},
		{"status --control " + path, 0, "london: baton", api.AnycastInstruction{}},
		{"status -o json --control " + path, 0, `"name": "london"`, api.AnycastInstruction{}},
		{"plan --control " + path, cli.Usage, "", api.AnycastInstruction{}},
		{"status --control " + path + ".none", cli.Failure, "", api.AnycastInstruction{}},
		{"level", cli.Usage, "", api.AnycastInstruction{}},
		{"check --config " + file, 0, file + ": configuration OK: site london, 1 prefix, 1 router\n", api.AnycastInstruction{}},
		{"run --config " + file + ".none", cli.Usage, "", api.AnycastInstruction{}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			heard = nil
			var out, complaints bytes.Buffer
			code := run(t.Context(), cli.Env{Out: &out, Err: &complaints}, append([]string{"anycast"}, strings.Fields(tt.args)...))
			if code != tt.code || !strings.Contains(out.String(), tt.out) {
				t.Errorf("exit code %d, want %d; printed %q, want %q; %s", code, tt.code, out.String(), tt.out, complaints.String())
			}
			if tt.want != (api.AnycastInstruction{}) && (len(heard) != 1 || heard[0] != tt.want) {
				t.Errorf("heard %+v, want %+v", heard, tt.want)
			}
			if code != 0 && strings.Count(complaints.String(), "\n") != strings.Count(complaints.String(), "baton:")+strings.Count(complaints.String(), "warning:") {
				t.Errorf("complaints %q", complaints.String())
			}
		})
	}
}
