package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"baton/balance/links"
)

// TestStateIsAsBefore stops, kills and restores at every step of set-up and of tear-down.
func TestStateIsAsBefore(t *testing.T) {
	n := newNetwork(t)
	killEverywhere(t, n, n.state(), 1)
}

// killEverywhere kills at each of every so many steps, from a random one on.
func killEverywhere(t *testing.T, n *network, s State, every int) {
	t.Helper()
	before := n.snapshot()
	then := s
	then.Links, then.Classes = slices.Clone(s.Links), slices.Clone(s.Classes)
	then.Links[0].MTU, then.Links[0].V4.Gateway = 1400, netip.MustParseAddr("10.0.0.9")
	then.Links[1].V6 = links.Family{}
	then.Classes[1].Users = &Users{4712, 4720}
	p, text := n.child(order{State: s, Then: &then, Close: true}, "closed")
	if err := p.Wait(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, p.Log())
	}
	checkSame(t, n.snapshot(), before)
	points, err := strconv.Atoi(text)
	if err != nil || points < 100 {
		t.Fatalf("%d points, %v", points, err)
	}
	first := 1 + rand.N(every)
	t.Logf("step %d and each %d. of %d", first, every, points)
	for stop := first; stop <= points; stop += every {
		p, at := n.child(order{State: s, Then: &then, Close: true, StopAt: stop}, "stopped")
		if stop/every%10 == 0 {
			if _, err := n.restore(); !errors.Is(err, ErrRunning) {
				t.Errorf("restored while it runs: %v", err)
			}
		}
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := n.restore(); err != nil {
			t.Errorf("restore after a kill %s: %v", at, err)
		}
		if undone, err := n.restore(); err != nil || len(undone) > 0 {
			t.Errorf("restored again after a kill %s: %q, %v", at, undone, err)
		}
		checkSame(t, n.snapshot(), before)
		if left, err := os.ReadDir(n.folder); err != nil || len(left) > 0 {
			t.Errorf("files are left after a kill %s: %v, %v", at, left, err)
		}
		if t.Failed() {
			t.Fatalf("killed at step %d of %d, %s", stop, points, at)
		}
	}
}

// TestCapabilities does with the unit's capabilities alone what there is to do.
func TestCapabilities(t *testing.T) {
	unit, err := os.ReadFile("../../packaging/baton-balance.service")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(unit), "\nCapabilityBoundingSet=")
	text, _, _ = strings.Cut(strings.ToLower(text), "\n")
	bounds := "-all"
	for c := range strings.FieldsSeq(text) {
		bounds += ",+" + strings.TrimPrefix(c, "cap_")
	}
	n := newNetwork(t)
	n.host.Lab().Need("setpriv")
	group := fmt.Sprintf("baton-internal-%d", os.Getpid())
	if err := os.Mkdir(cgroups(t, group), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, s := range []State{n.state(), withOpenVSwitch(t, n)} {
		s.Classes[1].Users, s.Classes[1].Group = nil, "/"+group
		before := n.snapshot()
		p := n.start(order{State: s, Close: true}, "setpriv", "--no-new-privs", "--bounding-set="+bounds, "--inh-caps=-all", "--")
		if err := p.Wait(t.Context()); err != nil {
			t.Errorf("%s: %v\n%s", s.Datapath, err, p.Log())
		}
		if !strings.Contains(p.Stdout(), "closed ") {
			t.Errorf("%s: %s", s.Datapath, p.Log())
		}
		checkSame(t, n.snapshot(), before)
	}
}

// TestStartAfterKill has another process take over what one has left, killed at many steps.
func TestStartAfterKill(t *testing.T) {
	n := newNetwork(t)
	before := n.snapshot()
	p, text := n.child(order{State: n.state()}, "diverted")
	running := n.snapshot()
	points, _ := strconv.Atoi(text)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	p, text = n.child(order{State: n.state()}, "diverted")
	if text != "0" {
		t.Errorf("%s points of change where there is nothing to change", text)
	}
	checkSame(t, n.snapshot(), running)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.restore(); err != nil {
		t.Fatal(err)
	}
	for stop := 1; stop <= points; stop += 4 {
		p, at := n.child(order{State: n.state(), StopAt: stop}, "stopped")
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		p, _ = n.child(order{State: n.state()}, "diverted")
		checkSame(t, withoutNumbers(n.snapshot()), withoutNumbers(running))
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := n.restore(); err != nil {
			t.Errorf("restore: %v", err)
		}
		checkSame(t, n.snapshot(), before)
		if t.Failed() {
			t.Fatalf("killed at step %d, %s", stop, at)
		}
	}
}

// withoutNumbers removes numbers that change with each device, and the order of the kernel's lists.
func withoutNumbers(s string) string {
	lines := slices.Sorted(strings.Lines(interfaceNumber.ReplaceAllString(s, "")))
	return strings.Join(lines, "")
}

var interfaceNumber = regexp.MustCompile(`(?m)^[0-9]+: |ifindex=[0-9]+`)
