package relay

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/api"
)

// auto are two relays of which the first leaves the ways of its entries to itself.
func auto(t *testing.T, entries string) (near, far *running, server net.Listener, trunkListener string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("0f", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	credentials := fmt.Sprintf("plaintext: {secret_file: %q}\n", secret)
	server, at := listenTCP(t), unused(t)
	far = launch(t, "name: far\n"+credentials+fmt.Sprintf("trunks: {listen: [%q]}\nallow: [{prefix: 127.0.0.1/32}]\n", at))
	near = launch(t, credentials+fmt.Sprintf("peers: [{name: far, address: %q, cloud: sky}]\nentries:\n", at)+
		strings.ReplaceAll(entries, "SERVER", server.Addr().String())+"choose: {dwell: 1s, refresh: 10s, margin: 1000%}\n")
	return near, far, server, at
}

func (r *running) distances() api.RelayDistances {
	r.t.Helper()
	d, err := r.client.RelayDistances(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// Ways are measured and chosen, what is known of them is told, and a reload keeps it.
func TestChoosing(t *testing.T) {
	near, _, server, trunkListener := auto(t, fmt.Sprintf("  - {name: web, listen: %q, destination: \"SERVER\", via: auto}\n", unused(t)))
	at := netip.MustParseAddrPort(server.Addr().String())
	var d api.RelayDistances
	eventually(t, func() error {
		if d = near.distances(); len(d.Destinations) != 1 || !d.Destinations[0].Chosen || d.Peers[0].RTT == 0 {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	x := d.Destinations[0]
	if x.Server != at || x.Destination != at.String() || !x.Fixed || !x.Up || x.RTT <= 0 || x.RTT > time.Second || x.Why != "first measurement" ||
		x.Takes <= 0 || x.Since.IsZero() || x.Measured.IsZero() || !x.Due.After(x.Measured) || len(x.Relays) != 2 || x.Relays[1].Relay != "far" ||
		x.Relays[1].RTT <= 0 {
		t.Errorf("%+v", x)
	}
	if p := d.Peers[0]; d.Relay != "here" || p.Name != "far" || p.Address.String() != trunkListener || p.Cloud != "sky" || !p.Up || p.RTT > time.Second {
		t.Errorf("%+v", d)
	}
	s := near.status()
	if c := s.Choice; c == nil || c.Destinations != 1 || c.Chosen != 1 || c.Changes != 1 || c.Probes < 10 || len(c.Latest) != 1 || !s.Entries[0].Auto {
		t.Errorf("%+v", s.Choice)
	}
	if _, err := near.relay.Reload(); err != nil {
		t.Fatal(err)
	}
	if again := near.distances(); !again.Destinations[0].Chosen || !again.Destinations[0].Since.Equal(x.Since) {
		t.Errorf("after a reload: %+v", again)
	}
}

// Servers that clients name are measured when they have been asked for.
func TestLearning(t *testing.T) {
	listen := unused(t)
	near, _, server, _ := auto(t, fmt.Sprintf("  - {name: any, mode: connect, listen: %q, via: auto}\n", listen))
	if d := near.distances(); len(d.Destinations) != 0 {
		t.Errorf("%+v", d)
	}
	c, err := net.Dial("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\n", server.Addr())
	eventually(t, func() error {
		d := near.distances()
		i := slices.IndexFunc(d.Destinations, func(x api.RelayDestination) bool {
			return x.Server.String() == server.Addr().String() && strings.HasPrefix(x.Destination, "127.0.0.0/24:") && x.Chosen && x.Via[0] == "far"
		})
		if i < 0 {
			return fmt.Errorf("%+v", d)
		}
		return nil
	})
	if s := near.status(); s.Workers[0].Flows+s.Workers[len(s.Workers)-1].Flows == 0 || s.Peers[0].Taken+s.Peers[0].Missed == 0 {
		t.Errorf("no flow went by far: %+v", s.Peers)
	}
	near.configure(strings.ReplaceAll(near.text(), "via: auto", "via: [far]"))
	if _, err := near.relay.Reload(); err != nil {
		t.Fatal(err)
	}
	if d, s := near.distances(), near.status(); len(d.Destinations) != 0 || len(d.Peers) != 1 || s.Choice != nil {
		t.Errorf("nothing is chosen any more: %+v, %+v", d, s.Choice)
	}
}

// text is the configuration without what configure adds.
func (r *running) text() string {
	r.t.Helper()
	b, err := os.ReadFile(r.file)
	if err != nil {
		r.t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "name: here\n")
	return text
}
