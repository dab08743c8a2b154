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

// Pick is a flow that the forwarder's action pick remembers. An ICMP echo's identifier is the inside's port.
type Pick struct {
	Protocol       uint8
	Inside, Remote netip.AddrPort
	Port           uint32 // OpenFlow's number
	Closing        bool
	Began, Used    time.Duration // CLOCK_MONOTONIC
	Sent, Received uint64        // bytes of the wire
}

// PickPort is a port that flows are picked for.
type PickPort struct {
	Port             uint32        // OpenFlow's number
	Active, Flows    uint64        // Active: with a packet in the last two seconds or three; TCP: and no FIN, or payload after it
	RTT              time.Duration // of TCP's handshakes, a mean in which the last one is an eighth; 0: none yet
	SYNs, SYNRepeats uint64
	Sent, Received   uint64 // bytes of the wire, of flows that go on as of the last sweep
}

// ErrNoPicks says that a forwarder has no memory of flows: it is not there, or has none by its configuration.
var ErrNoPicks = errors.New("no flows are remembered")

// picksName is that of the folder, in a forwarder's state, of the maps that remember flows.
const picksName = "picks"

// memory is what outlives the process.
var memory = datapath.Stored{
	Maps:  []string{forwarderMapPicks, forwarderMapPickBacks, forwarderMapPickRemotes, forwarderMapPickings, forwarderMapPickSeats},
	Types: []string{"pick_state", "pick_flag", "pick_active"},
}

// memoryLayout is that of its maps.
var memoryLayout = sync.OnceValues(func() (datapath.Layout, error) {
	spec, err := loadForwarder()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	return datapath.LayoutOf(spec, memory)
})

// openPicks sizes the maps of pick, and opens those that an earlier process has left. They stay as large as they are.
func openPicks(spec *ebpf.CollectionSpec, o Options) (map[string]*ebpf.Map, error) {
	// What a flow leaves behind when processors race is not in the way of another's replies.
	backs := o.Picks + o.Picks/8
	for name, n := range map[string]int{
		forwarderMapPicks: o.Picks, forwarderMapPickBacks: backs, forwarderMapPickRemotes: o.Picks / 2,
		forwarderMapPickFragments: min(o.Picks, int(spec.Maps[forwarderMapPickFragments].MaxEntries)),
	} {
		spec.Maps[name].MaxEntries = uint32(max(n, 1))
	}
	spec.Maps[forwarderMapPickTurns].MaxEntries = uint32(o.Groups)
	dir := filepath.Join(o.State, picksName)
	if o.Picks == 0 { // not wanted any more
		if err := os.RemoveAll(dir); err != nil {
			return nil, fmt.Errorf("forget remembered flows: %w", err)
		}
		return nil, nil
	}
	layout, err := memoryLayout()
	if err != nil {
		return nil, err
	}
	maps, err := datapath.OpenMaps(dir, layout)
	if errors.Is(err, datapath.ErrLayout) {
		return nil, fmt.Errorf("%w; run the version that left it, or forget its flows with `baton forwarder cleanup` (of a host's links: `baton balance cleanup`)", err)
	}
	for name, m := range maps {
		spec.Maps[name].MaxEntries = m.MaxEntries()
	}
	return maps, err
}

// keepPicks pins the maps that outlive the process.
func (f *Forwarder) keepPicks(opened map[string]*ebpf.Map) error {
	if f.options.Picks == 0 || opened != nil {
		return nil
	}
	layout, err := memoryLayout()
	if err != nil {
		return err
	}
	m := &f.objects.forwarderMaps
	all := make(map[string]*ebpf.Map)
	for i, m := range [...]*ebpf.Map{m.Picks, m.PickBacks, m.PickRemotes, m.Pickings, m.PickSeats} {
		all[memory.Maps[i]] = m
	}
	dir := filepath.Join(f.options.State, picksName)
	return datapath.PinMaps(dir, dir+"_new", all, layout)
}

// Seat has flows be picked for the port at a place of Ports, whose number is written. There is no seat for more than a few ports, as many
// as a host has links: for others no flow is picked.
func (f *Forwarder) Seat(place uint32) error {
	port := &f.Ports[place]
	if port.Seat != 0 || f.options.Picks == 0 {
		return nil
	}
	for seat := uint32(1); seat < uint32(forwarderPickBoundPICK_SEATS); seat++ {
		var number uint32
		if err := f.objects.PickSeats.Lookup(seat, &number); err != nil {
			return fmt.Errorf("count the flows of a port: %w", err)
		}
		if number == 0 {
			if err := f.objects.PickSeats.Put(seat, port.Number); err != nil {
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

// SweepPicksEvery is how often SweepPicks is to be called.
const SweepPicksEvery = time.Second

// SweepPicks forgets flows that are old, and counts those that are active. It returns how many were forgotten.
func (f *Forwarder) SweepPicks() (ended int, err error) {
	if f.options.Picks == 0 {
		return 0, nil
	}
	n, err := f.objects.ForwarderSweep.Run(&ebpf.RunOptions{})
	if err != nil {
		return 0, fmt.Errorf("sweep remembered flows: %w", err)
	}
	return int(n), nil
}

// picksAtOnce is how many flows are read by one call of the kernel.
const picksAtOnce = 4096

// ReadPicks calls visit with each flow that the forwarder of a state remembers, until that returns false. The forwarder need not be running.
func ReadPicks(state string, visit func(Pick) bool) error {
	m, err := openPickMap(state, forwarderMapPicks)
	if err != nil {
		return err
	}
	defer m.Close()
	var cursor ebpf.MapBatchCursor
	keys, values := make([]forwarderPickKey, picksAtOnce), make([]forwarderPick, picksAtOnce)
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		end := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !end {
			return fmt.Errorf("read remembered flows: %w", err)
		}
		for i := range n {
			if !visit(pick(&keys[i], &values[i])) {
				return nil
			}
		}
		if end {
			return nil
		}
	}
}

func openPickMap(state, name string) (*ebpf.Map, error) {
	layout, err := memoryLayout()
	if err != nil {
		return nil, err
	}
	m, err := datapath.OpenMap(filepath.Join(state, picksName), name, layout)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoPicks, state)
	}
	if err != nil {
		return nil, fmt.Errorf("read remembered flows: %w", err)
	}
	return m, nil
}

func pick(k *forwarderPickKey, p *forwarderPick) Pick {
	address := func(b [16]uint8, port uint16) netip.AddrPort {
		addr := netip.AddrFrom16(b)
		if k.Family == 4 {
			addr = netip.AddrFrom4([4]byte(b[:4]))
		}
		return netip.AddrPortFrom(addr, bits.ReverseBytes16(port))
	}
	return Pick{
		Protocol: k.Protocol, Inside: address(k.Inside, k.InsidePort), Remote: address(k.Remote, k.RemotePort),
		Port: bits.ReverseBytes32(p.Port), Closing: forwarderPickState(p.State) == forwarderPickStatePICK_CLOSING,
		Began: time.Duration(p.Began), Used: time.Duration(p.Used), Sent: p.Sent, Received: p.Received,
	}
}

// ReadPickPorts returns the ports that the forwarder of a state picks flows for, in the order in which they came to be.
func ReadPickPorts(state string) ([]PickPort, error) {
	seats, err := openPickMap(state, forwarderMapPickSeats)
	if err != nil {
		return nil, err
	}
	defer seats.Close()
	m, err := openPickMap(state, forwarderMapPickings)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var all forwarderPicking
	if err := m.Lookup(uint32(0), &all); err != nil {
		return nil, fmt.Errorf("read the ports of remembered flows: %w", err)
	}
	var list []PickPort
	for i, s := range all.Seat {
		var number uint32
		if err := seats.Lookup(uint32(i), &number); err != nil {
			return nil, fmt.Errorf("read the ports of remembered flows: %w", err)
		}
		if number == 0 {
			continue
		}
		list = append(list, PickPort{
			Port: bits.ReverseBytes32(number), Active: uint64(max(int32(s.Active), 0)), Flows: s.Flows, RTT: time.Duration(s.Rtt),
			SYNs: s.Syns, SYNRepeats: s.SynRepeats, Sent: s.Sent, Received: s.Received,
		})
	}
	return list, nil
}
