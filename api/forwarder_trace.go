package api

// ForwarderTraceRequest asks why a packet goes where it goes.
type ForwarderTraceRequest struct {
	InPort string `json:"in_port"` // number, LOCAL, or the interface's name
	Frame  []byte `json:"frame"`   // from the Ethernet header on, VLAN tags included
}

// ForwarderTrace is the way of a packet through an OpenFlow switch as it is now. The packet itself does not pass: nothing is sent or counted.
type ForwarderTrace struct {
	Steps  []ForwarderTraceStep   `json:"steps"` // in order
	Sent   []ForwarderTraceSent   `json:"sent"`
	Upcall []ForwarderTraceUpcall `json:"upcall"` // to the controllers
	// Bridged: it also goes where a learning bridge sends it (port NORMAL), which is not looked at.
	Bridged bool `json:"bridged,omitempty"`
	// Stack is what the host's stack has (port NORMAL, where the forwarder leaves it that), if anything.
	Stack []byte `json:"stack,omitempty"`
}

// ForwarderTraceStep is a line of a ForwarderTrace.
type ForwarderTraceStep struct {
	Depth int    `json:"depth"` // for indentation
	Text  string `json:"text"`
}

// ForwarderTraceSent is a frame that leaves.
type ForwarderTraceSent struct {
	Port      string `json:"port"`
	Interface string `json:"interface"`
	Frame     []byte `json:"frame"`
	Maybe     bool   `json:"maybe,omitempty"` // if a select group chooses this bucket for the flow
}

// ForwarderTraceUpcall is a frame that goes to the controllers.
type ForwarderTraceUpcall struct {
	Reason string `json:"reason"`
	Table  int    `json:"table"`
	Bytes  int    `json:"bytes"` // of it that they get
	Frame  []byte `json:"frame"`
	Maybe  bool   `json:"maybe,omitempty"`
}
