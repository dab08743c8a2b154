package topology

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/lab/emulator"
)

const ten = `hosts:
  client:
  router: {forward: true}
  server:
    processes:
      web: python3 -m http.server 80
links:
  - {a: client, b: router, delay: 20ms, rate: 100mbit}
  - {a: router, b: server}
`

const everything = `name: all
routing: shortest-path
hosts:
  client:
    sysctls: {net.ipv4.tcp_sack: 0}
    names: {www.example.net: 10.9.9.9}
    resolv: {nameservers: [10.1.2.2], search: [example.net]}
  r1: {forward: true, addresses: [10.255.0.1, "fd00:ff::1"]}
  r2: {forward: true}
  s1:
    processes:
      web: exec nginx -g 'daemon off;'
      dns: [dnsmasq, --no-daemon]
      job: {command: [sleep, 100], env: {A: 1, B: ""}, dir: /tmp, listens: 80}
  s2:
    routes:
      - {to: default, via: 10.1.2.1}
      - {to: 10.9.0.0/16, via: 10.1.2.2}
      - {to: 10.8.8.8, via: 10.1.2.2}
bridges: {lan: }
switches:
  sw: {controller: "tcp:10.0.0.1:6653", openflow: "1.3", fail_mode: secure}
links:
  - name: access
    a: {host: client, interface: wan, addresses: [10.1.1.2/24, "fd01:1::2/64"]}
    b: {host: r1, addresses: [10.1.1.1/24, "fd01:1::1/64"]}
    rate: 100mbit
    delay: 20ms
    jitter: 1ms
    loss: 0.01
    burst: 2.5
    duplicate: 0.1%
    corrupt: 0.1%
    reorder: 1%
    behind: 4
    within: 3ms
    seed: 7
    queue: {packets: 100, bytes: 150000, discipline: codel}
    mtu: 1400
    offloads: false
    emulated: true
    a_to_b: {rate: 10mbit, loss: 0}
    b_to_a: {queue: {packets: 50}}
  - {a: {host: r1, addresses: [10.1.2.1/24]}, b: lan}
  - {a: lan, b: {host: s1, addresses: [10.1.2.2/24]}}
  - {a: {host: s2, addresses: [10.1.2.3/24]}, b: lan}
  - {a: r1, b: r2}
  - {a: r2, b: sw}
  - {a: sw, b: s1}
anycast:
  10.9.9.9: [s1, s2]
  fd09::9: [s1, s2]
`

func parse(t *testing.T, text string) *Topology {
	t.Helper()
	got, err := Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTenLines(t *testing.T) {
	got := parse(t, ten)
	var text []string
	for _, h := range got.Hosts {
		for _, e := range got.At(h.Name) {
			text = append(text, h.Name+" "+e.Interface+" "+words(e.Addresses))
		}
		for _, r := range h.Routes {
			text = append(text, h.Name+" to "+r.To.String()+" via "+r.Via.String())
		}
	}
	want := `client eth0 10.0.1.1/24 fd00:0:0:1::1/64
client to 0.0.0.0/0 via 10.0.1.2
client to ::/0 via fd00:0:0:1::2
router eth0 10.0.1.2/24 fd00:0:0:1::2/64
router eth1 10.0.2.1/24 fd00:0:0:2::1/64
server eth0 10.0.2.2/24 fd00:0:0:2::2/64
server to 0.0.0.0/0 via 10.0.2.1
server to ::/0 via fd00:0:0:2::1`
	if s := strings.Join(text, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	if got.Name != "f" {
		t.Errorf("name is %q", got.Name)
	}
	k := got.Link("client-router")
	if k == nil || !k.Emulated || k.AToB != (emulator.Shape{Rate: 100e6, Delay: 20 * time.Millisecond}) || k.AToB != k.BToA {
		t.Errorf("link is %+v", k)
	}
	if got.Link("router-server").Emulated {
		t.Error("a plain link is emulated")
	}
	if p := got.Host("server").Processes[0]; !reflect.DeepEqual(p, Process{Name: "web", Command: []string{"/bin/sh", "-c", "python3 -m http.server 80"}}) {
		t.Errorf("process is %+v", p)
	}
	names := got.HostsFile(got.Host("client"))
	if !slices.Equal(names["server"], []netip.Addr{netip.MustParseAddr("10.0.2.2"), netip.MustParseAddr("fd00:0:0:2::2")}) || len(names) != 3 {
		t.Errorf("names are %v", names)
	}
}

func words(prefixes []netip.Prefix) string {
	var s []string
	for _, p := range prefixes {
		s = append(s, p.String())
	}
	return strings.Join(s, " ")
}

func TestEveryKey(t *testing.T) {
	got := parse(t, everything)
	k := got.Link("access")
	base := emulator.Shape{Rate: 100e6, Delay: 20 * time.Millisecond, Jitter: time.Millisecond, Loss: 0.01, Burst: 2.5, Duplicate: 0.001,
		Corrupt: 0.001, Reorder: 0.01, Behind: 4, Within: 3 * time.Millisecond, Seed: 7,
		Queue: emulator.Queue{Packets: 100, Bytes: 150000, Discipline: emulator.CoDel}}
	there, back := base, base
	there.Rate, there.Loss = 10e6, 0
	back.Queue.Packets = 50
	if k.AToB != there || k.BToA != back {
		t.Errorf("shapes are\n%+v\n%+v, want\n%+v\n%+v", k.AToB, k.BToA, there, back)
	}
	if k.MTU != 1400 || !k.NoOffloads || !k.Emulated || k.A.Interface != "wan" || k.B.Interface != "eth0" {
		t.Errorf("link is %+v", k)
	}
	s1 := got.Host("s1")
	if len(s1.Addresses) != 2 || len(got.Anycast) != 2 {
		t.Errorf("anycast is %v, s1 has %v", got.Anycast, s1.Addresses)
	}
	job := Process{"job", []string{"sleep", "100"}, []string{"A=1", "B="}, "/tmp", 80}
	if len(s1.Processes) != 3 || !reflect.DeepEqual(s1.Processes[2], job) {
		t.Errorf("processes are %+v", s1.Processes)
	}
	s2 := got.Host("s2")
	if len(s2.Routes) != 3 || s2.Routes[2].To.String() != "10.8.8.8/32" {
		t.Errorf("routes of s2 are %v: a host with routes has no others", s2.Routes)
	}
	// Each host of the segment behind a bridge or switch that says nothing of addresses is given some.
	if a := words(got.Link("r2-sw").A.Addresses); a != "10.0.2.1/24 fd00:0:0:2::1/64" {
		t.Errorf("r2 has %s on the switch", a)
	}
	if a := words(got.Link("sw-s1").B.Addresses); a != "10.0.2.2/24 fd00:0:0:2::2/64" {
		t.Errorf("s1 has %s on the switch", a)
	}
	if *got.Switches[0] != (Switch{"sw", "tcp:10.0.0.1:6653", "1.3", "secure"}) {
		t.Errorf("switch is %+v", got.Switches[0])
	}
	c := got.Host("client")
	if c.Sysctls[0] != (Sysctl{"net.ipv4.tcp_sack", "0"}) || len(got.HostsFile(c)["www.example.net"]) != 1 || len(c.Resolv.Nameservers) != 1 {
		t.Errorf("client is %+v", c)
	}
	if _, err := json.Marshal(got); err != nil {
		t.Error(err)
	}
}

func TestMergeKeys(t *testing.T) {
	got := parse(t, `hosts: {a: , b: , c: }
links:
  - &slow {a: a, b: b, delay: 10ms, rate: 1mbit}
  - {<<: *slow, b: c, delay: 30ms}
`)
	if k := got.Link("a-c"); k == nil || k.AToB.Delay != 30*time.Millisecond || k.AToB.Rate != 1e6 {
		t.Errorf("merged link is %+v", k)
	}
}

func TestNames(t *testing.T) {
	for file, want := range map[string]string{
		"/x/My Lab_2.yaml": "my-lab-2", "3.yaml": "lab", "-": "lab", strings.Repeat("x", 40) + ".yml": strings.Repeat("x", 32), "": "lab",
	} {
		if got := nameOf(file); got != want {
			t.Errorf("nameOf(%q) = %q, want %q", file, got, want)
		}
	}
	got := parse(t, "hosts: {a: , b: }\nlinks:\n- {a: a, b: b}\n- {a: a, b: b}\n- {a: {host: a, interface: eth1}, b: b}\n")
	var names []string
	for _, k := range got.Links {
		names = append(names, k.Name+" "+k.A.Interface+" "+k.B.Interface)
	}
	if s := strings.Join(names, ", "); s != "a-b eth0 eth0, a-b-2 eth2 eth1, a-b-3 eth1 eth2" {
		t.Errorf("links are %s", s)
	}
}
