package host

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"baton/balance/config"
	"baton/balance/links"
)

func twoLinks() State {
	link := func(i int) links.Link {
		a := netip.AddrFrom4([4]byte{10, byte(i), 0, 2})
		return links.Link{
			Name: fmt.Sprintf("l%d", i), Interface: fmt.Sprintf("eth%d", i), Index: 2 + i, MTU: 1500 - 100*i, Carrier: true,
			V4: links.Family{
				Address: a, Prefix: netip.PrefixFrom(a, 24), Gateway: netip.AddrFrom4([4]byte{10, byte(i), 0, 1}), GatewayMAC: links.MAC{2},
			},
		}
	}
	return State{
		Name: "home", Datapath: config.Baton, Links: []links.Link{link(0), link(1)},
		Internal: config.Internal{
			Interface: "bal0", IPv4: netip.MustParsePrefix("192.0.0.2/29"), IPv6: netip.MustParsePrefix("64:ff9b:1::2/64"), Priority: 32765, Table: 30000,
		},
		Classes: []Class{
			{IPv4: netip.MustParseAddr("192.0.0.1"), MAC: links.MAC{2, 0x42}},
			{IPv4: netip.MustParseAddr("192.0.0.3"), MAC: links.MAC{2, 0x42, 0, 0, 0, 1}, Group: "/work"},
		},
	}
}

func lines(all []Item) (text []string) {
	for _, i := range all {
		text = append(text, i.String())
	}
	return text
}

func TestMake(t *testing.T) {
	p := Make(twoLinks())
	want := strings.Split(strings.TrimSpace(`
interface bal0
address 192.0.0.2/29 on bal0
neighbour 192.0.0.1 on bal0
neighbour 192.0.0.3 on bal0
route default via 10.0.0.1 dev eth0 in table 30001
route default via 10.1.0.1 dev eth1 in table 30002
route default via 192.0.0.1 dev bal0 in table 30000
route default via 192.0.0.3 dev bal0 in table 30101
rule 75765: lookup 254
rule 75766: lookup 253
rule 72765: to 224.0.0.0/3 goto 75765
rule 72765: to 169.254.0.0/16 goto 75765
rule 73165: from 192.0.0.2/32 lookup 30000
rule 73365: lookup 254 suppress_prefixlength 0
rule 73465: from 10.0.0.2/32 lookup 30001
rule 73565: oif eth0 lookup 30001
rule 73465: from 10.1.0.2/32 lookup 30002
rule 73565: oif eth1 lookup 30002
rule 73665: not from 0.0.0.0/32 goto 75765
rule 73715: lookup 30099
rule 73766: fwmark 0x41000000/0xff000000 lookup 30101
rule 72866: from 192.0.0.2/32 fwmark 0x41000000/0xff000000 lookup 30101
rule 74765: lookup 30000
`), "\n")
	if got := lines(p.Items); !slices.Equal(got, want) {
		t.Errorf("items\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := lines(p.Divert); !slices.Equal(got, []string{"rule 32765: iif lo goto 72765"}) {
		t.Errorf("diverted by %q", got)
	}
	if p.MTU != 1400 || p.IPv6 || len(p.Groups) != 1 || p.Groups[0] != (Group{"/work", 0x41000000}) {
		t.Errorf("plan %+v", p)
	}
}

func TestMakeOfOtherStates(t *testing.T) {
	has := func(t *testing.T, p Plan, want bool, text string) {
		t.Helper()
		if slices.Contains(lines(append(p.Items, p.Divert...)), text) != want {
			t.Errorf("%q is there: %t, want %t, in\n%s", text, !want, want, strings.Join(lines(p.Items), "\n"))
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*State)
		check  func(*testing.T, Plan)
	}{
		{"no gateway", func(s *State) {
			s.Links[0].V4.Gateway, s.Links[1].V4.Gateway = netip.Addr{}, netip.Addr{}
		}, func(t *testing.T, p Plan) { has(t, p, false, "route default via 192.0.0.1 dev bal0 in table 30000") }},
		{"no interface", func(s *State) { s.Links[1] = links.Link{Interface: "eth1"} }, func(t *testing.T, p Plan) {
			has(t, p, false, "rule 73565: oif eth1 lookup 30002")
			has(t, p, true, "route default via 192.0.0.1 dev bal0 in table 30000")
		}},
		{"IPv6 of one", func(s *State) {
			s.Links[0].V6 = links.Family{Address: netip.MustParseAddr("2001:db8::2"), Prefix: netip.MustParsePrefix("2001:db8::/64"), Gateway: netip.MustParseAddr("fe80::1")}
			s.Links[1].MTU = 1000
			s.Classes[0].IPv6, s.Classes[1].IPv6 = netip.MustParseAddr("64:ff9b:1::1"), netip.MustParseAddr("64:ff9b:1::3")
		}, func(t *testing.T, p Plan) {
			has(t, p, true, "route default via fe80::1 dev eth0 in table 30001")
			has(t, p, true, "rule 73665: from 8000::/1 goto 75765")
			if !p.IPv6 || p.MTU != leastIPv6 {
				t.Errorf("IPv6 %t, MTU %d", p.IPv6, p.MTU)
			}
		}},
		{"IPv6 was there", func(s *State) { s.KeepIPv6 = true }, func(t *testing.T, p Plan) {
			has(t, p, true, "address 64:ff9b:1::2/64 on bal0")
			has(t, p, false, "route default via 64:ff9b:1::1 dev bal0 in table 30000")
		}},
		{"overlap", func(s *State) {
			s.Links[1].V4.Prefix = netip.MustParsePrefix("10.0.0.0/8")
		}, func(t *testing.T, p Plan) {
			has(t, p, true, "rule 73265: from 10.0.0.2/32 to 10.0.0.0/24 lookup 30001")
			has(t, p, true, "route 10.0.0.0/8 dev eth1 in table 30002")
		}},
		{"Open vSwitch and an empty place", func(s *State) {
			s.Datapath, s.Links[0] = config.OpenVSwitch, links.Link{}
		}, func(t *testing.T, p Plan) {
			for _, i := range p.Items {
				b, is := i.(Bridge)
				if want := []Port{{"bal0p", 1}, {"eth1", 3}}; is && !slices.Equal(b.Ports, want) {
					t.Errorf("ports %v, want %v", b.Ports, want)
				}
				if h, is := i.(Hush); is && !slices.Equal(h.Links, []string{"eth1"}) {
					t.Errorf("hushed: %q", h.Links)
				}
			}
			has(t, p, true, "nftables table inet baton-balance-home")
			has(t, p, true, "Open vSwitch bridge bal0br")
		}},
		{"no link is usable", func(s *State) { s.Links = nil }, func(t *testing.T, p Plan) {
			if p.MTU != ethernetMTU {
				t.Errorf("MTU %d", p.MTU)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := twoLinks()
			tt.change(&s)
			tt.check(t, Make(s))
		})
	}
}

// Every item has an identity of its own, or one would take another's place.
func TestIdentities(t *testing.T) {
	s := twoLinks()
	s.Datapath, s.KeepIPv6 = config.OpenVSwitch, true
	p := Make(s)
	there := map[string]Item{}
	for _, i := range append(p.Items, p.Divert...) {
		if other := there[i.identity()]; other != nil {
			t.Errorf("%s and %s are one", i, other)
		}
		there[i.identity()] = i
	}
}

func TestDifference(t *testing.T) {
	a, b, c := Address{Device: "a"}, Address{Device: "b"}, Address{Device: "c"}
	old, next := Route{Table: 1, Device: "x"}, Route{Table: 1, Device: "y"}
	for _, tt := range []struct {
		name       string
		have, want []Item
		steps      []step
	}{
		{"new", nil, []Item{a, b}, []step{{kind: makeItem, item: a}, {kind: makeItem, item: b}}},
		{"as it was", []Item{a, b}, []Item{a, b}, []step{{kind: keepItem, item: a}, {kind: keepItem, item: b}}},
		{"none", []Item{a, b}, nil, []step{{kind: undoItem, item: b}, {kind: undoItem, item: a}}},
		{"another", []Item{a, b}, []Item{a, c}, []step{{kind: keepItem, item: a}, {kind: makeItem, item: c}, {kind: undoItem, item: b}}},
		{"in its place", []Item{old}, []Item{next}, []step{{kind: makeItem, item: next, old: []Item{old}}}},
		{"half in its place", []Item{old, next}, []Item{next}, []step{{kind: makeItem, item: next, old: []Item{old}}}},
		{"half, and back", []Item{old, next}, []Item{old}, []step{{kind: makeItem, item: old, old: []Item{next}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := difference(tt.have, tt.want); !reflect.DeepEqual(got, tt.steps) {
				t.Errorf("steps %+v, want %+v", got, tt.steps)
			}
		})
	}
}

func TestDiversionIsUndoneFirst(t *testing.T) {
	s := twoLinks()
	before := Make(s)
	s.Links[1].V4.Address = netip.MustParseAddr("10.1.0.77")
	s.KeepIPv6 = true
	made := slices.Concat(before.Items, before.Divert, Make(s).Items, Make(s).Divert)
	order := undoing(made)
	for i, item := range order[:3] {
		if r, is := item.(Rule); !is || r.Priority != 32765 {
			t.Errorf("%d: %s", i, item)
		}
	}
	if len(order) != len(made) || order[len(order)-1].String() != "interface bal0" {
		t.Errorf("%d of %d items, the last one %s", len(order), len(made), order[len(order)-1])
	}
}

func TestJournal(t *testing.T) {
	folder := t.TempDir()
	s := twoLinks()
	s.Datapath, s.KeepIPv6 = config.OpenVSwitch, true
	want := append(Make(s).Items, Make(s).Divert...)
	j, err := openJournal(folder, "home")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range want {
		if err := j.add(i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := openJournal(folder, "home"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d has", os.Getpid())) {
		t.Errorf("opened twice: %v", err)
	}
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openJournal(folder, "home")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual([]Item(again.items), want) {
		t.Errorf("items\n%+v\nwant\n%+v", again.items, want)
	}
	if err := again.drop(want...); err != nil {
		t.Fatal(err)
	}
	if err := again.close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	for _, text := range []string{"", "{}", `{"Version":3}`, `{"Version":2,"Items":[{"Kind":"moon","Item":{}}]}`, `{"Version":2,"Items":[{"Kind":"rule","Item":7}]}`} {
		if err := os.WriteFile(filepath.Join(folder, "balance-home.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if j, err := openJournal(folder, "home"); err == nil {
			t.Errorf("%q was read: %+v", text, j.items)
		}
	}
}

func TestBridgeCommand(t *testing.T) {
	b := Bridge{Name: "bal0br", Owner: "home", Controller: "tcp:127.0.0.1:6653", Ports: []Port{{"bal0p", 1}, {"eth0", 2}}}
	got := strings.Join(bridgeCommand(b, []string{"bal0p", "eth9"}, "a-qos"), " ")
	for _, want := range []string{
		"--may-exist add-br bal0br -- set bridge bal0br datapath_type=netdev fail_mode=secure", "set-controller bal0br tcp:127.0.0.1:6653",
		"-- --if-exists del-port bal0br eth9 --", "set interface eth0 ofport_request=2", "set port eth0 qos=a-qos",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	b.Controller = ""
	if got := strings.Join(bridgeCommand(b, nil, ""), " "); strings.Contains(got, "set-controller") || !strings.Contains(got, "-- del-controller bal0br") ||
		!strings.Contains(got, "--id=@qos create qos type=linux-noop external_ids:baton-balance=home") || !strings.Contains(got, "set port eth0 qos=@qos") {
		t.Errorf("without a controller and a record for queues: %q", got)
	}
	if strings.Contains(got, "del-port bal0br bal0p") {
		t.Errorf("a port that stays is removed: %q", got)
	}
}

func TestThroughTunnels(t *testing.T) {
	d := func(device string, metric int, tunnel, v6 bool) mainDefault {
		return mainDefault{Route: Route{Device: device, IPv6: v6}, Metric: metric, Tunnel: tunnel}
	}
	for _, tt := range []struct {
		name string
		all  []mainDefault
		want string
	}{
		{"none", nil, ""},
		{"the links' alone", []mainDefault{d("eth0", 100, false, false)}, ""},
		{"a better tunnel", []mainDefault{d("eth0", 100, false, false), d("tun0", 50, true, false)}, "route default dev tun0 in table 30099"},
		{"a worse tunnel", []mainDefault{d("tun0", 200, true, false), d("eth0", 100, false, false)}, ""},
		{"an interface that is no link", []mainDefault{d("eth9", 1, false, false), d("tun0", 50, true, false)}, ""},
		{"a link that is a tunnel", []mainDefault{d("eth1", 1, true, false)}, ""},
		{"IPv6, which there is not", []mainDefault{d("tun0", 1, true, true)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(lines(throughTunnels(Make(twoLinks()), tt.all)), "\n"); got != tt.want {
				t.Errorf("routes %q, want %q", got, tt.want)
			}
		})
	}
}

// What is read from a journal is what is written of it.
func FuzzJournal(f *testing.F) {
	s := twoLinks()
	s.Datapath, s.KeepIPv6 = config.OpenVSwitch, true
	for _, i := range append(Make(s).Items, Make(s).Divert...) {
		text, err := json.Marshal(items{i})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first, second items
		if json.Unmarshal(text, &first) != nil {
			return
		}
		again, err := json.Marshal(first)
		if err == nil {
			err = json.Unmarshal(again, &second)
		}
		if err != nil || len(first) != len(second) {
			t.Errorf("%s: %v", again, err)
		}
	})
}
