package relay

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"baton/datapath"
)

// Options are the settings of the relay's data path, fixed until Close.
type Options struct {
	// Mark is set on packets to other addresses that are for sockets of this host. 0: nothing is steered.
	Mark uint32
	// Table contains only the routes that deliver those packets here. Each relay in a network namespace needs its own.
	Table int
	// Early limits the reported SYNs that are not settled, and PerSource those of one client.
	Early, PerSource int
	// Expire is the age at which Sweep settles them.
	Expire time.Duration
	// Readers is the number of event readers: see Events. 0: one.
	Readers int
}

// Mark and table of a relay's steering, unless the host uses them otherwise.
const (
	Mark  = uint32(0x62610000)
	Table = 25186
)

// Relay is the relay's data path in the kernel. Nothing is pinned: it ends with the process, except for the rules and routes of steering,
// which the next Load with the same table replaces.
//
// Settle, Release, Refuse, Sweep, SetStart, TrunkCounts and Verdicts may be called concurrently, the other methods by one goroutine. All
// are for the network namespace in which Load was called.
type Relay struct {
	options    Options
	objects    relayObjects
	rings      []*ebpf.Map // of events, by reader
	generation uint32
	tables     tables // active
	stale      tables // of the inactive generation
	steering   *steering
	attached   map[int]*attachment
	trunks     trunkPlaces
	lookup     link.Link
	cgroup     link.Link
}

// attachment is the programs on an interface.
type attachment struct {
	name             string
	ingress, returns link.Link
}

// Needs is what the relay's programs need of a host.
var Needs = []datapath.Need{
	{Feature: datapath.Kernel},
	{Feature: datapath.CapPerfmon, For: "load programs that read sockets"}, // without it the verifier does not allow that
	{Feature: datapath.CapNetAdmin, For: "attach programs"},
	{Feature: datapath.CapBPF, For: "load programs and maps"},
	{Feature: datapath.BPF, For: "load programs"},
	{Feature: datapath.TCX, For: "attach programs to interfaces"},
	{Feature: datapath.JIT, For: "call back its programs"},
	{Feature: datapath.BTF, For: "read sockets"},
	{Feature: datapath.SockOps, For: "set the initial window of trunks"},
	{Feature: datapath.ProgramsOf("relay", loadRelay)},
}

// Load loads the programs without attaching them. The caller closes the Relay. The error is ErrInUse if another process uses the table for
// steering, or another thread of this one still has the descriptors of a closed Relay.
func Load(o Options) (_ *Relay, err error) {
	if o.Early < 1 || o.PerSource < 1 || o.Expire <= 0 {
		return nil, fmt.Errorf("load the relay: limits of %d early SYNs, %d per client, %v: must be positive", o.Early, o.PerSource, o.Expire)
	}
	if err := datapath.Require("relay", Needs); err != nil {
		return nil, err
	}
	o.Readers = max(1, o.Readers)
	r := &Relay{options: o, attached: make(map[int]*attachment)}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if err := r.load(); err != nil {
		return nil, err
	}
	r.trunks.init()
	if o.Mark != 0 {
		if r.steering, err = openSteering(o.Mark, o.Table); err != nil {
			return nil, err
		}
		if err := r.attachLookup(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Relay) load() error {
	spec, err := loadRelay()
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	netns, err := datapath.OwnNetns()
	if err != nil {
		return err
	}
	err = datapath.SetConstants(spec, map[string]any{
		relayVarSteerMark: r.options.Mark, relayVarPerSource: uint32(r.options.PerSource), relayVarOwnNetns: netns,
		relayVarReaders: uint32(r.options.Readers),
	})
	if err != nil {
		return err
	}
	spec.Maps[relayMapSyns].MaxEntries = uint32(r.options.Early)
	spec.Maps[relayMapSources].MaxEntries = uint32(r.options.Early)
	events := spec.Maps[relayMapEvents]
	events.MaxEntries = uint32(r.options.Readers)
	ring := events.InnerMap.Copy()
	if err := datapath.LoadObjects(spec, &r.objects, nil); err != nil {
		return err
	}
	return r.openRings(ring)
}

// openRings creates a ring for each reader.
func (r *Relay) openRings(spec *ebpf.MapSpec) error {
	events := min(r.options.Early, 2*r.options.Early/r.options.Readers) // hashes are not spread evenly
	spec.MaxEntries = datapath.RingSize(events, int(unsafe.Sizeof(relayHeldEvent{})), 64<<10, 8<<20)
	for reader := range uint32(r.options.Readers) {
		ring, err := ebpf.NewMap(spec)
		if err != nil {
			return fmt.Errorf("create a ring of events: %w", err)
		}
		r.rings = append(r.rings, ring)
		if err := r.objects.Events.Put(reader, ring); err != nil {
			return fmt.Errorf("store a ring of events: %w", err)
		}
	}
	return nil
}

// attachLookup attaches the socket lookup for steered packets to this network namespace.
func (r *Relay) attachLookup() error {
	netns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return fmt.Errorf("open the network namespace: %w", err)
	}
	defer netns.Close()
	l, err := link.AttachNetNs(int(netns.Fd()), r.objects.RelayLookup)
	if err != nil {
		return fmt.Errorf("attach to the network namespace: %w", err)
	}
	r.lookup = l
	return nil
}

// Attach attaches the program to the ingress of an interface towards clients, before other programs.
func (r *Relay) Attach(ifindex int) error {
	a, err := r.attachment(ifindex)
	if err != nil {
		return err
	}
	return r.attach(ifindex, r.objects.RelayIngress, &a.ingress)
}

// AttachReturn attaches to an interface towards servers that see clients' addresses: it steers their packets to the sockets with these
// addresses and the Mark (SO_MARK).
func (r *Relay) AttachReturn(ifindex int) error {
	if r.steering == nil {
		return fmt.Errorf("attach to interface %d: returning packets needs a mark", ifindex)
	}
	a, err := r.attachment(ifindex)
	if err != nil {
		return err
	}
	return r.attach(ifindex, r.objects.RelayReturn, &a.returns)
}

// attachment prepares an interface.
func (r *Relay) attachment(ifindex int) (*attachment, error) {
	if a := r.attached[ifindex]; a != nil {
		return a, nil
	}
	name, loopback, err := ethernet(ifindex)
	if err != nil {
		return nil, fmt.Errorf("attach to interface %d: %w", ifindex, err)
	}
	a := &attachment{name: name}
	if r.steering != nil && !loopback { // packets on lo are for this host anyway
		if err := r.steering.add(name); err != nil {
			return nil, fmt.Errorf("attach to %s: %w", name, err)
		}
	}
	r.attached[ifindex] = a
	return a, nil
}

func (r *Relay) attach(ifindex int, p *ebpf.Program, at *link.Link) error {
	if *at != nil {
		return nil
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: p, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
	if err != nil {
		return fmt.Errorf("attach to %s: %w", r.attached[ifindex].name, err)
	}
	*at = l
	return nil
}

// Detach detaches the programs of an interface, which may be gone.
func (r *Relay) Detach(ifindex int) error {
	a := r.attached[ifindex]
	if a == nil {
		return nil
	}
	delete(r.attached, ifindex)
	err := errors.Join(datapath.Detach(a.ingress), datapath.Detach(a.returns))
	if r.steering != nil {
		err = errors.Join(err, r.steering.remove(a.name))
	}
	return err
}

// Verdicts are the names of enum verdict, in order.
func Verdicts() []string { return verdictNames[:relayVerdictVERDICTS] }

// Verdicts counts packets by verdict, since Load.
func (r *Relay) Verdicts() (map[string]uint64, error) {
	return datapath.Verdicts(r.objects.Verdicts, Verdicts())
}

// Close detaches everything and leaves nothing behind.
func (r *Relay) Close() error {
	var errs []error
	for ifindex := range r.attached {
		errs = append(errs, r.Detach(ifindex))
	}
	errs = append(errs, datapath.Detach(r.cgroup), datapath.Detach(r.lookup))
	r.cgroup, r.lookup = nil, nil
	if r.steering != nil {
		errs = append(errs, r.steering.close())
		r.steering = nil
	}
	for _, ring := range r.rings {
		errs = append(errs, ring.Close())
	}
	r.rings = nil
	return errors.Join(append(errs, r.objects.Close())...)
}
