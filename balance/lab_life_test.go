package balance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/balance/host"
	"baton/lab"
)

// settled is all of the host's network once the kernel has given its interfaces their own addresses.
func (n *network) settled() string {
	n.t.Helper()
	lab.Eventually(n.t, soon, func() error {
		list := n.run("ip", "-o", "-6", "addr", "show", "scope", "link")
		for line := range strings.Lines(n.run("ip", "-o", "link", "show", "up")) {
			name, _, _ := strings.Cut(strings.Fields(line)[1], "@")
			if name = strings.TrimSuffix(name, ":"); name != "lo" && !strings.Contains(list, name+" ") || strings.Contains(list, "tentative") {
				return fmt.Errorf("%s has no address yet:\n%s", name, list)
			}
		}
		return nil
	})
	return n.whole()
}

// same requires that the host is as it was.
func (n *network) same(before string) {
	n.t.Helper()
	lab.Eventually(n.t, soon, func() error { // the kernel takes a device's sysctls away a little later
		return diff(before, n.whole())
	})
}

// diff names the lines that only one of two texts has.
func diff(before, after string) error {
	var text strings.Builder
	is := make(map[string]int)
	for line := range strings.Lines(before) {
		is[line]++
	}
	for line := range strings.Lines(after) {
		if is[line]--; is[line] < 0 {
			fmt.Fprint(&text, "+", line)
		}
	}
	for line, times := range is {
		if times > 0 {
			fmt.Fprint(&text, "-", line)
		}
	}
	if text.Len() == 0 {
		return nil
	}
	return fmt.Errorf("the host has changed:\n%s", text.String())
}

// TestKilled: kill -9, and then nothing is left.
func TestKilled(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, n *network, config string, exact bool) {
		before := n.settled()
		b := n.start(config + n.linksText())
		n.spreads("before", exact, n.addresses(host4), n.from(server4))
		if err := b.Kill(); err != nil {
			t.Fatal(err)
		}
		if left, err := filepath.Glob(filepath.Join(host.Folder, "*"+n.name+"*")); err != nil || len(left) > 0 {
			t.Errorf("the journal is the machine's, not the host's: %v, %v", left, err)
		}
		n.restore()
		n.same(before)
		n.restore() // there is nothing to do
		n.same(before)
	})
}

// TestKilledAnywhere: kill -9 at any moment of the first seconds, and then nothing is left.
func TestKilledAnywhere(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, n *network, config string, exact bool) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		before := n.settled()
		for range 4 {
			b := n.begin(config + n.linksText())
			select {
			case <-b.Done():
				t.Fatalf("it has ended:\n%s", b.Log())
			case <-time.After(time.Duration(random.Int64N(int64(1500 * time.Millisecond)))):
			}
			if err := b.Kill(); err != nil {
				t.Fatal(err)
			}
			n.restore()
			n.same(before)
		}
	})
}

// TestTakenOver: kill -9, and the next balance goes on.
func TestTakenOver(t *testing.T) {
	everywhere(t, 2, func(t *testing.T, n *network, config string, exact bool) {
		before := n.settled()
		b := n.start(config + n.linksText())
		flows := n.oneEach(server4)
		if err := b.Kill(); err != nil {
			t.Fatal(err)
		}
		if exact { // Baton's data plane is the kernel's, and goes on by itself
			for _, f := range flows {
				f.works()
			}
			n.spreads("without the process", exact, n.addresses(host4), n.from(server4))
		}
		b = n.start(config + n.linksText())
		for _, f := range flows {
			f.works()
		}
		n.spreads("after", exact, n.addresses(host4), n.from(server4))
		if out, err := n.baton("balance", "run", "-c", b.file); err == nil || !strings.Contains(out, "already running") {
			t.Errorf("a second one: %v\n%s", err, out)
		}
		flows[0].works()
		b.stop()
		n.same(before)
	})
}

// TestReload: another configuration while flows run.
func TestReload(t *testing.T) {
	everywhere(t, 3, func(t *testing.T, n *network, config string, exact bool) {
		three := n.linksText()
		two := strings.Join(strings.SplitAfter(three, "\n")[:3], "")
		b := n.start(config + two)
		flows := n.oneEachOf(server4, 2)
		n.spreads("two links", exact, n.addresses(host4)[:2], n.from(server4))
		if err := b.reload(config + three); err != nil {
			t.Fatal(err)
		}
		b.until(2, "used")
		n.spreads("three links", exact, n.addresses(host4), n.from(server4))
		if err := b.reload(config + three + "rules: [{name: all, links: [link2]}]\n"); err != nil {
			t.Fatal(err)
		}
		n.spreads("a rule", exact, n.addresses(host4)[2:], n.from(server4))
		if err := b.reload(config + two); err != nil {
			t.Fatal(err)
		}
		n.spreads("two links again", exact, n.addresses(host4)[:2], n.from(server4))
		for _, f := range flows {
			f.works()
		}
		for _, wrong := range []string{config + "links: []\n", config + "internal: {interface: bal7}\n" + two} {
			if err := b.reload(wrong); err == nil {
				t.Errorf("it is in force:\n%s", wrong)
			}
		}
		if s := b.status(); s.Reloads != 3 || s.ReloadsFailed != 2 || len(s.Links) != 2 {
			t.Errorf("%+v", s)
		}
		n.spreads("after what was refused", exact, n.addresses(host4)[:2], n.from(server4))
	})
}

// TestRefused: a configuration that cannot work on a host is reported in one line, and nothing is changed.
func TestRefused(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	for _, tt := range []struct {
		name, prepare, undo, config, want string
		code                              int
	}{
		{
			"the interface is another's", "ip link add bal0 type veth peer name other0", "ip link del bal0", n.linksText(), "internal.interface: bal0", 1,
		},
		{
			"the network is another's", "ip addr add 192.0.0.3/29 dev eth1", "ip addr del 192.0.0.3/29 dev eth1", n.linksText(), "internal.ipv4: 192.0.0.0/29 is used by eth1", 1,
		},
		{"no link at all", "true", "true", "links: [eth7, eth8]\n", "links: none of the interfaces exists", 1},
		{"a user that there is not", "true", "true", n.linksText() + "rules: [{application: {user: nobody-at-all}, links: [link0]}]\n", `rules[0].application.user: "nobody-at-all" is not a user of this host`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := *n
			n.t = t
			n.run("sh", "-c", tt.prepare)
			before := n.settled()
			b := n.begin(tt.config)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			if err := b.Wait(ctx); lab.ExitCode(err) != tt.code || !strings.Contains(b.Log(), tt.want) {
				t.Errorf("it ends with %v:\n%s", err, b.Log())
			}
			n.same(before)
			if out, err := n.baton("balance", "check", "-c", b.file); lab.ExitCode(err) == 0 || !strings.Contains(out, tt.want) {
				t.Errorf("check ends with %v:\n%s", err, out)
			}
			n.run("sh", "-c", tt.undo)
		})
	}
}
