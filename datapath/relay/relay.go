package relay

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// Options size the relay's data path. They are fixed until Close.
type Options struct {
	// Mark is that of packets which are for sockets of this host, though they are sent to other addresses. 0: nothing is steered.
	Mark uint32
	// Table has the routes that deliver those packets here, and nothing else. One for each relay of a network namespace.
	Table int
	// Early is how many SYNs may be told of and not settled, at one time; PerSource, of one client.
	Early, PerSource int
	// Expire is when Sweep settles them.
	Expire time.Duration
	// Readers is how many there are of events: see Events. 0: one.
	Readers int
}

// What a relay steers with, unless another one of the host does.
const (
	Mark  = uint32(0x62610000)
	Table = 25186
)

// Relay is the relay's data path in the kernel. Nothing of it is pinned: it goes with the process, but for the rules and routes of
// steering, which the next Load with the same table replaces.
//
// Taken, Release, Refuse, Sweep, SetStart, TrunkCounts and Verdicts may be called at any time by any goroutine, the others by one. All are
// of the network namespace in which Load was called.
type Relay struct {
	options    Options
	objects    relayObjects
	rings      []*ebpf.Map // of events, by their readers' numbers
	generation uint32
	tables     tables // in force
	stale      tables // of the other generation
	steering   *steering
	attached   map[int]*attachment
	trunks     trunkPlaces
	lookup     link.Link
	cgroup     link.Link
}

// attachment is what is on an interface.
type attachment struct {
	name             string
	ingress, returns link.Link
}

// Probe refuses a kernel or a user that the relay's data path cannot work with, and says what is missing.
func Probe() error {
	// Without it the verifier does not let a program look into sockets.
	perfmon := datapath.Capability{Bit: unix.CAP_PERFMON, Name: "CAP_PERFMON", Why: "to load programs that look into sockets"}
	if err := datapath.Require(append([]datapath.Capability{perfmon}, datapath.Needed...)); err != nil {
		return err
	}
	return datapath.RequireSockets()
}

// Load loads the programs. Nothing is attached yet. The caller closes the Relay. It fails with ErrInUse when another process
// steers with the table, or another thread of this one still has the descriptors of a Relay that was closed.
func Load(o Options) (_ *Relay, err error) {
	if o.Early < 1 || o.PerSource < 1 || o.Expire <= 0 {
		return nil, fmt.Errorf("load the relay: %d early SYNs, %d of a client, for %v: at least one of each", o.Early, o.PerSource, o.Expire)
	}
	if err := Probe(); err != nil {
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
	if err := spec.LoadAndAssign(&r.objects, nil); err != nil {
		return fmt.Errorf("load the program: %w", err)
	}
	return r.openRings(ring)
}

// openRings gives each reader the ring that its events come by.
func (r *Relay) openRings(spec *ebpf.MapSpec) error {
	events := min(r.options.Early, 2*r.options.Early/r.options.Readers) // hashes do not spread evenly
	spec.MaxEntries = datapath.RingSize(events, int(unsafe.Sizeof(relayHeldEvent{})), 64<<10, 8<<20)
	for reader := range uint32(r.options.Readers) {
		ring, err := ebpf.NewMap(spec)
		if err != nil {
			return fmt.Errorf("create a ring of events: %w", err)
		}
		r.rings = append(r.rings, ring)
		if err := r.objects.Events.Put(reader, ring); err != nil {
			return fmt.Errorf("put a ring of events in its place: %w", err)
		}
	}
	return nil
}

// attachLookup has the stack of this network namespace ask for the listeners of steered packets.
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

// Attach puts the program at the ingress of an interface that clients are behind, in front of others.
func (r *Relay) Attach(ifindex int) error {
	a, err := r.attachment(ifindex)
	if err != nil {
		return err
	}
	return r.attach(ifindex, r.objects.RelayIngress, &a.ingress)
}

// AttachReturn does the same to an interface behind which servers are that see clients' addresses: what they send is given to the sockets
// with these addresses that have the Mark (SO_MARK).
func (r *Relay) AttachReturn(ifindex int) error {
	if r.steering == nil {
		return fmt.Errorf("attach to interface %d: the relay was loaded without a mark", ifindex)
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
	if r.steering != nil && !loopback { // what comes by lo is for this host anyway
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

// Detach takes the programs off an interface, which may have gone.
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

// Verdicts are the names of what may become of a packet, in the order of enum verdict.
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
