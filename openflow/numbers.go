package openflow

import "strconv"

// PortNo is the number of a port (7.2.1).
type PortNo uint32

// The ports that are not a place of the switch (4.5, 7.2.1).
const (
	PortMax        PortNo = 0xffffff00
	PortInPort     PortNo = 0xfffffff8
	PortTable      PortNo = 0xfffffff9
	PortNormal     PortNo = 0xfffffffa
	PortFlood      PortNo = 0xfffffffb
	PortAll        PortNo = 0xfffffffc
	PortController PortNo = 0xfffffffd
	PortLocal      PortNo = 0xfffffffe
	PortAny        PortNo = 0xffffffff
)

var portNames = []valueName{
	{0xfffffff8, "IN_PORT"}, {0xfffffff9, "TABLE"}, {0xfffffffa, "NORMAL"}, {0xfffffffb, "FLOOD"}, {0xfffffffc, "ALL"},
	{0xfffffffd, "CONTROLLER"}, {0xfffffffe, "LOCAL"}, {0xffffffff, "ANY"},
}

func (p PortNo) String() string { return nameOf(portNames, uint32(p)) }

// GroupID is the number of a group (7.3.4.2).
type GroupID uint32

// The groups that are none (7.3.4.2).
const (
	GroupMax GroupID = 0xffffff00
	GroupAll GroupID = 0xfffffffc
	GroupAny GroupID = 0xffffffff
)

// MeterID is the number of a meter, from 1 on (7.3.4.4).
type MeterID uint32

// The meters that flow entries do not use (7.3.4.4).
const (
	MeterMax        MeterID = 0xffff0000
	MeterSlowpath   MeterID = 0xfffffffd
	MeterController MeterID = 0xfffffffe
	MeterAll        MeterID = 0xffffffff
)

// TableID is the number of a flow table.
type TableID uint8

// The largest table, and all of them (7.3.4.1).
const (
	TableMax TableID = 0xfe
	TableAll TableID = 0xff
)

func (t TableID) String() string {
	if t == TableAll {
		return "ALL"
	}
	return strconv.Itoa(int(t))
}

// Numbers that stand for none or all.
const (
	// NoBuffer is the buffer of a packet that is in the message itself (7.4.1).
	NoBuffer uint32 = 0xffffffff
	// QueueAll is every queue of a port (7.3.5.8).
	QueueAll uint32 = 0xffffffff
	// MaxLenMax is the longest prefix of a packet that can be asked for by its length, in bytes; MaxLenNoBuffer asks for all
	// of it (7.2.5).
	MaxLenMax      uint16 = 0xffe5
	MaxLenNoBuffer uint16 = 0xffff
	// VLANPresent is the bit of vlan_vid that says that there is a tag (7.2.3.7).
	VLANPresent = 0x1000
)

// DefaultPriority is the one that tools give a flow entry when nobody names one.
const DefaultPriority = 0x8000
