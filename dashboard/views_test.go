package dashboard

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"baton/api"
)

// arrows are the visible arrows from the top: their labels, and whether they point right.
func (p *page) arrows() []string {
	p.t.Helper()
	return eval[[]string](p, `[...document.querySelectorAll("g.arrow")].filter((g) => g.checkVisibility())
		.map((g) => [g.getBoundingClientRect().top, g]).sort(([a], [b]) => a - b)
		.map(([, g]) => {
			const middle = (e) => { const r = e.getBoundingClientRect(); return r.left + r.width / 2; };
			const head = middle(g.querySelector("path.head")), shaft = middle(g.querySelector("path.shaft"));
			return g.querySelector("text.label").textContent + (head > shaft ? " >" : " <");
		})`)
}

func TestHandoffArrivesStepByStep(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "handoffs", desk)
	p.sees("Handoff 17", "1.34 ms", "10.0.1.2:41017", "10.0.0.10:20002 → 10.0.0.22:80")
	h := handoff(18, time.Now())
	all := h.Steps
	h.Took = 0
	var want []string
	order := []string{"client", "access", "core", "controller", "router", "surrogate"}
	for i, step := range all {
		side := " <"
		if slices.Index(order, step.To) > slices.Index(order, step.From) {
			side = " >"
		}
		want = append(want, step.Label+side)
		if i%3 != 0 && i != len(all)-1 {
			continue // they arrive in bursts
		}
		h.Steps = all[:i+1]
		s.send("handoffs", h)
		p.until(fmt.Sprintf("draws %q", want), func() bool { return slices.Equal(p.arrows(), want) })
		p.sees("running", "waiting for the next step")
	}
	h.Took = 4321 * time.Microsecond
	s.send("handoffs", h)
	p.sees("Handoff 18", "4.32 ms", "Step 24 of 24", "1.04 ms", "270 µs")
	if text := p.text(); strings.Contains(text, "waiting for the next step") {
		t.Errorf("the handoff is over, but the page shows: %s", text)
	}

	// A chosen handoff stays when a newer one begins; the newest is followed again when that is asked for.
	p.click("#16 ● 1.30 ms 10.0.1.2:41017 → se2 GET /gallery/12.jpg")
	p.sees("Handoff 16")
	s.send("handoffs", handoff(19, time.Now()))
	p.sees("#19")
	p.sees("Handoff 16")
	p.click("Follow the newest")
	p.sees("Handoff 19")
}

func TestFailedHandoffSaysWhy(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "handoffs/15", desk)
	p.sees("Handoff 15", "✕ failed", "access refused flow mod 3: table full (OFPFMFC_TABLE_FULL)")
	if all := p.arrows(); len(all) != 15 || all[14] != "flow mod 3 <" {
		t.Errorf("arrows %q", all)
	}
	p.click("Failed only")
	p.until("lists the failed one alone", func() bool {
		return eval[int](p, `document.querySelectorAll(".history li").length`) == 1 && strings.Contains(p.text(), "1 handoff")
	})
}

func TestHandoffIsReplayed(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "handoffs/17", desk)
	p.sees("Step 24 of 24")
	p.click("Replay")
	p.sees("Step 1 of 24")
	if n := len(p.arrows()); n == 24 {
		t.Error("all arrows are there at the beginning of the replay")
	}
	p.sees("Step 24 of 24", "Replay")
}

func TestTopologyShowsStatesAndPath(t *testing.T) {
	now := time.Now()
	s := newScript(t, scenario(now))
	p := open(t, s, "topology", desk)
	p.sees("access", "transit-1", "core", "client1", "client2", "client3", "router", "se1", "se2", "se3", "maintenance")
	onPath := func() string {
		return eval[string](p, `[...document.querySelectorAll("g.cell.on-path .name, g.host.on-path text")].map((e) => e.textContent).join(" ")`)
	}
	if got := onPath(); got != "" {
		t.Errorf("without a session the path is %q", got)
	}
	eval[bool](p, `(location.hash = "#/topology/" + encodeURIComponent("10.0.1.2:41017 10.0.0.10:80"), true)`)
	p.sees("Shortest path: client2 → access → transit-1 → core → se2")
	if got := onPath(); got != "access client2 transit-1 core se2" {
		t.Errorf("the path is %q", got)
	}
	if n := eval[int](p, `document.querySelectorAll("path.wire.on-path").length`); n != 3 { // two, and the one in the legend
		t.Errorf("%d wires are on the path", n)
	}

	// A link is cut and a switch goes down.
	cut := line(3, now)
	cut.Links = cut.Links[:2]
	cut.Switches[1].Up = false
	s.send("topology", cut)
	p.sees("✕ down", "The topology has no path between the ends of this session.")
	p.until("draws the lost link", func() bool { return eval[int](p, `document.querySelectorAll(".network g.lost").length`) == 1 })
	lonely := line(3, now)
	lonely.Hosts[6].At.Switch = "00000000000000ff"
	s.send("topology", lonely)
	p.sees("1 host at switches that are not known: se3")
	s.send("topology", line(3, now))
	p.sees("Shortest path")
	p.until("forgets the lost link", func() bool { return eval[int](p, `document.querySelectorAll(".network g.lost").length`) == 0 })
}

func TestTopologyOfAHundredSwitches(t *testing.T) {
	state := scenario(time.Now())
	state["topology"] = line(100, time.Now())
	s := newScript(t, state)
	for _, l := range []look{desk, telephone} {
		p := open(t, s, "topology", l)
		p.sees("access", "transit-50", "core")
		outside := eval[int](p, `[...document.querySelectorAll("g.cell .box")].filter((e) => {
			const r = e.getBoundingClientRect();
			return r.left < 0 || r.right > innerWidth;
		}).length`)
		if outside > 0 {
			t.Errorf("%d switches are outside of %d pixels", outside, l.width)
		}
	}
}

func TestSessionsAreFilteredAndSorted(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "sessions", desk)
	p.sees("7 of 8 sessions", "handed-off", "established", "handshake", "requested")
	clients := func() string {
		return eval[string](p, `[...document.querySelectorAll("tbody tr")].map((e) => e.cells[0].innerText).join(" ")`)
	}
	newest := "10.0.1.1:41000 10.0.1.2:41017 10.0.1.3:41034 10.0.1.1:41051 10.0.1.2:41068 10.0.1.3:41085 10.0.1.1:41102"
	if got := clients(); got != newest {
		t.Errorf("clients %s", got)
	}
	p.click("Client↕")
	p.until("sorts by client", func() bool {
		return strings.HasPrefix(clients(), "10.0.1.1:41000 10.0.1.1:41051 10.0.1.1:41102 10.0.1.2:41017")
	})
	p.click("Client▲")
	p.until("sorts backwards", func() bool { return strings.HasPrefix(clients(), "10.0.1.3:41085 10.0.1.3:41034") })
	p.fill(`input[type=search]`, "SE2 10.0.1.2")
	p.until("filters", func() bool { return clients() == "10.0.1.2:41017" })

	// What changes, changes in its row.
	changed := sessions(time.Now())[1]
	changed.State = api.ControllerClosed
	s.send("sessions", changed)
	p.sees("No session matches.")
}

func TestThousandsOfSessions(t *testing.T) {
	state := scenario(time.Now())
	many := func(n int) []api.ControllerSession {
		all := make([]api.ControllerSession, n)
		for i := range all {
			client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), byte(i)}), 40000)
			all[i] = api.ControllerSession{
				Client: client, Service: netip.MustParseAddrPort(service), State: api.ControllerHandedOff, Since: time.Now(), Surrogate: "se1",
			}
		}
		return all
	}
	state["sessions"] = many(1000)
	s := newScript(t, state)
	s.sessions = many(6000)
	p := open(t, s, "sessions", desk)
	p.sees("6,000 sessions; the first 100 are shown")
	p.click("Show 100 more")
	p.sees("the first 200 are shown")
	began := time.Now()
	for _, one := range many(2000) { // a burst of changes
		one.State = api.ControllerClosed
		s.send("sessions", one)
	}
	p.fill(`input[type=search]`, "10.9.23.111")
	p.sees("1 of 6,000")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the page was busy for %v", took)
	}
}

func TestRatesAndDecisions(t *testing.T) {
	s := newScript(t, scenario(time.Now()))
	p := open(t, s, "rates", desk)
	p.sees("Live sessions 7", "Handshakes", "Flow mods", "Packet-ins", "Failed handoffs 0.20/s", "se1 214")
	s.send("rates", api.ControllerRates{Time: time.Now(), Handoffs: 731, PacketIns: 3})
	p.sees("Handoffs 731/s", "Packet-ins 3/s")

	p = open(t, s, "decisions", desk)
	p.sees("4 decisions", "consistent hash of the name: se1", "✕ none", "spill-over is off")
	p.choose("Method", "dns")
	p.sees("1 of 4 decisions", "coverage zone 10.0.1.0/24: bratislava")
	s.send("decisions", api.RoutingDecision{Time: time.Now(), Method: "dns", Client: netip.MustParseAddr("10.0.1.9"), Name: "new.dizp.bt", Because: []string{"nothing is up"}})
	p.sees("2 of 5 decisions", "new.dizp.bt", "nothing is up")
}

func TestTimesInTheZoneOfTheBrowserOrUTC(t *testing.T) {
	state := scenario(time.Now())
	at := time.Now().Truncate(24 * time.Hour).Add(12*time.Hour + 34*time.Minute + 56*time.Second).UTC()
	state["decisions"] = []api.RoutingDecision{{Time: at, Method: "dns", Client: netip.MustParseAddr("10.0.1.9"), Name: "x.dizp.bt"}}
	s := newScript(t, state)
	tokyo := desk
	tokyo.zone = "Asia/Tokyo"
	p := open(t, s, "decisions", tokyo)
	p.sees("21:34:56.000", "Asia/Tokyo")
	p.choose("Times in", "UTC")
	p.sees("12:34:56.000")
}
