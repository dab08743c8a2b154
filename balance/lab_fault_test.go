package balance

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// TestUneven: a link of a later tier, and one without IPv6.
func TestUneven(t *testing.T) {
	everywhere(t, 3, func(t *testing.T, n *network, config string, exact bool) {
		n.links[1].RemoveAddress(host6(1) + "/64")
		b := n.start(config + n.linksText("", "", ", tier: 1"))
		b.until(2, "standby")
		n.spreads("the first tier, IPv4", exact, n.addresses(host4)[:2], n.from(server4))
		n.spreads("the first tier, IPv6", exact, n.addresses(host6)[:1], n.from(server6))
		n.far[0].SetDown()
		b.until(0, "no carrier")
		n.spreads("the other of the first tier, IPv4", exact, []string{host4(1)}, n.from(server4))
		n.spreads("the second tier, IPv6", exact, []string{host6(2)}, n.from(server6))
		n.far[1].SetDown()
		b.until(2, "used")
		n.spreads("the second tier", exact, []string{host4(2)}, n.from(server4))
	})
}

// TestLinkLost: a link loses its carrier while flows run, and comes back.
func TestLinkLost(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, n *network, config string, exact bool) {
		b := n.start(config + n.linksText())
		idle := n.oneEach(server4)
		downloads := []*flow{n.download(), n.download(), n.download(), n.download(), n.download(), n.download()}
		onLost := 0
		for _, d := range downloads {
			d.drain()
			if d.from == host4(0) {
				onLost++
			}
		}
		n.far[0].SetDown()
		begun := time.Now()
		for _, d := range downloads {
			if d.from == host4(0) {
				d.ends()
			}
		}
		if !exact && onLost == 0 {
			t.Log("no download had the lost link")
		} else {
			t.Logf("%d downloads over the lost link end after %v", onLost, time.Since(begun))
		}
		if exact {
			idle[0].isReset() // Open vSwitch does not know which those are: they notice when they send next
			for _, d := range downloads {
				if d.from == host4(1) {
					d.goesOn()
				}
			}
			idle[1].works()
		}
		idle[0].breaks()
		n.spreads("with one link", exact, []string{host4(1)}, n.from(server4))
		b.until(0, "no carrier")
		if s := b.status(); onLost > 0 && s.Resets == 0 {
			t.Errorf("%+v", s)
		}

		n.far[0].SetUp()
		n.far[0].Address(gateway6(0) + "/64") // which went with the carrier
		b.until(0, "used")
		lab.Eventually(t, soon, func() error {
			if from, err := n.from(server4)(); err != nil || from != host4(0) {
				return fmt.Errorf("from %s, %v", from, err)
			}
			return nil
		})
		n.spreads("with both again", exact, n.addresses(host4), n.from(server4))
		if exact {
			idle[1].works()
		}
	})
}

// oneEach begins flows until there is one by each link, by whose place they are returned.
func (n *network) oneEach(address string) []*flow {
	n.t.Helper()
	return n.oneEachOf(address, len(n.links))
}

func (n *network) oneEachOf(address string, links int) []*flow {
	n.t.Helper()
	list := make([]*flow, links)
	for range 1000 {
		f := n.flow(address)
		for i := range list {
			if list[i] == nil && (f.from == host4(i) || f.from == host6(i)) {
				list[i] = f
			}
		}
		if !slices.Contains(list, nil) {
			return list
		}
	}
	n.t.Fatal("no flow by some link")
	return nil
}

// TestAllLinksLost: without any link flows fail at once; with the first that comes back they do not.
func TestAllLinksLost(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, n *network, config string, exact bool) {
		b := n.start(config + "metrics: \"127.0.0.1:9469\"\n" + n.linksText())
		healthy := func(want int) {
			t.Helper()
			lab.Eventually(t, soon, func() error {
				r, err := n.host.HTTPClient(soon).Get("http://127.0.0.1:9469/healthz")
				if err != nil {
					return err
				}
				defer r.Body.Close()
				if r.StatusCode != want {
					return fmt.Errorf("%s, want %d", r.Status, want)
				}
				return nil
			})
		}
		healthy(http.StatusOK)
		for _, f := range n.far {
			f.SetDown()
		}
		b.until(0, "no carrier")
		b.until(1, "no carrier")
		healthy(http.StatusServiceUnavailable)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if c, err := n.host.Dial(ctx, "tcp", server4+":80"); err == nil || ctx.Err() != nil {
			t.Errorf("%v, %v", c, err)
		}
		for i, f := range n.far {
			f.SetUp()
			f.Address(gateway6(i) + "/64")
		}
		b.until(0, "used")
		b.until(1, "used")
		healthy(http.StatusOK)
		n.spreads("again", exact, n.addresses(host4), n.from(server4))
	})
}

// TestAddressChanges: a link gets another address, as by DHCP.
func TestAddressChanges(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, n *network, config string, exact bool) {
		b := n.start(config + n.linksText())
		flows := n.oneEach(server4)
		fresh := netip.MustParseAddr(host4(0)).Next().String()
		n.links[0].RemoveAddress(host4(0) + "/28")
		n.links[0].Address(fresh + "/28")
		n.defaults4(0)
		flows[0].breaks()
		lab.Eventually(t, soon, func() error {
			if s := b.status().Links[0]; s.State != "used" || !slices.Contains(s.Addresses, netip.MustParseAddr(fresh)) {
				return fmt.Errorf("%+v\n%s", s, b.Log())
			}
			return nil
		})
		lab.Eventually(t, soon, func() error { // the gateway's MAC may be known a little later
			if from, err := n.from(server4)(); err != nil || from != fresh {
				return fmt.Errorf("from %s, %v", from, err)
			}
			return nil
		})
		n.spreads("with the other address", exact, []string{fresh, host4(1)}, n.from(server4))
		if exact {
			flows[1].works()
		}
	})
}

// TestNarrowWay: a router on the way of one link takes smaller packets alone, and says so; that reaches the application's socket.
func TestNarrowPath(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, n *network, config string, exact bool) {
		if !exact {
			return // plain OpenFlow cannot look into ICMP errors
		}
		n.start(config + n.linksText())
		n.beyond[1].SetMTU(1300)
		n.behind[1].SetMTU(1300) // or the gateway's end would drop longer packets of the server without an error
		for _, address := range []string{server4, server6} {
			for _, f := range n.oneEach(address) {
				text := make([]byte, 300_000)
				peers.Pattern(text, 0)
				go f.conn.Write(text)
				f.conn.SetReadDeadline(time.Now().Add(soon))
				got := make([]byte, len(text))
				if size, err := io.ReadFull(f.in, got); err != nil || string(got) != string(text) {
					t.Errorf("from %s: %d bytes, %v", f.from, size, err)
				}
			}
		}
	})
}
