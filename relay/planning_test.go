package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/api"
	"baton/relay/config"
)

// What this relay and its peer measure is in the plan, and what they cannot with the reason.
func TestPlan(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("0f", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials := fmt.Sprintf("plaintext: {secret_file: %q}\n", secret)
	server, at := listenTCP(t), unused(t)
	launch(t, "name: far\n"+credentials+fmt.Sprintf("trunks: {listen: [%q]}\nallow: [{prefix: 127.0.0.1/32}]\n", at))
	near := launch(t, credentials+fmt.Sprintf("peers: [{name: far, address: %q, cloud: sky}, {name: gone, address: %q}]\n", at, unused(t))+
		"entries:\n"+entry("web", unused(t), server))

	ask := func(client string) api.RelayPlan {
		t.Helper()
		p, err := near.client.RelayPlan(t.Context(), api.RelayPlanRequest{
			Client: netip.MustParseAddrPort(client), Server: netip.MustParseAddrPort(server.Addr().String()), Direct: time.Minute, Clouds: "any",
		})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	missing := func(p api.RelayPlan) map[string]string {
		out := make(map[string]string)
		for _, m := range p.Missing {
			out[m.From+" to "+m.To] = m.Why
		}
		return out
	}
	client := unused(t)
	p := ask(client)
	if p.Use != "relays" || p.Route == nil || p.Direct == nil || p.Direct.RTT != time.Minute || len(p.Text) == 0 || p.Size != 1e6 {
		t.Errorf("%+v", p)
	}
	if p.Route != nil {
		for _, l := range p.Route.Legs {
			if l.RTT <= 0 || l.RTT > time.Second {
				t.Errorf("leg %+v", l)
			}
		}
	}
	why := missing(p)
	for _, pair := range []string{client + " to gone", "gone to " + server.Addr().String()} {
		if !strings.HasSuffix(why[pair], ": no_trunk") {
			t.Errorf("%s: %q, want the reason no_trunk", pair, why[pair])
		}
	}
	if len(why) != 2 {
		t.Errorf("missing: %v", why)
	}
	client = "127.0.0.2:1"
	if why := missing(ask(client)); !strings.HasSuffix(why[client+" to far"], ": not_allowed") {
		t.Errorf("missing: %v", why)
	}

	request := api.RelayPlanRequest{Client: netip.MustParseAddrPort(client), Server: netip.MustParseAddrPort("127.0.0.1:1")}
	same := request
	same.Server = same.Client
	if _, err := near.client.RelayPlan(t.Context(), same); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("from a host to itself: %v", err)
	}
	near.relay.planning.Lock()
	defer near.relay.planning.Unlock()
	if _, err := near.client.RelayPlan(t.Context(), request); !errors.Is(err, api.ErrConflict) {
		t.Errorf("a second one at the same time: %v", err)
	}
}

func TestNearest(t *testing.T) {
	var peers []config.Peer
	for i := range mostPeers + 2 {
		peers = append(peers, config.Peer{Name: fmt.Sprintf("p%02d", i)})
	}
	near, far := nearest(peers, map[string]time.Duration{"p17": time.Second, "p03": time.Millisecond})
	names := make([]string, len(near))
	for i, p := range near {
		names[i] = p.Name
	}
	if want := "p03 p17 p00 p01 p02 p04 p05 p06 p07 p08 p09 p10 p11 p12 p13 p14"; strings.Join(names, " ") != want {
		t.Errorf("near %v, want %v", names, want)
	}
	if want := "p15 p16"; strings.Join(far, " ") != want {
		t.Errorf("far %v, want %v", far, want)
	}
	if near, far := nearest(peers[:2], nil); len(near) != 2 || len(far) != 0 {
		t.Errorf("of two: %v, %v", near, far)
	}
}
