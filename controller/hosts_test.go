package controller

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"baton/controller/neighbour"
	"baton/controller/store"
	"baton/openflow"
	"baton/packet"
)

var (
	hostMAC     = packet.MAC{2, 0, 0, 0, 0, 7}
	hostAddress = netip.MustParseAddr("10.0.0.7")
)

// learnHost connects a switch with a host at its port 1, and returns when the host is recorded.
func (f *fixture) learnHost() {
	f.t.Helper()
	n := &node{}
	f.connect(n)
	asks := neighbour.Build(neighbour.Message{MAC: hostMAC, Address: hostAddress, Target: netip.MustParseAddr("10.0.0.8")})
	eventually(f.t, func() string { // not at once: the port must have settled
		_ = n.Send(0, &openflow.PacketIn{
			Buffer: openflow.NoBuffer, TotalLen: uint16(len(asks)), Match: openflow.Match{}.Port(1), Data: asks,
		})
		return f.lacksHost()
	})
}

// lacksHost says how the record of learnHost's host is not what it should be.
func (f *fixture) lacksHost() string {
	r, ok := f.store.Hosts.Get(hostMAC.String())
	if !ok || r.At.Port != 1 || len(r.Addresses) != 1 || time.Until(r.Until) < hostLease-time.Minute {
		return fmt.Sprintf("the record of the host is %+v", r)
	}
	return ""
}

// TestLeasesOfHosts: a host that stands still is recorded as long as it is seen, without a write for each look.
func TestLeasesOfHosts(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.learnHost()
	first, _ := f.store.Hosts.Get(hostMAC.String())
	learnt, renewals, until := time.Now(), 0, first.Until
	for age := time.Duration(0); age < 2*hostLease; age += hostRenewal / 4 {
		f.renewHosts(learnt.Add(age))
		r, ok := f.store.Hosts.Get(hostMAC.String())
		if !ok || r.Until.Sub(learnt.Add(age)) < hostLease/2 {
			t.Fatalf("after %v the record is %+v", age, r)
		}
		if r.Until != until {
			renewals, until = renewals+1, r.Until
		}
	}
	if most := int(2 * hostLease / hostRenewal); renewals < most/2 || renewals > most {
		t.Errorf("%d renewals in %v", renewals, 2*hostLease)
	}
}

// TestExpiredHosts: the master removes records whose lease has ended, also those that were there when it started.
func TestExpiredHosts(t *testing.T) {
	f := newFixture(t)
	f.start()
	for host := range 100 {
		f.store.Hosts.Record(store.Host{MAC: packet.MAC{2, 1, byte(host)}.String(), Until: time.Now().Add(-time.Second)})
	}
	f.stop()
	f.start()
	eventually(t, func() string {
		if all := f.store.Hosts.All(); len(all) > 0 {
			return fmt.Sprintf("%d records have expired", len(all))
		}
		return ""
	})
}

// TestHostsLearntBeforeTheTerm: a controller that becomes the master writes what it has learnt before, but not over what
// a master has recorded since then.
func TestHostsLearntBeforeTheTerm(t *testing.T) {
	f := newFixture(t)
	f.start()
	f.learnHost()
	recorded, _ := f.store.Hosts.Get(hostMAC.String())
	earlier, later := recorded, recorded
	earlier.At.Port, earlier.Until = 2, time.Now().Add(hostLease-time.Hour)
	later.At.Port, later.Until = 2, time.Now().Add(hostLease+time.Hour)

	f.store.Hosts.Forget(hostMAC.String())
	wake(f.terms)
	eventually(t, f.lacksHost)
	f.store.Hosts.Record(earlier)
	wake(f.terms)
	eventually(t, f.lacksHost)
	f.store.Hosts.Record(later)
	f.renewHosts(time.Now())
	if r, _ := f.store.Hosts.Get(hostMAC.String()); r.At != later.At {
		t.Errorf("the record is %+v", r)
	}
}
