package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"baton/relay/choice"
	"baton/relay/plan"

	"baton/document/documenttest"
)

func TestChoose(t *testing.T) {
	const via, name = "via: [there]", "name: here\n"
	tests := []struct {
		name, old, new string
		want           Choose
		auto           bool
	}{
		{"nothing is said", "", "", Choose{plan.PreferOne, 3, 5 * time.Minute, 0.1, 30 * time.Second}, false},
		{"defaults", via, "via: auto", Choose{plan.PreferOne, 3, 5 * time.Minute, 0.1, 30 * time.Second}, true},
		{"the server of no list", `destination: "203.0.113.5:443", ` + via, "mode: socks5, via: auto",
			Choose{plan.PreferOne, 3, 5 * time.Minute, 0.1, 30 * time.Second}, true},
		{"a relay of that name", name, name + "choose: {margin: 2.5 %}\n", Choose{plan.PreferOne, 3, 5 * time.Minute, 0.025, 30 * time.Second}, false},
		{"all of it", name, name + "choose: {clouds: any, max_relays: 8, refresh: 10s, margin: 1000%, dwell: 1s}\n",
			Choose{plan.AnyCloud, 8, 10 * time.Second, 10, time.Second}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Parse("f", []byte(strings.Replace(minimal, tt.old, tt.new, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.Choose); diff != "" {
				t.Errorf("Choose (-want +got):\n%s", diff)
			}
			if e := cfg.Entries[0]; e.Auto != tt.auto || tt.auto != (len(e.Via) == 0) {
				t.Errorf("auto %v, via %v", e.Auto, e.Via)
			}
		})
	}
}

func TestChooseRefuses(t *testing.T) {
	const via, name = "via: [there]", "name: here\n"
	peers := "peers:\n  - {name: there, address: \"198.51.100.7:7000\"}\n"
	choose := func(text string) string { return name + "choose: {" + text + "}\n" }
	tests := []struct{ name, old, new, want string }{
		{"one relay that is no list", via, "via: there", `f:7:68: entries[0].via: "there" is not a list of relays ([there], or auto)`},
		{"a mapping", via, "via: {auto: 1}", `f:7:69: entries[0].via: is a mapping, and must be a list (with a dash before each entry: - auto: ...)`},
		{"clients' addresses", via, "via: auto, client_address: transparent",
			`f:7:90: entries[0].client_address: needs the servers' return route through a fixed last relay, which via: auto does not have ` +
				`(via: [...], or another client_address)`},
		{"clouds", name, choose("clouds: two"), `f:2:18: choose.clouds: "two" is not a policy for clouds (prefer, any or one)`},
		{"no relay", name, choose("max_relays: 0"), `f:2:22: choose.max_relays: "0" is out of range (a whole number from 1 to 8)`},
		{"refreshed all the time", name, choose("refresh: 1s"), `f:2:19: choose.refresh: "1s" is out of range (from 10s to 24h0m0s)`},
		{"a margin without its sign", name, choose("margin: 0.1"), `f:2:18: choose.margin: "0.1" has no percent sign (from 1% to 1000%)`},
		{"no margin", name, choose("margin: 0%"), `f:2:18: choose.margin: "0%" is out of range (from 1% to 1000%)`},
		{"a margin that is no number", name, choose("margin: nan%"), `f:2:18: choose.margin: "nan%" is out of range (from 1% to 1000%)`},
		{"no dwell", name, choose("dwell: 0s"), `f:2:17: choose.dwell: "0s" is not above zero (such as 500ms, 10s or 1h)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(minimal, tt.old) {
				t.Fatalf("%q is not in the file", tt.old)
			}
			_, err := Parse("f", []byte(strings.Replace(minimal, tt.old, tt.new, 1)))
			if !documenttest.Reported(err, tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	_, err := Parse("f", []byte(strings.Replace(strings.Replace(minimal, peers, "", 1), via, "via: auto", 1)))
	if want := `f:5:68: entries[0].via: lets the relay choose, but there are no peers (peers: [{name: ..., address: ...}])`; err == nil ||
		err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestChooseWarns(t *testing.T) {
	warnings := func(text string) []string {
		t.Helper()
		cfg, err := Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Warnings
	}
	if got, want := warnings("choose: {max_relays: 2}\n"+minimal), []string{"f:1:10: choose: is unused: no entry has via: auto"}; !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	auto := strings.Replace(minimal, "via: [there]", "via: auto", 1)
	if got := warnings("choose: {max_relays: 2}\n" + auto); len(got) != 0 {
		t.Errorf("%q", got)
	}
	var peers strings.Builder
	for i := range choice.MostPeers {
		fmt.Fprintf(&peers, "\n  - {name: p%d, address: \"10.0.0.%d:1\"}", i, i)
	}
	many := strings.Replace(auto, "peers:", "peers:"+peers.String(), 1)
	if got, want := warnings(many), []string{"f:5:3: peers: are too many for via: auto: it uses the first 16"}; !cmp.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
