package purge

import (
	"errors"
	"fmt"
	"io"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// Purge tells of connections that this host's servers retransmit on and hear nothing of. Nothing of it is pinned: it goes with the process.
// On sockets stays a flag that nobody heeds.
//
// Its methods may be called at any time by any goroutine, but for SetPolicies and AttachCgroup, each by one at a time, and Close, which is
// the last. All are of the network namespace in which Load was called.
type Purge struct {
	objects    purgeObjects
	generation uint32
	tables     tables // in force
	stale      tables // of the other generation
	groups     map[string]*datapath.Cgroup
	hierarchy  datapath.Hierarchy
}

// Options make a Purge.
type Options struct {
	Marks   int  // room for so many that nobody has read, as far as memory is given for that: 16 MiB
	Orphans bool // connections are marked, too, that the application may have closed (FIN-WAIT-1, LAST-ACK, CLOSING)
}

// MaxCgroups is how many control groups a Purge may be attached to.
const MaxCgroups = int(purgeBoundMAX_GROUPS)

// Probe refuses a kernel or a user that the purge cannot work with, and says what is missing.
func Probe() error {
	err := datapath.Require([]datapath.Capability{
		{Bit: unix.CAP_PERFMON, Name: "CAP_PERFMON", Why: "to load programs that look into sockets"},
		{Bit: unix.CAP_NET_ADMIN, Name: "CAP_NET_ADMIN", Why: "to attach programs and to end connections"},
		{Bit: unix.CAP_BPF, Name: "CAP_BPF", Why: "to load programs and maps"},
	})
	if err != nil {
		return err
	}
	return datapath.RequireSockets()
}

// Load loads the programs. Nothing is attached yet. The caller closes the Purge.
func Load(o Options) (*Purge, error) {
	if o.Marks < 1 {
		return nil, fmt.Errorf("load the purge: %d marks: at least one", o.Marks)
	}
	if err := Probe(); err != nil {
		return nil, err
	}
	spec, err := loadPurge()
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	netns, err := datapath.OwnNetns()
	if err != nil {
		return nil, err
	}
	hertz, err := jiffiesPerSecond()
	if err != nil {
		return nil, err
	}
	err = datapath.SetConstants(spec, map[string]any{purgeVarOwnNetns: netns, purgeVarHertz: hertz, purgeVarOrphans: o.Orphans})
	if err != nil {
		return nil, err
	}
	spec.Maps[purgeMapMarks].MaxEntries = datapath.RingSize(o.Marks, int(unsafe.Sizeof(purgeMark{})), 64<<10, 16<<20)
	p := &Purge{groups: make(map[string]*datapath.Cgroup)}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("load the program: %w", err)
	}
	return p, nil
}

// jiffiesPerSecond is the rate of the kernel's coarse clock (CONFIG_HZ).
func jiffiesPerSecond() (uint32, error) {
	var tick unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &tick); err != nil {
		return 0, fmt.Errorf("ask for the length of a jiffy: %w", err)
	}
	if tick.Nano() <= 0 || tick.Nano() > int64(time.Second) {
		return 0, fmt.Errorf("ask for the length of a jiffy: %d ns", tick.Nano())
	}
	return uint32(int64(time.Second) / tick.Nano()), nil
}

// Arm has the connections of the control groups watched that were accepted before the programs or before the policies. It marks those that
// are silent already.
func (p *Purge) Arm() error {
	if err := iterate(p.objects.PurgeArm); err != nil {
		return fmt.Errorf("watch connections that are there: %w", err)
	}
	return nil
}

// iterate runs a program over all TCP sockets of the network namespace.
func iterate(program *ebpf.Program) error {
	l, err := link.AttachIter(link.IterOptions{Program: program})
	if err != nil {
		return err
	}
	defer l.Close()
	r, err := l.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// Verdicts are the names of what may become of a connection or a timeout in the kernel, in the order of enum verdict.
func Verdicts() []string { return verdictNames[:purgeVerdictVERDICTS] }

// Verdicts counts them, since Load.
func (p *Purge) Verdicts() (map[string]uint64, error) {
	return datapath.Verdicts(p.objects.Verdicts, Verdicts())
}

// Close detaches everything.
func (p *Purge) Close() error {
	return errors.Join(p.detachGroups(), p.objects.Close())
}
