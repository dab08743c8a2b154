package balance

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"baton/balance/alive"
	"baton/balance/config"
	"baton/balance/links"
)

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("balance.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func configured(t *testing.T, text string) state {
	t.Helper()
	k, err := state{}.configure(parsed(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// up makes a link one that can be used.
func up(p *place, address string) {
	a := netip.MustParseAddr(address)
	p.now.Index, p.now.Carrier, p.now.MTU = 1, true, 1500
	p.now.V4 = links.Family{Address: a, Prefix: netip.PrefixFrom(a, 24), Gateway: a.Next(), GatewayMAC: links.MAC{2}}
}

// TestProbesCount: a link whose probe says that it leads nowhere is not used, unless that is said of all.
func TestProbesCount(t *testing.T) {
	k := configured(t, "links: [a, b, {interface: c, tier: 1}]\n")
	for i := range k.places {
		up(&k.places[i], "192.0.2.1")
	}
	dead, portal := alive.Verdict{State: alive.Dead}, alive.Verdict{State: alive.Portal}
	for _, step := range []struct {
		what   string
		change func()
		want   string
	}{
		{"nothing is known", func() {}, "used, used, standby"},
		{"dead", func() { k.places[0].verdict = dead }, "dead, used, standby"},
		{"a portal", func() { k.places[1].verdict = portal }, "dead, portal, used"},
		{"nobody answers", func() { k.places[2].verdict = dead }, "used, used, standby"},
		{"nobody who could", func() { k.places[2].verdict, k.places[2].now.Carrier = alive.Verdict{}, false }, "used, used, no carrier"},
		{"an answer", func() { k.places[1].verdict = alive.Verdict{State: alive.Alive} }, "dead, used, no carrier"},
	} {
		step.change()
		var states []string
		for _, d := range k.decide() {
			states = append(states, d.State)
		}
		if got := strings.Join(states, ", "); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
	}
}

// TestPlacesStay: a link keeps its port, however a reload orders them.
func TestPlacesStay(t *testing.T) {
	k := configured(t, "links: [a, b]\nrules: [{to: [192.0.2.0/24], links: [b]}]\n")
	k, err := k.configure(parsed(t, "links: [c, {name: other, interface: b, weight: 7}]\nrules: [{to: [192.0.2.0/24], links: [other]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range k.places {
		names = append(names, p.cfg.Name)
	}
	if !slices.Equal(names, []string{"a", "other", "c"}) || !k.places[0].gone || k.places[1].gone {
		t.Fatalf("%+v", k.places)
	}
	s := k.tables(k.decide(), 1500, true)
	if s.Links[0].Interface != "" || s.Links[1].Name != "other" || s.Links[2].Name != "c" {
		t.Errorf("%+v", s.Links)
	}
	if !slices.Equal(s.Rules[0].Links, []int{1}) || !slices.Equal(s.Rules[1].Links, []int{1, 2}) || len(s.Rules) != 2 {
		t.Errorf("%+v", s.Rules)
	}
	if i := k.internal().Links[0]; i.Interface != "" {
		t.Errorf("the host side knows of a link that is gone: %+v", i)
	}
	if k, err = k.configure(parsed(t, "links: [a, b]\n")); err != nil || k.places[0].gone || !k.places[2].gone {
		t.Errorf("%v, %+v", err, k.places)
	}
	for _, list := range []string{"d, e, f, g, h", "i, j, k, l, m", "n, o, p"} {
		if k, err = k.configure(parsed(t, "links: ["+list+"]\n")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = k.configure(parsed(t, "links: [q]\n")); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("a 17th link: %v", err)
	}
}

func TestApplications(t *testing.T) {
	k := configured(t, `
links: [a]
rules:
  - {application: {user: root}, links: [a]}
  - {application: {cgroup: /x}, links: [a]}
  - {application: {user: root}, services: [tcp/80], method: round-robin}
method: hash
`)
	s := k.tables(k.decide(), 1500, false)
	for i, want := range []int{1, 2, 1, 0} {
		if s.Rules[i].Class != want {
			t.Errorf("rule %d is of class %d, want %d", i, s.Rules[i].Class, want)
		}
	}
	if s.Rules[2].Method != config.RoundRobin || s.Rules[3].Method != config.Hash || s.Internal.IPv6.IsValid() || len(s.Internal.Gateways) != 3 {
		t.Errorf("%+v", s)
	}
	in := k.internal()
	if len(in.Classes) != 3 || in.Classes[1].Users == nil || in.Classes[1].Users.First != 0 || in.Classes[2].Group != "/x" ||
		in.Classes[2].IPv4 != s.Internal.Gateways[2].IPv4 || in.Classes[0].MAC == in.Classes[1].MAC {
		t.Errorf("%+v", in.Classes)
	}
	if _, err := k.configure(parsed(t, "links: [a]\nrules: [{application: {user: nobody-at-all}, links: [a]}]\n")); err == nil {
		t.Error("a user that there is not")
	}
}
