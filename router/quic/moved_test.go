package quic

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	kernel "baton/datapath/quic"
	"baton/router/config"
)

func movedFrom(number uint32, client string, origin uint32) *kernel.Session {
	of := kernel.Identity{Number: origin, Since: origin}
	return &kernel.Session{Number: number, Client: netip.MustParseAddrPort(client), Moved: true, Origin: of}
}

// TestSharesOfMoved: a prefix has its share of the sessions that may be forged, all have theirs, and the oldest goes
// first.
func TestSharesOfMoved(t *testing.T) {
	var m moved
	m.setBounds(1<<17, testPorts.Size())
	if m.total != 128 || m.share != 16 {
		t.Fatalf("%d, %d of a prefix; want an eighth of the ports, and an eighth of that", m.total, m.share)
	}
	requireVictim := func(client string, number uint32, reason string) {
		t.Helper()
		if n, why := m.findVictim(netip.MustParsePrefix(client)); n != number || why != reason {
			t.Errorf("%s takes the place of %d (%q), want %d (%q)", client, n, why, number, reason)
		}
	}
	for i := range uint32(16) {
		requireVictim("198.51.100.0/24", 0, "")
		m.addSession(movedFrom(i, fmt.Sprintf("198.51.100.%d:%d", i, 1000+i), 0))
	}
	requireVictim("198.51.100.0/24", 0, evictedOfPrefix)
	requireVictim("203.0.113.0/24", 0, "")
	m.removeSession(movedFrom(0, "198.51.100.0:1000", 0))
	requireVictim("198.51.100.0/24", 0, "")
	m.settleSession(1)
	for i := range uint32(128 - 14) {
		m.addSession(movedFrom(100+i, fmt.Sprintf("10.0.%d.1:1", i), 0))
	}
	requireVictim("203.0.113.0/24", 2, evictedOfAll)
	proven := movedFrom(900, "203.0.113.1:1", 7)
	proven.Followed = true
	m.addSession(proven)
	if len(m.unproven) != 128 || m.all.Len() != 128 {
		t.Errorf("%d unproven: one whose client went on behind the answer is none", len(m.unproven))
	}
	for number := range m.unproven {
		m.settleSession(number)
	}
	m.removeSession(proven)
	if m.all.Len() != 0 || len(m.shares) != 0 || len(m.of) != 0 {
		t.Errorf("left: %d, %v, %v", m.all.Len(), m.shares, m.of)
	}
}

// TestWorstOfConnection: of a connection's sessions one without an answer goes first, then the one that is idle
// longest.
func TestWorstOfConnection(t *testing.T) {
	order := []kernel.Session{ // the first goes first
		{Number: 1, Idle: time.Second}, {Number: 2},
		{Number: 3, Followed: true, Idle: time.Minute}, {Number: 4, Followed: true, Idle: time.Second},
		{Number: 5, Followed: true, Confirmed: true, Idle: time.Hour}, {Number: 6, Confirmed: true},
	}
	for i := range order {
		for j := range order {
			if got := isWorse(&order[i], &order[j]); got != (i < j) {
				t.Errorf("session %d goes before %d: %v", order[i].Number, order[j].Number, got)
			}
		}
	}
}

// TestTimeouts: a session of a moved client ends after the handshake's time, whatever arrives, unless its client sends
// more after an answer.
func TestTimeouts(t *testing.T) {
	timeouts := config.Timeouts{Handshake: 10 * time.Second, QUICIdle: 5 * time.Minute}
	const s = time.Second
	for _, tt := range []struct {
		k       kernel.Session
		crowded bool
		want    bool
	}{
		{kernel.Session{Moved: true, Age: 11 * s}, false, true},
		{kernel.Session{Moved: true, Answered: true, Age: 11 * s}, false, true},
		{kernel.Session{Moved: true, Age: 9 * s, Idle: 9 * s}, false, false},
		{kernel.Session{Moved: true, Followed: true, Age: 60 * s, Idle: 60 * s}, false, false},
		{kernel.Session{Moved: true, Followed: true, Age: 60 * s, Idle: 11 * s}, true, true},
		{kernel.Session{Moved: true, Followed: true, Age: 60 * s, Idle: 1 * s}, true, false},
		{kernel.Session{Moved: true, Confirmed: true, Age: 60 * s, Idle: 60 * s}, true, false},
		{kernel.Session{Moved: true, Confirmed: true, Age: 301 * s, Idle: 300 * s}, false, true},
		{kernel.Session{Age: 60 * s, Idle: 9 * s}, false, false},
		{kernel.Session{Age: 60 * s, Idle: 11 * s}, false, true},
		{kernel.Session{Followed: true, Idle: 11 * s}, false, false},
	} {
		if got := isOver(&tt.k, &timeouts, tt.crowded); got != tt.want {
			t.Errorf("%+v, crowded %v: over %v", tt.k, tt.crowded, got)
		}
	}
}

// TestCrowded: the ports to one surrogate may be scarce long before the table is.
func TestCrowded(t *testing.T) {
	var x sessions
	x.init(testPorts, 1<<17)
	s := kernel.Session{
		Client: netip.MustParseAddrPort("198.51.100.7:5000"), Source: netip.MustParseAddrPort("10.2.1.1:2048"),
		Surrogate: netip.MustParseAddrPort("10.2.1.2:443"),
	}
	for range testPorts.Size()/2 + 1 {
		x.counts[s.Surrogate]++
	}
	if !x.isCrowded(&s, 1<<17) {
		t.Error("not crowded, and more than half of the ports are in use")
	}
	if s.Source = s.Client; x.isCrowded(&s, 1<<17) {
		t.Error("crowded, and the surrogate sees clients' addresses")
	}
}
