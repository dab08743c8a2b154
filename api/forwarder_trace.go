package api

// ForwarderTraceRequest asks for the trace of a packet.
type ForwarderTraceRequest struct {
	Datapath string `json:"datapath,omitempty"` // name of one of several
	InPort   string `json:"in_port"`            // number, LOCAL, or the interface's name
	Frame    []byte `json:"frame"`              // from the Ethernet header on, VLAN tags included
}

// ForwarderTrace is a packet's path through an OpenFlow switch in its present state. It is a simulation: nothing is sent or counted.
type ForwarderTrace struct {
	Steps   []ForwarderTraceStep   `json:"steps"` // in order
	Sent    []ForwarderTraceSent   `json:"sent"`
	Upcalls []ForwarderTraceUpcall `json:"upcalls"` // to the controllers
	// Bridged: it also goes to the learning bridge (port NORMAL), whose decision is not traced.
	Bridged bool `json:"bridged,omitempty"`
	// Stack is the frame that the host's stack gets by NORMAL, if any.
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
	Maybe     bool   `json:"maybe,omitempty"` // if a select group selects this bucket for the flow
}

// ForwarderTraceUpcall is a packet that goes to the controllers.
type ForwarderTraceUpcall struct {
	Reason string `json:"reason"`
	Table  int    `json:"table"`
	Bytes  int    `json:"bytes"` // sent to them
	Frame  []byte `json:"frame"`
	Maybe  bool   `json:"maybe,omitempty"`
}
