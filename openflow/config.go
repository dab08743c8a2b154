package openflow

// FeaturesRequest asks a switch who it is and what it can do (7.3.1).
type FeaturesRequest struct{}

// FeaturesReply answers it (7.3.1).
type FeaturesReply struct {
	DatapathID   uint64
	Buffers      uint32 // how many packets the switch can keep
	Tables       uint8
	Auxiliary    uint8 // the number of this connection, 0 for the main one
	Capabilities Capabilities
	Reserved     uint32
}

// GetConfigRequest asks for the configuration (7.3.2).
type GetConfigRequest struct{}

// Config is the configuration of a switch (7.3.2).
type Config struct {
	Flags ConfigFlags
	// MissSendLen is how much of a packet goes to a controller where no action says it, in bytes.
	MissSendLen uint16
}

// GetConfigReply answers GetConfigRequest (7.3.2).
type GetConfigReply struct{ Config }

// SetConfig changes the configuration (7.3.2).
type SetConfig struct{ Config }

// BarrierRequest asks that all before it be done before anything behind it is begun (7.3.8).
type BarrierRequest struct{}

// BarrierReply says that all before the request is done (7.3.8).
type BarrierReply struct{}

// RoleRequest asks for a role (7.3.9). The generation counts the changes of master, modulo 2^64.
type RoleRequest struct {
	Role       Role
	Generation uint64
}

// RoleReply tells the role (7.3.9).
type RoleReply struct {
	Role       Role
	Generation uint64
}

// Async is which asynchronous messages a controller gets, by their reasons as bits (7.3.10). The first word is for the roles
// master and equal, the second for slave.
type Async struct{ PacketIn, PortStatus, FlowRemoved [2]uint32 }

// GetAsyncRequest asks for them (7.3.10).
type GetAsyncRequest struct{}

// GetAsyncReply answers it (7.3.10).
type GetAsyncReply struct{ Async }

// SetAsync changes them (7.3.10).
type SetAsync struct{ Async }

// Type implements [Message], as the methods below do.
func (*FeaturesRequest) Type() Type  { return TypeFeaturesRequest }
func (*FeaturesReply) Type() Type    { return TypeFeaturesReply }
func (*GetConfigRequest) Type() Type { return TypeGetConfigRequest }
func (*GetConfigReply) Type() Type   { return TypeGetConfigReply }
func (*SetConfig) Type() Type        { return TypeSetConfig }
func (*BarrierRequest) Type() Type   { return TypeBarrierRequest }
func (*BarrierReply) Type() Type     { return TypeBarrierReply }
func (*RoleRequest) Type() Type      { return TypeRoleRequest }
func (*RoleReply) Type() Type        { return TypeRoleReply }
func (*GetAsyncRequest) Type() Type  { return TypeGetAsyncRequest }
func (*GetAsyncReply) Type() Type    { return TypeGetAsyncReply }
func (*SetAsync) Type() Type         { return TypeSetAsync }

func (*FeaturesRequest) appendBody(b []byte) []byte  { return b }
func (*GetConfigRequest) appendBody(b []byte) []byte { return b }
func (m *GetConfigReply) appendBody(b []byte) []byte { return m.Config.appendTo(b) }
func (m *SetConfig) appendBody(b []byte) []byte      { return m.Config.appendTo(b) }
func (*BarrierRequest) appendBody(b []byte) []byte   { return b }
func (*BarrierReply) appendBody(b []byte) []byte     { return b }
func (*GetAsyncRequest) appendBody(b []byte) []byte  { return b }
func (m *GetAsyncReply) appendBody(b []byte) []byte  { return m.Async.appendTo(b) }
func (m *SetAsync) appendBody(b []byte) []byte       { return m.Async.appendTo(b) }

func (m *FeaturesReply) appendBody(b []byte) []byte {
	b = wire.AppendUint64(b, m.DatapathID)
	b = wire.AppendUint32(b, m.Buffers)
	b = pad(append(b, m.Tables, m.Auxiliary), 2)
	return wire.AppendUint32(wire.AppendUint32(b, uint32(m.Capabilities)), m.Reserved)
}

func decodeFeaturesReply(b []byte) *FeaturesReply {
	return &FeaturesReply{
		DatapathID:   wire.Uint64(b),
		Buffers:      wire.Uint32(b[8:]),
		Tables:       b[12],
		Auxiliary:    b[13],
		Capabilities: Capabilities(wire.Uint32(b[16:])),
		Reserved:     wire.Uint32(b[20:]),
	}
}

func (c Config) appendTo(b []byte) []byte {
	return wire.AppendUint16(wire.AppendUint16(b, uint16(c.Flags)), c.MissSendLen)
}

func decodeConfig(b []byte) Config { return Config{ConfigFlags(wire.Uint16(b)), wire.Uint16(b[2:])} }

func (m *RoleRequest) appendBody(b []byte) []byte { return appendRole(b, m.Role, m.Generation) }
func (m *RoleReply) appendBody(b []byte) []byte   { return appendRole(b, m.Role, m.Generation) }

func appendRole(b []byte, r Role, generation uint64) []byte {
	return wire.AppendUint64(pad(wire.AppendUint32(b, uint32(r)), 4), generation)
}

func (a Async) appendTo(b []byte) []byte {
	for _, masks := range [...][2]uint32{a.PacketIn, a.PortStatus, a.FlowRemoved} {
		b = wire.AppendUint32(wire.AppendUint32(b, masks[0]), masks[1])
	}
	return b
}

func decodeAsync(b []byte) Async {
	masks := func(at int) [2]uint32 { return [2]uint32{wire.Uint32(b[at:]), wire.Uint32(b[at+4:])} }
	return Async{PacketIn: masks(0), PortStatus: masks(8), FlowRemoved: masks(16)}
}
