package forwarder

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"baton/datapath"

	"github.com/cilium/ebpf"
)

// Binding is an entry of the binding table: a flow that the action bind keeps on a port. For ICMP echo the internal port is the identifier.
type Binding struct {
	Protocol         uint8
	Internal, Remote netip.AddrPort
	Port             uint32 // OpenFlow's number
	Closing          bool
	Began, Used      time.Duration // CLOCK_MONOTONIC
	Sent, Received   uint64        // bytes on the wire
}

// BindingPort is a port that flows are bound to.
type BindingPort struct {
	Port             uint32        // OpenFlow's number
	Active, Flows    uint64        // Active: with a packet in the last 2 to 3 seconds; TCP: and without a FIN, unless payload followed it
	RTT              time.Duration // of TCP handshakes, a moving average with weight 1/8; 0: none yet
	SYNs, SYNRepeats uint64
	Sent, Received   uint64 // bytes on the wire; of live flows, as of the last sweep
}

// ErrNoBindings reports that a forwarder has no binding table: it is not running, or limits.bindings is 0.
var ErrNoBindings = errors.New("no binding table")

// bindingsName is the folder of the pinned maps in a forwarder's state.
const bindingsName = "bindings"

// memory lists the maps and types that outlive the process.
var memory = datapath.Stored{
	Maps:  []string{forwarderMapBindings, forwarderMapBindingReplies, forwarderMapBindingRemotes, forwarderMapBinders, forwarderMapBindSeats},
	Types: []string{"binding_state", "binding_flag", "binding_active"},
}

// memoryLayout is the layout of these maps.
var memoryLayout = sync.OnceValues(func() (datapath.Layout, error) {
	spec, err := loadForwarder()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	return datapath.LayoutOf(spec, memory)
})

// openBindings sizes the maps of bind, and opens those that an earlier process has pinned, whose size is kept.
func openBindings(spec *ebpf.CollectionSpec, o Options) (map[string]*ebpf.Map, error) {
	// spare entries, as racing processors may leave stale ones behind
	backs := o.Bindings + o.Bindings/8
	for name, n := range map[string]int{
		forwarderMapBindings: o.Bindings, forwarderMapBindingReplies: backs, forwarderMapBindingRemotes: o.Bindings / 2,
		forwarderMapBindingFragments: min(o.Bindings, int(spec.Maps[forwarderMapBindingFragments].MaxEntries)),
	} {
		spec.Maps[name].MaxEntries = uint32(max(n, 1))
	}
	spec.Maps[forwarderMapBindCredits].MaxEntries = uint32(o.Groups)
	dir := filepath.Join(o.State, bindingsName)
	if o.Bindings == 0 { // switched off
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("remove the binding table: %w", err)
		}
		return nil, nil
	}
	layout, err := memoryLayout()
	if err != nil {
		return nil, err
	}
	maps, err := datapath.OpenMaps(dir, layout)
	if errors.Is(err, datapath.ErrLayout) {
		return nil, fmt.Errorf("%w; run the version that wrote it, or remove its bindings with `baton forwarder cleanup` (of a host's links: `baton balance cleanup`)", err)
	}
	for name, m := range maps {
		spec.Maps[name].MaxEntries = m.MaxEntries()
	}
	return maps, err
}

// keepBindings pins the maps that outlive the process.
func (f *Forwarder) keepBindings(opened map[string]*ebpf.Map) error {
	if f.options.Bindings == 0 || opened != nil {
		return nil
	}
	layout, err := memoryLayout()
	if err != nil {
		return err
	}
	m := &f.objects.forwarderMaps
	all := make(map[string]*ebpf.Map)
	for i, m := range [...]*ebpf.Map{m.Bindings, m.BindingReplies, m.BindingRemotes, m.Binders, m.BindSeats} {
		all[memory.Maps[i]] = m
	}
	dir := filepath.Join(f.options.State, bindingsName)
	return datapath.PinMaps(dir, dir+"_new", all, layout)
}

// Seat lets flows be bound to the port at an index of Ports, whose number must have been written. There are BIND_SEATS - 1 seats, enough for
// the links of a host; flows are never bound to other ports.
func (f *Forwarder) Seat(place uint32) error {
	port := &f.Ports[place]
	if port.Seat != 0 || f.options.Bindings == 0 {
		return nil
	}
	for seat := uint32(1); seat < uint32(forwarderBindLimitBIND_SEATS); seat++ {
		var number uint32
		if err := f.objects.BindSeats.Lookup(seat, &number); err != nil {
			return fmt.Errorf("count the flows of a port: %w", err)
		}
		if number == 0 {
			if err := f.objects.BindSeats.Put(seat, port.Number); err != nil {
				return fmt.Errorf("count the flows of a port: %w", err)
			}
			number = port.Number
		}
		if number == port.Number {
			port.Seat = seat
			return nil
		}
	}
	return nil
}

// SweepBindingsEvery is the interval between calls of SweepBindings.
const SweepBindingsEvery = time.Second

// SweepBindings removes expired flows, and corrects the counts of active ones. It returns how many flows were removed.
func (f *Forwarder) SweepBindings() (ended int, err error) {
	if f.options.Bindings == 0 {
		return 0, nil
	}
	n, err := f.objects.ForwarderSweep.Run(&ebpf.RunOptions{})
	if err != nil {
		return 0, fmt.Errorf("sweep the binding table: %w", err)
	}
	return int(n), nil
}

// bindingsAtOnce is the batch size of ReadBindings.
const bindingsAtOnce = 4096

// ReadBindings calls visit with each bound flow of the forwarder with that state, until visit returns false. The forwarder need not be
// running.
func ReadBindings(state string, visit func(Binding) bool) error {
	m, err := openBindingMap(state, forwarderMapBindings)
	if err != nil {
		return err
	}
	defer m.Close()
	var cursor ebpf.MapBatchCursor
	keys, values := make([]forwarderBindingKey, bindingsAtOnce), make([]forwarderBinding, bindingsAtOnce)
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		end := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !end {
			return fmt.Errorf("read the binding table: %w", err)
		}
		for i := range n {
			if !visit(bind(&keys[i], &values[i])) {
				return nil
			}
		}
		if end {
			return nil
		}
	}
}

func openBindingMap(state, name string) (*ebpf.Map, error) {
	layout, err := memoryLayout()
	if err != nil {
		return nil, err
	}
	m, err := datapath.OpenMap(filepath.Join(state, bindingsName), name, layout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoBindings, state)
	}
	if err != nil {
		return nil, fmt.Errorf("read the binding table: %w", err)
	}
	return m, nil
}

func bind(k *forwarderBindingKey, p *forwarderBinding) Binding {
	address := func(b [16]uint8, port uint16) netip.AddrPort {
		addr := netip.AddrFrom16(b)
		if k.Family == 4 {
			addr = netip.AddrFrom4([4]byte(b[:4]))
		}
		return netip.AddrPortFrom(addr, bits.ReverseBytes16(port))
	}
	return Binding{
		Protocol: k.Protocol, Internal: address(k.Internal, k.InternalPort), Remote: address(k.Remote, k.RemotePort),
		Port: bits.ReverseBytes32(p.Port), Closing: forwarderBindingState(p.State) == forwarderBindingStateBINDING_CLOSING,
		Began: time.Duration(p.Began), Used: time.Duration(p.Used), Sent: p.Sent, Received: p.Received,
	}
}

// ReadBindingPorts returns the ports that the forwarder with that state binds flows to, oldest first.
func ReadBindingPorts(state string) ([]BindingPort, error) {
	seats, err := openBindingMap(state, forwarderMapBindSeats)
	if err != nil {
		return nil, err
	}
	defer seats.Close()
	m, err := openBindingMap(state, forwarderMapBinders)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var all forwarderBinder
	if err := m.Lookup(uint32(0), &all); err != nil {
		return nil, fmt.Errorf("read the ports of the binding table: %w", err)
	}
	var list []BindingPort
	for i, s := range all.Seat {
		var number uint32
		if err := seats.Lookup(uint32(i), &number); err != nil {
			return nil, fmt.Errorf("read the ports of the binding table: %w", err)
		}
		if number == 0 {
			continue
		}
		list = append(list, BindingPort{
			Port: bits.ReverseBytes32(number), Active: uint64(max(int32(s.Active), 0)), Flows: s.Flows, RTT: time.Duration(s.Rtt),
			SYNs: s.Syns, SYNRepeats: s.SynRepeats, Sent: s.Sent, Received: s.Received,
		})
	}
	return list, nil
}
