package policy

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"baton/balance/config"
	"baton/balance/links"
)

var (
	mac4 = links.Family{Address: netip.MustParseAddr("192.0.2.7"), Gateway: netip.MustParseAddr("192.0.2.1"), GatewayMAC: links.MAC{2}}
	mac6 = links.Family{Address: netip.MustParseAddr("2001:db8::7"), Gateway: netip.MustParseAddr("fe80::1"), GatewayMAC: links.MAC{2}}
	good = links.Link{Index: 2, Carrier: true, V4: mac4}
)

func changed(l links.Link, how func(*links.Link)) links.Link { how(&l); return l }

func TestDecide(t *testing.T) {
	unresolved := links.Family{Address: mac4.Address, Gateway: mac4.Gateway}
	hard, soft := &config.Cap{Bytes: 1, Hard: true}, &config.Cap{Bytes: 1}
	of := func(tier int, c *config.Cap) config.Link { return config.Link{Tier: tier, Cap: c} }
	tests := []struct {
		name string
		in   []Input
		want []string
	}{
		{"none", nil, nil},
		{"both", []Input{{Link: good}, {Link: good}}, []string{Used, Used}},
		{"no interface", []Input{{Link: links.Link{}}, {Link: good}}, []string{NoInterface, Used}},
		{"no carrier", []Input{{Link: changed(good, func(l *links.Link) { l.Carrier = false })}, {Link: good}}, []string{NoCarrier, Used}},
		{"no address", []Input{{Link: changed(good, func(l *links.Link) { l.V4 = links.Family{} })}, {Link: good}}, []string{NoAddress, Used}},
		{"no gateway", []Input{{Link: changed(good, func(l *links.Link) { l.V4 = unresolved })}, {Link: good}}, []string{NoGateway, Used}},
		{"IPv6 alone", []Input{{Link: changed(good, func(l *links.Link) { l.V4, l.V6 = unresolved, mac6 })}}, []string{Used}},
		{"dead", []Input{{Link: good, Verdict: Dead}, {Link: good}}, []string{IsDead, Used}},
		{"portal", []Input{{Link: good, Verdict: Portal}, {Link: good}}, []string{IsPortal, Used}},
		{"no carrier comes before dead", []Input{{Link: links.Link{Index: 1}, Verdict: Dead}}, []string{NoCarrier}},
		{"tiers", []Input{{Link: good, Config: of(1, nil)}, {Link: good}, {Link: good, Config: of(3, nil)}}, []string{Standby, Used, Standby}},
		{"the next tier", []Input{{Link: good, Config: of(1, nil)}, {Link: good, Verdict: Dead}, {Link: good, Config: of(3, nil)}}, []string{Used, IsDead, Standby}},
		{"over a hard cap", []Input{{Link: good, Over: true, Config: of(0, hard)}, {Link: good}}, []string{OverCap, Used}},
		{"over a hard cap, alone", []Input{{Link: good, Over: true, Config: of(0, hard)}}, []string{OverCap}},
		{"over a soft cap: behind all others", []Input{{Link: good, Over: true, Config: of(0, soft)}, {Link: good, Config: of(2, nil)}}, []string{OverCap, Used}},
		{"over a soft cap, alone", []Input{{Link: good, Over: true, Config: of(0, soft)}, {Link: good, Verdict: Dead}}, []string{Used, IsDead}},
		{"over a soft cap, all", []Input{{Link: good, Over: true, Config: of(0, soft)}, {Link: good, Over: true, Config: of(1, soft)}}, []string{Used, Used}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Decide(tt.in)
			for i, d := range got {
				if d.State != tt.want[i] {
					t.Errorf("link %d: %q, want %q", i, d.State, tt.want[i])
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("%d decisions", len(got))
			}
		})
	}
}

// TestDecideAny: as long as one link is usable some are used, all of the same tier, and the others that are usable are of a later one.
func TestDecideAny(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		in := make([]Input, random.IntN(6))
		for i := range in {
			l := good
			l.Carrier = random.IntN(4) > 0
			in[i] = Input{Link: l, Verdict: Verdict(max(random.IntN(5)-2, 0)), Weight: uint16(random.IntN(3)), Config: config.Link{Tier: random.IntN(3)}}
			if random.IntN(2) == 0 {
				in[i].Config.Cap, in[i].Over = &config.Cap{Hard: random.IntN(2) == 0}, random.IntN(2) == 0
			}
		}
		tier, usable := -1, 0
		for _, d := range Decide(in) {
			if d.State == Used {
				if tier >= 0 && d.Tier != tier {
					t.Fatalf("seed %d: two tiers are used: %+v", seed, in)
				}
				tier = d.Tier
			}
		}
		for i, d := range Decide(in) {
			if d.Usable {
				usable++
			}
			if d.Usable && d.State != Used && d.Tier <= tier || d.State == Used && !d.Usable || d.Weight == 0 {
				t.Fatalf("seed %d: link %d, %+v: %+v", seed, i, d, in)
			}
		}
		if usable > 0 && tier < 0 {
			t.Fatalf("seed %d: none is used: %+v", seed, in)
		}
	}
}
