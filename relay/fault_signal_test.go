package relay_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"baton/lab"
	"baton/lab/build"
	"baton/relay/config"
	"github.com/vishvananda/netlink"
)

// TestReloadUnderLoad changes entries, peers and trunk listeners again and again: flows go on, and clients who come and go notice nothing.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, config.TLS)
	n.relays(nil, nil)
	open := n.listen(openPort)
	pairs := n.chatters(open, 10)
	go hostServer(open)
	c := n.crowd(4)
	peers := func(more string) string {
		return fmt.Sprintf("[{name: far, address: %q, window: 256KiB, start: system, ready: {probe: 1s%s}}]", trunkListenerAddress, more)
	}
	entry := func(listen string) string {
		return fmt.Sprintf("{listen: %q, destination: \"%s:%d\", via: [far]}", listen, serverAddress, openPort)
	}
	for i, change := range []settings{
		{"entries": "[" + entry(entryAt(openPort)) + "]"},                                                                      // one less
		{"entries": "[" + entry("10.1.0.1:8090") + ", " + entry(entryAt(openPort)) + "]", "peers": peers("")},                  // another window
		{"entries": "[" + entry(entryAt(openPort)) + "]", "peers": peers(", min: 20"), "timeouts": longTimeouts(unackedAlone)}, // more trunks
		nil,
	} {
		if err := n.near.configure(n.nearConfig(change)); err != nil {
			t.Fatal(err)
		}
		if err := n.far.configure(n.farConfig(settings{"allow": fmt.Sprintf("[{prefix: 10.3.0.0/%d}]", 24+i)})); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*relay{n.near, n.far} {
			if err := r.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			if err := r.reloaded(i + 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.turns(40); err != nil {
			t.Fatalf("behind reload %d: %v", i, err)
		}
	}
	if err := c.leaves(); err != nil {
		t.Errorf("a client: %v", err)
	}
	if err := allComplete(pairs); err != nil {
		t.Error(err)
	}
	if err := n.nothingLeft(); err != nil {
		t.Error(err)
	}
}

// TestStopUnderLoad stops both relays, one after the other, while flows go on: new clients are refused, the flows end as they would, and
// with the last of them the process.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, config.TLS)
	long := settings{"timeouts": longTimeouts(nil)}
	n.relays(long, long)
	open := n.listen(openPort)
	pairs := n.chatters(open, 10)
	if err := errors.Join(n.near.Signal(syscall.SIGTERM), n.far.Signal(syscall.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, soon, func() error {
		for _, r := range []*relay{n.near, n.far} {
			if !strings.Contains(r.Log(), "msg=stopping") {
				return fmt.Errorf("relay %s does not stop:\n%s", r.name, r.Log())
			}
		}
		return nil
	})
	if c, err := n.client.Dial(t.Context(), "tcp", entryAt(openPort)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new client: %v, %v", c, err)
	}
	for _, p := range pairs {
		for _, e := range p {
			if err := e.hears(e.got.Load() + aStretch); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := allComplete(pairs); err != nil {
		t.Error(err)
	}
	for _, r := range []*relay{n.near, n.far} {
		if err := r.endsWell(); err != nil {
			t.Error(err)
		}
	}
}

// intercepting has an entry of everything that a relay leaves in the kernel: rules, a route, programs on an interface.
func (n *network) intercepting() settings {
	return settings{"entries": fmt.Sprintf(
		"[{listen: %q, mode: transparent, intercept: {destinations: [10.9.0.0/24], ports: [80]}, interfaces: [%s], early_syn: connect-first, via: [far]},"+
			" {listen: %q, destination: \"%s:%d\", via: [far], early_syn: optimistic, interfaces: [%s]}]",
		"127.0.0.1:9000", n.toClient.B.Name, entryAt(openPort), serverAddress, openPort, n.toClient.B.Name)}
}

// kernelState is what there is of qdiscs, programs, rules and routes on the first relay's host, in words.
func (n *network) kernelState() (string, error) {
	var b strings.Builder
	h := n.first.Netlink()
	links, err := h.LinkList()
	if err != nil {
		return "", err
	}
	for _, l := range links {
		qdiscs, err := h.QdiscList(l)
		if err != nil {
			return "", err
		}
		for _, q := range qdiscs {
			fmt.Fprintf(&b, "%s: qdisc %s\n", l.Attrs().Name, q.Type())
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := h.RuleList(family)
		if err != nil {
			return "", err
		}
		for _, r := range rules {
			fmt.Fprintf(&b, "%v\n", r)
		}
		routes, err := h.RouteListFiltered(family, &netlink.Route{Table: 0}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return "", err
		}
		for _, r := range routes {
			if r.Protocol == 98 { // datapath's
				fmt.Fprintf(&b, "%v\n", r)
			}
		}
	}
	return b.String(), nil
}

// TestSignalsLeaveNothing ends a relay that has rules, a route and programs, by SIGTERM, and by SIGKILL. What a killed one leaves are the
// rules and routes of its own table, which concern no packet without its mark, and its successor takes them.
func TestSignalsLeaveNothing(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, config.Plaintext)
	clean, err := n.kernelState()
	if err != nil {
		t.Fatal(err)
	}
	change := n.intercepting()
	n.relays(change, nil)
	open := n.listen(openPort)
	busy, err := n.kernelState()
	if err != nil || busy == clean {
		t.Fatalf("nothing is in the kernel while the relay runs: %v\n%s", err, busy)
	}
	pairs := n.chatters(open, 4)
	if err := n.near.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		for _, e := range p {
			if err := e.sees(losesRST, nil, nil, row{}); err != nil {
				t.Error(err)
			}
		}
	}
	// SYNs meet no program any more: they are refused, not held.
	if c, err := n.client.Dial(t.Context(), "tcp", entryAt(openPort)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a client of the killed relay: %v, %v", c, err)
	}
	killed, err := n.kernelState()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(killed) {
		if !strings.Contains(clean, line) && !strings.Contains(line, "25186") {
			t.Errorf("left behind SIGKILL: %s", line)
		}
	}
	n.near = n.near.restart(n.nearConfig(change))
	if err := n.works(open); err != nil {
		t.Error(err)
	}
	if again, err := n.kernelState(); err != nil || again != busy {
		t.Errorf("with its successor: %v\n%s\nwant\n%s", err, again, busy)
	}
	if err := n.near.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := n.near.endsWell(); err != nil {
		t.Fatal(err)
	}
	if after, err := n.kernelState(); err != nil || after != clean {
		t.Errorf("left behind SIGTERM: %v\n%s\nwant\n%s", err, after, clean)
	}
	n.cleansUp(change, clean)
}

// cleansUp has the command remove what a killed relay has left, which it refuses while the relay runs.
func (n *network) cleansUp(change settings, clean string) {
	n.t.Helper()
	path, err := build.Program("baton")
	if err != nil {
		n.t.Fatal(err)
	}
	cleanup := func() (string, error) {
		return n.first.Exec(n.t.Context(), path, "relay", "cleanup", "-c", n.near.file)
	}
	n.near = n.near.restart(n.nearConfig(change))
	if out, err := cleanup(); lab.ExitCode(err) != 1 {
		n.t.Errorf("cleanup beside a relay that runs: %v, %s", err, out)
	}
	if err := n.near.Kill(); err != nil {
		n.t.Fatal(err)
	}
	out, err := cleanup()
	if err != nil || !strings.Contains(out, "removed IPv4 rule 98: from "+n.toClient.B.Name) || !strings.Contains(out, "removed IPv4 route of table") {
		n.t.Errorf("cleanup: %v, %s", err, out)
	}
	if after, err := n.kernelState(); err != nil || after != clean {
		n.t.Errorf("left behind cleanup: %v\n%s\nwant\n%s", err, after, clean)
	}
	if out, err := cleanup(); err != nil || !strings.HasPrefix(out, "nothing is left of the relay") {
		n.t.Errorf("cleanup of nothing: %v, %s", err, out)
	}
}
