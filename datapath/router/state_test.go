package router

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"baton/datapath"
	"baton/datapath/kerneltest"
)

func open(t *testing.T, o Options) *Router {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// The state outlives the process that created it, with its sessions and attachments, and Remove leaves nothing of it.
func TestStateIsAdopted(t *testing.T) {
	kerneltest.Need(t)
	o := Options{State: filepath.Join(datapath.BPFFS, "baton-test"), Sessions: testSessions, Pending: testPending, Legs: testLegs, Hosts: 1 << 17}
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	f := families[0]
	first := open(t, o)
	if first.Adopted() {
		t.Fatal("adopted what was never made")
	}
	leg := Leg{Number: 5, Surrogate: 1, Server: f.surrogate, Router: f.router, ISS: 1, Ifindex: 1}
	for _, err := range []error{
		first.Attach(lo.Index), first.SetConfig(Config{MSS: testMSS, TSOffset: 7}), first.OpenLeg(leg), first.MakeQueues([]LegQueue{{1, 3, BandFresh}}),
		first.PushIdle(1, 3, BandFresh, 5), first.SetTables(numbered(f, false)), first.NamePool(7, "video"), first.maps.LingeringLost.Unpin(), first.Close(), // as if an earlier version had no such map
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	o.Sessions, o.Hosts = 2*o.Sessions, 0 // another size has no effect on an existing state
	second := open(t, o)
	if !second.Adopted() || second.Sessions() != testSessions || second.Hosts() != 1<<17 {
		t.Errorf("adopted: %t, with %d sessions and %d hosts", second.Adopted(), second.Sessions(), second.Hosts())
	}
	if at := second.Attached(); len(at) != 1 || at[0] != lo.Index {
		t.Errorf("attached to %v, want %d", at, lo.Index)
	}
	if s, err := second.Splice(5); err != nil || s.State != Opening || s.Server != f.surrogate {
		t.Errorf("splice: %+v, %v", s, err)
	}
	if n, ok, err := second.PopIdle(1, 3, BandFresh); err != nil || !ok || n != 5 {
		t.Errorf("idle leg: %d, %t, %v", n, ok, err)
	}
	if c, err := second.Config(); err != nil || c.TSOffset != 7 {
		t.Errorf("config: %+v, %v", c, err)
	}
	if names, err := second.PoolNames(); err != nil || len(names) != 1 || names["video"] != 7 {
		t.Errorf("names of pools: %v, %v", names, err)
	}
	if second.tables.generation != 1 {
		t.Error("the tables that are in force are not")
	}
	if err := second.SetTables(numbered(f, true)); err != nil || second.tables.generation != 0 {
		t.Errorf("the next tables are not in force: %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.State, routerMapLingeringLost)); err != nil {
		t.Errorf("a map of this version is not pinned: %v", err)
	}
	if second.sweeper.walkAt.IsZero() {
		t.Error("flows are not walked for what ended meanwhile")
	}
	if err := second.Detach(lo.Index); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Remove(o.State); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(o.State + "*")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A version with another session record does not touch existing sessions, and says what to do in one line.
func TestStateOfAnotherLayout(t *testing.T) {
	kerneltest.Need(t)
	o := Options{State: filepath.Join(datapath.BPFFS, "baton-layout-test"), Sessions: testSessions, Pending: testPending, Legs: testLegs}
	spec, err := loadRouter()
	if err != nil {
		t.Fatal(err)
	}
	earlier := spec.Maps[routerMapSplices].Value.(*btf.Struct)
	last := &earlier.Members[len(earlier.Members)-1]
	last.Name = "former_" + last.Name
	before, err := layoutOf(spec)
	if err != nil {
		t.Fatal(err)
	}
	r := &Router{options: o}
	if err := r.load(nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.pin(before), r.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // unchanged
		_, err := Open(o)
		if !errors.Is(err, datapath.ErrLayout) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("state of another layout: %v", err)
		}
		for _, want := range []string{o.State, "struct " + earlier.Name, "was (" + last.Name, "`baton router cleanup`"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: does not say %q", err, want)
			}
		}
	}
	if err := Remove(o.State); err != nil {
		t.Fatal(err)
	}
}
