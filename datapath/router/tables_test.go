package router

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
)

// everyMethod is a route for each method that the kernel decides.
func everyMethod(r Route) (out []Route) {
	for method := routerMethodMETHOD_GET; method <= routerMethodMETHOD_DELETE; method++ {
		r.Method = uint8(method)
		out = append(out, r)
	}
	return out
}

// numbered are tables in which requests to the VIP go to surrogate 1, and another VIP's to surrogate 2. The numbers of everything
// else vary.
func numbered(f family, swapped bool) Tables {
	vip, host, pool := []uint16{3, 4}, []uint16{1, 2}, []uint16{1, 2}
	if swapped {
		vip, host, pool = []uint16{4, 3}, []uint16{2, 1}, []uint16{2, 1}
	}
	other := netip.AddrPortFrom(f.vip.Addr(), f.vip.Port()+1)
	t := Tables{
		VIPs: map[netip.AddrPort]VIP{f.vip: {ID: vip[0], MSS: 1400}, other: {ID: vip[1], MSS: 1400}},
		Hosts: []Host{
			{VIP: vip[0], Name: "a.test", ID: host[0]}, {VIP: vip[0], Name: "b.test", ID: host[1]},
			{VIP: vip[1], Name: "a.test", ID: host[1]}, {VIP: vip[1], Name: "b.test", ID: host[0]},
		},
		Pools: map[uint16]Pool{
			pool[0]: {Policy: Nearest, Table: []uint16{1}},
			pool[1]: {Policy: Nearest, Table: []uint16{2}},
		},
		Zones: []Zone{
			{Pool: pool[0], Prefix: netip.PrefixFrom(f.client.Addr(), 8).Masked(), Table: []uint16{1}},
			{Pool: pool[1], Prefix: netip.PrefixFrom(f.client.Addr(), 8).Masked(), Table: []uint16{2}},
		},
	}
	for i, v := range vip {
		t.Routes = append(t.Routes, everyMethod(Route{VIP: v, Host: host[i], Prefix: "/", Pool: pool[0]})...)
		t.Routes = append(t.Routes, everyMethod(Route{VIP: v, Host: host[1-i], Prefix: "/", Pool: pool[1]})...)
	}
	return t
}

// TestTablesChangeAtOnce replaces all tables again and again by equivalent ones with other numbers: no packet may see a mix.
func TestTablesChangeAtOnce(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.must(k.SetTables(numbered(f, false)))
		stop, stopped := make(chan struct{}), make(chan error, 1)
		changes := 0
		go func() {
			for {
				select {
				case <-stop:
					stopped <- nil
					return
				default:
				}
				changes++
				if err := k.SetTables(numbered(f, changes%2 == 1)); err != nil {
					stopped <- err
					return
				}
			}
		}()
		wrong := 0
		for n := 0; n < 3000 || changes < 30; n++ {
			for i := range uint32(2) {
				k.idle(i, f, func(s *routerSplice) { s.Surrogate = uint16(1 + i) })
			}
			c := newClient(k, f.nth(n%10000), f.usual())
			host := n % 2
			request := fmt.Sprintf("GET /x HTTP/1.1\r\nHost: %c.test\r\n\r\n", 'a'+host)
			if got := k.handedTo(c, request); got != 1+host {
				wrong++
			}
			key := tuple(c.f.client, c.f.vip)
			_, _ = k.maps.Flows.Delete(key), k.maps.Clients.Delete(key)
			for id := range uint16(2) {
				k.queued(1+id, f.class())
			}
		}
		close(stop)
		k.must(<-stopped)
		if wrong > 0 {
			t.Errorf("%d requests went wrong in %d changes", wrong, changes)
		}
	})
}

// TestTablesAreForgotten: nothing is left of tables not in force.
func TestTablesAreForgotten(t *testing.T) {
	k := newRig(t)
	f := families[0]
	for range 3 {
		k.must(k.SetTables(numbered(f, false)))
		for name, have := range map[string]int{
			"VIPs": entries[routerVipKey, routerVip](k.maps.Vips), "hosts": entries[routerHostKey, uint32](k.maps.Hosts),
			"routes": entries[routerRouteKey, routerRoute](k.maps.Routes), "zones": entries[routerZoneKey, uint32](k.maps.Zones),
		} {
			if want := map[string]int{"VIPs": 3, "hosts": 4, "routes": 20, "zones": 2}[name]; have != want {
				t.Errorf("%d %s, want %d", have, name, want)
			}
		}
	}
	began := time.Now()
	k.must(k.settle())
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("packets are waited for for %v", took)
	}
}

// TestRefuse: VIPs that the tables lack refuse clients until there are tables with them; others do not notice.
func TestRefuse(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		tables := numbered(f, false)
		k.must(k.SetTables(tables))
		fresh := f
		fresh.vip = netip.AddrPortFrom(f.vip.Addr(), f.vip.Port()+2)
		k.must(k.Refuse([]netip.AddrPort{f.vip, fresh.vip}))
		newClient(k, f, f.usual()).connect(routerVerdictSYN_ANSWERED)
		k.want(packet.Build(newClient(k, fresh, f.usual()).syn()), routerVerdictRESET_SENT, actRedirect)
		tables.VIPs[fresh.vip] = VIP{ID: 5, MSS: 1400}
		k.must(k.SetTables(tables))
		newClient(k, fresh, f.usual()).connect(routerVerdictSYN_ANSWERED)
		if have := entries[routerVipKey, routerVip](k.maps.Vips); have != 4 { // with that of the address
			t.Errorf("%d VIPs in the kernel, want 4", have)
		}
	})
}

// TestRefuseAsManyAsThereAre replaces as many VIPs as there may be by others, on addresses of their own.
func TestRefuseAsManyAsThereAre(t *testing.T) {
	k := newRig(t)
	all := func(network byte) (vips map[netip.AddrPort]VIP, list []netip.AddrPort) {
		vips = make(map[netip.AddrPort]VIP)
		for i := range MaxVIPs {
			at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, network, 0, byte(i)}), 80)
			vips[at], list = VIP{ID: uint16(i), MSS: 1400}, append(list, at)
		}
		return vips, list
	}
	for network := range byte(3) {
		vips, list := all(network)
		k.must(k.Refuse(list))
		k.must(k.SetTables(Tables{VIPs: vips}))
		if have := entries[routerVipKey, routerVip](k.maps.Vips); have != 2*MaxVIPs { // with those of the addresses
			t.Errorf("%d VIPs in the kernel, want %d", have, 2*MaxVIPs)
		}
	}
}

// TestPoolThatHasGone: user space decides for a pool that is removed before the packet arrives.
func TestPoolThatHasGone(t *testing.T) {
	k := newRig(t)
	f := families[0]
	k.must(k.SetConfig(Config{MSS: testMSS, TSOffset: 0x7fff0000, Tap: 1}))
	k.must(k.SetTables(numbered(f, false)))
	k.idle(1, f, func(s *routerSplice) { s.Surrogate = 1 })
	none := numbered(f, false)
	none.Pools, none.Zones = nil, nil
	k.must(k.SetTables(none))
	if got := k.handedTo(newClient(k, f, f.usual()), "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"); got != -1 {
		t.Errorf("handed to %d of a pool that has gone", got)
	}
}

// TestUpdateTables changes choices without a new generation, and everything if a VIP has changed.
func TestUpdateTables(t *testing.T) {
	k := newRig(t)
	f := families[0]
	k.must(k.SetTables(numbered(f, false)))
	generation := k.tables.generation
	request := "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
	next := numbered(f, false)
	next.Zones[0].Table = []uint16{4}
	next.Pools[1] = Pool{Policy: Nearest, Table: []uint16{4}}
	k.must(k.UpdateTables(next))
	k.idle(1, f, func(s *routerSplice) { s.Surrogate = 4 })
	if got := k.handedTo(newClient(k, f, f.usual()), request); got != 4 {
		t.Errorf("handed to %d, want 4", got)
	}
	if k.tables.generation != generation {
		t.Error("a change of what may be chosen has replaced all tables")
	}
	vips := numbered(f, false)
	vips.VIPs[f.vip] = VIP{ID: 3, MSS: 1300}
	k.must(k.UpdateTables(vips))
	k.idle(2, f, func(s *routerSplice) { s.Surrogate = 1 })
	if got := k.handedTo(newClient(k, f.nth(1), f.usual()), request); got != 1 {
		t.Errorf("handed to %d, want 1", got)
	}
	if k.tables.generation == generation {
		t.Error("a VIP was changed in place: packets may meet another one's")
	}
}

// TestZonesShareTables: there may be many more zones than tables, and a change of one zone's surrogate is no other's.
func TestZonesShareTables(t *testing.T) {
	k := newRig(t)
	f := families[0]
	tables := numbered(f, false)
	tables.Zones = nil
	client := f.client.Addr().As4()
	for i := range 4 * MaxZoneTables {
		other := netip.AddrFrom4([4]byte{client[0] ^ 0x80, byte(i >> 8), byte(i), 0})
		tables.Zones = append(tables.Zones, Zone{Pool: 1, Prefix: netip.PrefixFrom(other, 24), Table: []uint16{uint16(2 + i%3)}})
	}
	zone := Zone{Pool: 1, Prefix: netip.PrefixFrom(f.client.Addr(), 32), Table: []uint16{3}}
	tables.Zones = append(tables.Zones, zone)
	k.must(k.SetTables(tables))
	request := "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
	for i, surrogate := range []uint16{3, 4, 9} { // one that others have, another such, one that nobody had
		last := len(tables.Zones) - 1
		tables.Zones = append(slices.Clone(tables.Zones[:last]), Zone{zone.Pool, zone.Prefix, []uint16{surrogate}})
		k.must(k.UpdateTables(tables))
		k.idle(uint32(i), f, func(s *routerSplice) { s.Surrogate = surrogate })
		if got := k.handedTo(newClient(k, f.nth(0), f.usual()), request); got != int(surrogate) {
			t.Errorf("handed to %d, want %d", got, surrogate)
		}
		key := tuple(f.client, f.vip)
		_, _ = k.maps.Flows.Delete(key), k.maps.Clients.Delete(key)
	}
	if have := entries[routerZoneKey, uint32](k.maps.Zones); have != len(tables.Zones) {
		t.Errorf("%d zones, want %d", have, len(tables.Zones))
	}
}

func entries[K, V any](m *ebpf.Map) (n int) {
	var (
		k K
		v V
	)
	for it := m.Iterate(); it.Next(&k, &v); {
		n++
	}
	return n
}

// TestTablesCarryReuseAndHold: the kernel's records contain what the tables say.
func TestTablesCarryReuseAndHold(t *testing.T) {
	k := newRig(t)
	f := families[0]
	tables := numbered(f, false)
	v, p := tables.VIPs[f.vip], tables.Pools[1]
	v.Hold, p.Reuse = true, ReuseNever
	tables.VIPs[f.vip], tables.Pools[1] = v, p
	k.must(k.SetTables(tables))
	var vip routerVip
	key := routerVipKey{Addr: f.vip.Addr().As16(), Port: datapath.BigEndian(f.vip.Port()), Generation: uint16(k.tables.generation)}
	k.must(k.maps.Vips.Lookup(key, &vip))
	var pool routerPool
	k.must(k.maps.Pools.Lookup(poolPlace(k.tables.generation, 1), &pool))
	if vip.Flags != uint8(routerVipFlagVIP_HOLD) || routerReuse(pool.Reuse) != routerReuseREUSE_NEVER {
		t.Errorf("VIP with flags %#x, pool with reuse %d", vip.Flags, pool.Reuse)
	}
	p.Reuse = ReuseSafe
	tables = numbered(f, false)
	tables.VIPs[f.vip], tables.Pools[1] = v, p
	k.must(k.UpdateTables(tables))
	k.must(k.maps.Pools.Lookup(poolPlace(k.tables.generation, 1), &pool))
	if routerReuse(pool.Reuse) != routerReuseREUSE_SAFE {
		t.Errorf("pool with reuse %d after a change", pool.Reuse)
	}
}
