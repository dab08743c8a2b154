package lab

import (
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"

	"baton/lab/emulator"
)

// emulatedQueue is the queue of an emulated link's ends (packets): the emulator takes what comes at once, and has a
// queue of its own where the link has a rate.
const emulatedQueue = 10_000

// emulatedLink is a link between two TAP devices that the lab's emulator holds.
type emulatedLink struct {
	lab    *Lab
	number int
}

func (o LinkOptions) emulated() bool {
	return o.Emulated || o.AtoB != (emulator.Shape{}) || o.BtoA != (emulator.Shape{})
}

func emulate(a, b End, o LinkOptions) (*emulatedLink, error) {
	if err := validate(o.AtoB, o.BtoA); err != nil {
		return nil, err
	}
	if o.Queues > 1 {
		return nil, errors.New("an emulated link has one queue")
	}
	l := a.Host.lab
	e, err := l.startEmulator()
	if err != nil {
		return nil, err
	}
	port := func(e End) emulator.Port {
		return emulator.Port{Netns: netnsDir + "/" + e.Host.netns, Name: e.Name, Offloads: !o.NoOffloads}
	}
	number, err := e.Add([2]emulator.Port{port(a), port(b)}, [2]emulator.Shape{o.AtoB, o.BtoA})
	if err != nil {
		return nil, err
	}
	length := emulatedQueue
	if o.TxQueueLen > 0 {
		length = o.TxQueueLen
	}
	for _, end := range []End{a, b} {
		device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: end.Name}}
		if err := end.Host.nl.LinkSetTxQLen(device, length); err != nil {
			return nil, fmt.Errorf("set queue length of %s: %w", end.Name, err)
		}
	}
	return &emulatedLink{l, number}, nil
}

func validate(aToB, bToA emulator.Shape) error {
	if err := aToB.Validate(); err != nil {
		return fmt.Errorf("a to b: %w", err)
	}
	if err := bToA.Validate(); err != nil {
		return fmt.Errorf("b to a: %w", err)
	}
	return nil
}

// startEmulator starts the lab's link emulator, once.
func (l *Lab) startEmulator() (*emulator.Emulator, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.emulator != nil {
		return l.emulator, nil
	}
	cmd, e, err := emulator.Command()
	if err != nil {
		return nil, err
	}
	log := &logBuffer{}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	l.spawn.do(func() { err = cmd.Start() })
	e.Started()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the link emulator: %w", err), e.Close())
	}
	l.emulator = e
	l.closers = append(l.closers, sync.OnceFunc(func() { stopEmulator(l, e, cmd, log) }))
	return e, nil
}

func stopEmulator(l *Lab, e *emulator.Emulator, cmd *exec.Cmd, log *logBuffer) {
	if err := e.Close(); err != nil {
		l.t.Errorf("lab: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		l.t.Errorf("lab: the link emulator: %v\n%s", err, log)
	}
}

// Set changes what an emulated link does in each direction. Packets in flight are not affected.
func (k *Link) Set(aToB, bToA emulator.Shape) {
	t := k.A.Host.lab.t
	t.Helper()
	err := validate(aToB, bToA)
	if err == nil {
		err = k.control(func(e *emulator.Emulator, n int) error { return e.Set(n, [2]emulator.Shape{aToB, bToA}) })
	}
	if err != nil {
		t.Fatalf("lab: set link %s: %v", k, err)
	}
}

// Down pulls the cable of an emulated link: what is on it is lost and both ends lose their carrier. Addresses and
// routes stay, as SetDown of an interface would not leave them.
func (k *Link) Down() { k.carrier(false) }

// Up plugs the cable in again.
func (k *Link) Up() { k.carrier(true) }

func (k *Link) carrier(up bool) {
	t := k.A.Host.lab.t
	t.Helper()
	err := k.control(func(e *emulator.Emulator, n int) error { return e.Carrier(n, up) })
	if err != nil {
		t.Fatalf("lab: carrier of link %s: %v", k, err)
	}
}

// Counts returns what has happened so far to packets on an emulated link, in both directions.
func (k *Link) Counts() (aToB, bToA emulator.Counts) {
	t := k.A.Host.lab.t
	t.Helper()
	var counts [2]emulator.Counts
	err := k.control(func(e *emulator.Emulator, n int) (err error) {
		counts, err = e.Counts(n)
		return err
	})
	for i, end := range []*Interface{k.A, k.B} {
		if err != nil {
			break
		}
		// Frames that the device dropped before the emulator could take them.
		var found netlink.Link
		if found, err = end.Host.nl.LinkByName(end.Name); err == nil {
			counts[i].Overrun += int64(found.Attrs().Statistics.TxDropped)
		}
	}
	if err != nil {
		t.Fatalf("lab: counts of link %s: %v", k, err)
	}
	return counts[0], counts[1]
}

func (k *Link) control(f func(e *emulator.Emulator, number int) error) error {
	if k.emulated == nil {
		return errors.New("it is a veth pair; LinkOptions.Emulated would make it an emulated link")
	}
	return f(k.emulated.lab.emulator, k.emulated.number)
}

// String names the link by its ends.
func (k *Link) String() string {
	return fmt.Sprintf("%s.%s-%s.%s", k.A.Host.name, k.A.Name, k.B.Host.name, k.B.Name)
}
