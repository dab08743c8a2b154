package openflow

import "baton/packet"

// Port describes a port (7.2.1).
type Port struct {
	No                                   PortNo
	MAC                                  packet.MAC
	Name                                 string // 15 bytes at most
	Config                               PortConfig
	State                                PortState
	Current, Advertised, Supported, Peer PortFeatures
	Speed, MaxSpeed                      uint32 // kbit/s
}

// PortStatus says that a port came, went or changed (7.4.3).
type PortStatus struct {
	Reason PortReason
	Port   Port
}

// PortMod changes a port (7.3.4.3): the bits of its configuration that are set in Mask.
type PortMod struct {
	Port         PortNo
	MAC          packet.MAC // as the port has it, as a check
	Config, Mask PortConfig
	Advertise    PortFeatures // 0: as it was
}

// Type implements [Message].
func (*PortStatus) Type() Type { return TypePortStatus }

// Type implements [Message].
func (*PortMod) Type() Type { return TypePortMod }

const (
	portSize     = 64
	portNameSize = 16
)

func (p Port) appendTo(b []byte) []byte {
	b = pad(wire.AppendUint32(b, uint32(p.No)), 4)
	b = appendText(pad(append(b, p.MAC[:]...), 2), p.Name, portNameSize)
	for _, v := range [...]uint32{
		uint32(p.Config), uint32(p.State), uint32(p.Current), uint32(p.Advertised), uint32(p.Supported), uint32(p.Peer),
		p.Speed, p.MaxSpeed,
	} {
		b = wire.AppendUint32(b, v)
	}
	return b
}

func decodePort(b []byte) Port {
	return Port{
		No:         PortNo(wire.Uint32(b)),
		MAC:        packet.MAC(b[8:14]),
		Name:       text(b[16:32]),
		Config:     PortConfig(wire.Uint32(b[32:])),
		State:      PortState(wire.Uint32(b[36:])),
		Current:    PortFeatures(wire.Uint32(b[40:])),
		Advertised: PortFeatures(wire.Uint32(b[44:])),
		Supported:  PortFeatures(wire.Uint32(b[48:])),
		Peer:       PortFeatures(wire.Uint32(b[52:])),
		Speed:      wire.Uint32(b[56:]),
		MaxSpeed:   wire.Uint32(b[60:]),
	}
}

func (m *PortStatus) appendBody(b []byte) []byte {
	return m.Port.appendTo(pad(append(b, byte(m.Reason)), 7))
}

func (m *PortMod) appendBody(b []byte) []byte {
	b = pad(wire.AppendUint32(b, uint32(m.Port)), 4)
	b = pad(append(b, m.MAC[:]...), 2)
	b = wire.AppendUint32(wire.AppendUint32(b, uint32(m.Config)), uint32(m.Mask))
	return pad(wire.AppendUint32(b, uint32(m.Advertise)), 4)
}

func decodePortMod(b []byte) *PortMod {
	return &PortMod{
		Port:      PortNo(wire.Uint32(b)),
		MAC:       packet.MAC(b[8:14]),
		Config:    PortConfig(wire.Uint32(b[16:])),
		Mask:      PortConfig(wire.Uint32(b[20:])),
		Advertise: PortFeatures(wire.Uint32(b[24:])),
	}
}
