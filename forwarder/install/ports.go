package install

import (
	"errors"
	"fmt"
	"math/bits"

	kernel "baton/datapath/forwarder"
	"baton/openflow"
)

// Port is the kernel's view of a port.
type Port struct {
	Ifindex int // 0: no interface
	Config  openflow.PortConfig
	Live    bool
	NoFlood bool
	// Host: the port is the host's side of the interface. It never changes.
	Host bool
}

// portPlace returns a port's index. A missing port gets one, so that entries that name it work once it appears. If there are no more indices,
// it never works.
func (k *Kernel) portPlace(no openflow.PortNo) uint32 {
	if at, ok := k.ports[no]; ok {
		return at
	}
	if int(k.lastPlace)+1 >= len(k.f.Ports) {
		return 0
	}
	k.lastPlace++
	k.f.Ports[k.lastPlace].Number = bits.ReverseBytes32(uint32(no))
	k.ports[no] = k.lastPlace
	k.f.SetPorts(int(k.lastPlace))
	return k.lastPlace
}

// Begin attaches ports: the present ones now, later ones when they appear. Nothing is attached before, so that packets are not forwarded to
// ports that are not known yet.
func (k *Kernel) Begin() error {
	k.begun = true
	var errs []error
	for _, at := range k.ports {
		if ifindex := int(k.f.Ports[at].Ifindex); ifindex != 0 {
			errs = append(errs, k.f.Attach(ifindex, at))
		}
	}
	return errors.Join(errs...)
}

// SetPort updates a port, and attaches it if its interface exists.
func (k *Kernel) SetPort(no openflow.PortNo, p Port) error {
	at := k.portPlace(no)
	if at == 0 {
		return fmt.Errorf("install port %v: %w", no, errFull)
	}
	record := &k.f.Ports[at]
	flags := uint32(p.Config) & (kernel.PortDown | kernel.PortNoRecv | kernel.PortNoFwd | kernel.PortNoPacketIn)
	if p.NoFlood {
		flags |= kernel.PortNoFlood
	}
	if p.Host {
		flags |= kernel.PortHost
	}
	if p.Live {
		flags |= kernel.PortLive
	}
	if p.Ifindex != 0 {
		flags |= kernel.PortThere
	}
	before := int(record.Ifindex)
	record.Ifindex = uint32(p.Ifindex)
	record.Flags = flags
	k.watch()
	if before != 0 && before != p.Ifindex {
		if err := k.f.Detach(before); err != nil {
			return err
		}
	}
	if p.Ifindex == 0 || before == p.Ifindex || !k.begun {
		return nil
	}
	return k.f.Attach(p.Ifindex, at)
}
