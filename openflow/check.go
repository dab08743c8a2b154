package openflow

// Check returns the [*Fault] that every 1.3 switch answers m with, whatever it supports and contains: for an unknown type, command, flag or
// field, a value out of range, or a missing prerequisite. It does not check what depends on the switch: whether a table, port, group, meter or
// flow entry exists, and whether there is space. For parts that [Decode] left as unknown it gives the matching code. A switch with more
// features than this package must check those first.
func Check(m Message) error {
	// Compare first: an interface that holds a nil *Fault is not nil.
	if f := check(m); f != nil {
		return f
	}
	return nil
}

func check(m Message) *Fault {
	switch m := m.(type) {
	case *Hello, *Error, *EchoRequest, *EchoReply, *FeaturesRequest, *GetConfigRequest, *BarrierRequest, *GetAsyncRequest,
		*SetAsync, *SetPacketInFormat, *SetControllerID, *BundleControl, *BundleAdd:
		return nil
	case *Experimenter:
		return checkExperimenter(m)
	case *SetConfig:
		if m.Flags > FragMask {
			return fault(SwitchConfigFailedBadFlags, "7.3.2", "flags %#x", uint16(m.Flags))
		}
	case *PacketOut:
		return checkPacketOut(m)
	case *FlowMod:
		return checkFlowMod(m)
	case *GroupMod:
		return checkGroupMod(m)
	case *MeterMod:
		return checkMeterMod(m)
	case *PortMod:
		return checkPortMod(m)
	case *TableMod:
		if m.Config&^3 != 0 { // deprecated bits
			return fault(TableModFailedBadConfig, "7.3.3", "config %#x", m.Config)
		}
	case *QueueGetConfigRequest:
		if m.Port > PortMax && m.Port != PortAny {
			return fault(QueueOpFailedBadPort, "7.3.6", "queues of port %v", m.Port)
		}
	case *RoleRequest:
		if m.Role > RoleSlave {
			return fault(RoleRequestFailedBadRole, "7.3.9", "role %v", m.Role)
		}
	case *MultipartRequest:
		return checkMultipart(m)
	default:
		return fault(BadRequestBadType, "7.1.1", "%v is not a message to a switch", m.Type())
	}
	return nil
}

func checkExperimenter(m *Experimenter) *Fault {
	if m.ID == NiciraExperimenter || m.ID == ONFExperimenter {
		return fault(BadRequestBadExpType, "7.5.4", "type %d of experimenter %#x", m.Kind, m.ID)
	}
	return fault(BadRequestBadExperimenter, "7.5.4", "experimenter %#x", m.ID)
}

func checkMultipart(m *MultipartRequest) *Fault {
	switch b := m.Body.(type) {
	case FlowStatsRequest:
		return b.Match.check()
	case AggregateRequest:
		return b.Match.check()
	case MultipartExperimenterBody:
		return fault(BadRequestBadExperimenter, "7.3.5.15", "experimenter %#x", b.Experimenter)
	case MultipartUnknown:
		return fault(BadRequestBadMultipart, "7.3.5", "multipart of type %v", b.Kind)
	case TableFeaturesBody:
		for _, f := range b {
			for _, p := range f.Properties {
				if p.Kind.kind() == propData {
					return fault(TableFeaturesFailedBadType, "7.3.5.5.2", "property of type %v", p.Kind)
				}
			}
		}
	}
	return nil
}

// shortestFrame is an Ethernet header, in bytes.
const shortestFrame = 14

func checkPacketOut(m *PacketOut) *Fault {
	switch p := m.InPort; {
	case p == PortController, p == PortLocal:
	case p == PortAny: // no port: accepted by Open vSwitch, and sent by controllers
	case p == 0, p > PortMax:
		return fault(BadRequestBadPort, "7.3.7", "packet from port %v", m.InPort)
	}
	if m.Buffer == NoBuffer && len(m.Data) < shortestFrame {
		return fault(BadRequestBadPacket, "7.3.7", "packet of %d bytes", len(m.Data))
	}
	return checkActions(m.Actions, packetOutList)
}

const flowFlags = FlowSendFlowRem | FlowCheckOverlap | FlowResetCounts | FlowNoPktCounts | FlowNoBytCounts

func checkFlowMod(m *FlowMod) *Fault {
	if m.Command > FlowDeleteStrict {
		return fault(FlowModFailedBadCommand, "7.3.4.1", "command %v", m.Command)
	}
	if m.Flags&^flowFlags != 0 {
		return fault(FlowModFailedBadFlags, "7.3.4.1", "flags %v", m.Flags)
	}
	if f := m.Match.check(); f != nil {
		return f
	}
	if m.Command == FlowDelete || m.Command == FlowDeleteStrict {
		return nil // instructions of a deletion are ignored
	}
	if m.Table == TableAll {
		return fault(FlowModFailedBadTableID, "7.3.4.1", "%v in all tables", m.Command)
	}
	return checkInstructions(m.Table, m.Instructions)
}

func checkInstructions(table TableID, list []Instruction) *Fault {
	var seen uint32
	for _, i := range list {
		if t := i.Type(); t < 32 {
			if seen&(1<<t) != 0 {
				return fault(BadInstructionUnsupInst, "5.9", "%v twice", t)
			}
			seen |= 1 << t
		}
		if f := checkInstruction(table, i); f != nil {
			return f
		}
	}
	return checkEnd(list)
}

func checkInstruction(table TableID, i Instruction) *Fault {
	switch i := i.(type) {
	case InstructionGotoTable:
		if i.Table <= table || i.Table > TableMax {
			return fault(BadInstructionBadTableID, "7.2.4", "from table %v to table %v", table, i.Table)
		}
	case InstructionWriteActions:
		return checkActions(i.Actions, writeList)
	case InstructionApplyActions:
		return checkActions(i.Actions, applyList)
	case InstructionMeter:
		if i.Meter == 0 || i.Meter > MeterMax {
			return fault(MeterModFailedInvalidMeter, "7.2.4", "meter %#x", uint32(i.Meter))
		}
	case InstructionExperimenter:
		return fault(BadInstructionBadExperimenter, "7.2.4", "experimenter %#x", i.Experimenter)
	case InstructionUnknown:
		return fault(BadInstructionUnknownInst, "7.2.4", "instruction of type %v", i.Kind)
	}
	return nil
}

func checkGroupMod(m *GroupMod) *Fault {
	if m.Command > GroupDelete {
		return fault(GroupModFailedBadCommand, "7.3.4.2", "command %v", m.Command)
	}
	if m.Group > GroupMax && (m.Command != GroupDelete || m.Group != GroupAll) {
		return fault(GroupModFailedInvalidGroup, "7.3.4.2", "group %#x", uint32(m.Group))
	}
	if m.Command == GroupDelete {
		return nil
	}
	if m.Kind > GroupTypeFF {
		return fault(GroupModFailedBadType, "7.3.4.2", "type %v", m.Kind)
	}
	if m.Kind == GroupTypeIndirect && len(m.Buckets) != 1 {
		return fault(GroupModFailedInvalidGroup, "5.6.1", "indirect group with %d buckets", len(m.Buckets))
	}
	for _, b := range m.Buckets {
		if m.Kind == GroupTypeFF && b.WatchPort == PortAny && b.WatchGroup == GroupAny {
			return fault(GroupModFailedBadWatch, "5.6.1", "bucket of a fast failover group that watches nothing")
		}
		if f := checkActions(b.Actions, bucketList); f != nil {
			return f
		}
	}
	return nil
}

const meterFlags = MeterFlagKbps | MeterFlagPktps | MeterFlagBurst | MeterFlagStats

func checkMeterMod(m *MeterMod) *Fault {
	if m.Command > MeterDelete {
		return fault(MeterModFailedBadCommand, "7.3.4.4", "command %v", m.Command)
	}
	if m.Meter == 0 || m.Meter > MeterMax && m.Meter < MeterSlowpath || m.Meter == MeterAll && m.Command != MeterDelete {
		return fault(MeterModFailedInvalidMeter, "7.3.4.4", "meter %#x", uint32(m.Meter))
	}
	if m.Command == MeterDelete {
		return nil
	}
	if m.Flags&^meterFlags != 0 || m.Flags&(MeterFlagKbps|MeterFlagPktps) == MeterFlagKbps|MeterFlagPktps {
		return fault(MeterModFailedBadFlags, "7.3.4.4", "flags %v", m.Flags)
	}
	for _, b := range m.Bands {
		if b.Kind != BandDrop && b.Kind != BandDSCPRemark {
			return fault(MeterModFailedBadBand, "7.3.4.4", "band of type %v", b.Kind)
		}
	}
	return nil
}

const portConfig = PortConfigPortDown | PortConfigNoRecv | PortConfigNoFwd | PortConfigNoPacketIn

func checkPortMod(m *PortMod) *Fault {
	if m.Port == 0 || m.Port > PortMax && m.Port != PortLocal {
		return fault(PortModFailedBadPort, "7.3.4.3", "port %v", m.Port)
	}
	if m.Mask&^portConfig != 0 {
		return fault(PortModFailedBadConfig, "7.3.4.3", "mask %v", m.Mask)
	}
	return nil
}
