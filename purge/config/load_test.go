package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"baton/document"
	"baton/purge/policy"

	"baton/document/documenttest"
)

const minimal = "policies:\n  - {name: web, ports: [80]}\n"

// everything sets every key to something else than its default.
const everything = `control: /tmp/p.sock
metrics: "127.0.0.1:9468"
cgroups: [/system.slice/nginx.service, /docker]
dry_run: true
limits: {marks: 1000}
policies:
  - name: web
    addresses: [192.0.2.7, 2001:db8::/64]
    ports: [80, 8000-8100]
    max_retries: 1
    wait: 50%
    floor: 250ms
    ceiling: 2s
    exempt: [10.0.0.0/8]
    dry_run: false
  - {name: rest, ports: [443]}
`

var (
	same = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	all  = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
)

func TestParse(t *testing.T) {
	usual := policy.Policy{Wait: 100, Floor: 360 * time.Millisecond, Ceiling: 30 * time.Second}
	tests := []struct {
		name, text string
		want       *Config
	}{
		{"minimal", minimal, &Config{
			File: "f", Control: "/run/baton/purge.sock", Cgroups: []string{"/"}, Limits: Limits{Marks: 262144},
			Policies: []Policy{{Name: "web", Addresses: all, Ports: []document.Ports{{First: 80, Last: 80}}, Policy: usual, Line: 2}},
		}},
		{"everything", everything, &Config{
			File: "f", Control: "/tmp/p.sock", Metrics: "127.0.0.1:9468", Cgroups: []string{"/system.slice/nginx.service", "/docker"},
			Limits: Limits{Marks: 1000},
			Policies: []Policy{
				{
					Name: "web", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::/64")},
					Ports: []document.Ports{{First: 80, Last: 80}, {First: 8000, Last: 8100}}, Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
					Policy: policy.Policy{MaxRetries: 1, Wait: 50, Floor: 250 * time.Millisecond, Ceiling: 2 * time.Second}, Line: 7,
				},
				{Name: "rest", Addresses: all, Ports: []document.Ports{{First: 443, Last: 443}}, DryRun: true, Policy: usual, Line: 16},
			},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse("f", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, same); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
}

// TestParseRefuses compares the whole line that a user reads for each kind of mistake.
func TestParseRefuses(t *testing.T) {
	in := func(s string) string { return "policies: [{name: web, ports: [80], " + s + "}]" }
	tests := []struct{ name, text, want string }{
		{"empty", "", `f:1:1: is empty (policies are needed)`},
		{"no policies", "control: /x", `f:1:1: policies: is missing (policies: [{name: ..., ports: ...}])`},
		{"policies that are none", "policies: []", `f:1:11: policies: is an empty list (at least one entry)`},
		{"unknown key", "polices: []", "f:1:1: polices: is not a key (did you mean policies?)\nf:1:10: policies: is an empty list (at least one entry)"},
		{"relative control", "control: x\n" + minimal, `f:1:10: control: "x" is not usable as a path (an absolute path of at most 107 bytes)`},
		{"metrics without port", "metrics: localhost\n" + minimal, `f:1:10: metrics: "localhost" is not host:port (such as "127.0.0.1:9468")`},
		{"metrics on port 0", "metrics: \":0\"\n" + minimal, `f:1:10: metrics: ":0" has no port from 1 to 65535 (such as "127.0.0.1:9468")`},
		{"relative cgroup", "cgroups: [a]\n" + minimal,
			`f:1:11: cgroups[0]: "a" is no control group's path (as in /proc/PID/cgroup behind "0::", such as /system.slice/nginx.service, or / for the whole host)`},
		{"cgroup upwards", "cgroups: [/a/../b]\n" + minimal,
			`f:1:11: cgroups[0]: "/a/../b" is no control group's path (as in /proc/PID/cgroup behind "0::", such as /system.slice/nginx.service, or / for the whole host)`},
		{"cgroup within another", "cgroups: [/a, /a/b]\n" + minimal,
			`f:1:15: cgroups[1]: "/a/b" is within another one of the list, or another one in it (the outer one alone)`},
		{"cgroup around another", "cgroups: [/a, /]\n" + minimal,
			`f:1:15: cgroups[1]: "/" is within another one of the list, or another one in it (the outer one alone)`},
		{"no marks", "limits: {marks: 0}\n" + minimal, `f:1:17: limits.marks: "0" is out of range (a whole number from 1 to 4194304)`},
		{"no name", "policies: [{ports: [80]}]", `f:1:13: policies[0].name: is missing (name: ...)`},
		{"no ports", "policies: [{name: a}]", `f:1:13: policies[0].ports: is missing (ports: [...])`},
		{"name", "policies: [{name: A, ports: [80]}]", `f:1:19: policies[0].name: "A" is no name here (at most 63 of a-z, 0-9 and, in between, -)`},
		{"name twice", minimal + "  - {name: web, ports: [81]}\n", `f:3:12: policies[1].name: "web" is the name of policies[0] already (a name of its own)`},
		{"port", "policies: [{name: a, ports: [0]}]", `f:1:30: policies[0].ports[0]: "0" is not a port (such as 443 or 8000-8100, from 1 to 65535)`},
		{"ports", "policies: [{name: a, ports: [9-8]}]", `f:1:30: policies[0].ports[0]: "9-8" ends before it begins (8-9)`},
		{"no addresses", in("addresses: []"), `f:1:48: policies[0].addresses: is an empty list (at least one entry)`},
		{"address", in("addresses: [x]"),
			`f:1:49: policies[0].addresses[0]: "x" is neither an address nor address/length (such as 192.0.2.7 or 2001:db8::/48)`},
		{"bits", in("exempt: [10.0.0.1/8]"), `f:1:46: policies[0].exempt[0]: "10.0.0.1/8" has bits set after its length (10.0.0.0/8)`},
		{"mapped", in(`exempt: ["::ffff:10.0.0.1"]`), `f:1:46: policies[0].exempt[0]: "::ffff:10.0.0.1" is an IPv4 address written as IPv6 (such as 192.0.2.7 or 2001:db8::/48)`},
		{"retries", in("max_retries: 16"), `f:1:50: policies[0].max_retries: "16" is out of range (a whole number from 0 to 15)`},
		{"wait", in("wait: 1"), `f:1:43: policies[0].wait: "1" has no percent sign (from 0% to 1000%)`},
		{"wait too long", in("wait: 1001%"), `f:1:43: policies[0].wait: "1001%" is out of range (from 0% to 1000%)`},
		{"floor", in("floor: 0.5ms"), `f:1:44: policies[0].floor: "0.5ms" is out of range (whole milliseconds, at most 1h0m0s)`},
		{"ceiling below floor", in("floor: 2s, ceiling: 1s"), `f:1:57: policies[0].ceiling: 1s is below floor, which is 2s (ceiling at least floor)`},
		{"default ceiling below floor", in("floor: 40s"), `f:1:13: policies[0].ceiling: 30s is below floor, which is 40s (ceiling at least floor)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("f", []byte(tt.text))
			if !documenttest.Reported(err, tt.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "purge.yaml")
	if _, err := Load(file); err == nil || !strings.HasPrefix(err.Error(), "read configuration: ") {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte(minimal), 0o600); err != nil {
		t.Fatal(err)
	}
	if cfg, err := Load(file); err != nil || cfg.File != file {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestChanged(t *testing.T) {
	old, err := Parse("f", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		old, new string
		want     []string
	}{
		{"/tmp/p.sock", "/tmp/q.sock", []string{"control"}},
		{"9468", "9469", []string{"metrics"}},
		{"/docker", "/podman", []string{"cgroups"}},
		{"1000", "1001", []string{"limits.marks"}},
		{"443", "444", nil},
		{"250ms", "251ms", nil},
	} {
		next, err := Parse("f", []byte(strings.Replace(everything, tt.old, tt.new, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, Changed(old, next), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s to %s (-want +got):\n%s", tt.old, tt.new, diff)
		}
	}
}

// TestChangedGroups: two lists that print alike are not the same.
func TestChangedGroups(t *testing.T) {
	one, two := &Config{Cgroups: []string{"/a /b"}}, &Config{Cgroups: []string{"/a", "/b"}}
	if got := Changed(one, two); len(got) != 1 {
		t.Errorf("changed are %v", got)
	}
}

// FuzzParse: error or value, never both, never neither, never a panic, and a message is one line. What is accepted can work.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte(everything))
	f.Add([]byte(""))
	f.Add([]byte("a: &a {b: *a}\n<<: *a\n"))
	f.Add([]byte("cgroups: [/a, /b]\npolicies: [{name: a, ports: [1-65535], wait: 0%, floor: 1ms, ceiling: 1ms}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("f", data)
		if (cfg == nil) == (err == nil) {
			t.Fatalf("Parse = %v, %v, want one of them", cfg, err)
		}
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if line = strings.TrimSuffix(line, "\n"); strings.ContainsAny(line, "\n\r") || !strings.HasPrefix(line, "f") {
					t.Fatalf("message is not one line of the file: %q", line)
				}
			}
			return
		}
		if len(cfg.Policies) == 0 || len(cfg.Cgroups) == 0 || cfg.Limits.Marks < 1 {
			t.Fatalf("accepted an impossible purge: %+v", cfg)
		}
		for _, p := range cfg.Policies {
			life := p.Lifetime(200 * time.Millisecond)
			if p.Name == "" || len(p.Addresses) == 0 || len(p.Ports) == 0 || p.Floor > p.Ceiling || life < p.Floor || life > max(p.Ceiling, 200*time.Millisecond) {
				t.Fatalf("accepted an impossible policy: %+v", p)
			}
			for _, r := range p.Ports {
				if r.First == 0 || r.First > r.Last {
					t.Fatalf("accepted impossible ports: %+v", r)
				}
			}
		}
	})
}
