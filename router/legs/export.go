package legs

// Ports allocates source ports between one local address and one surrogate, for others than legs. It is not safe for
// concurrent use.
type Ports struct{ ports *ports }

// NewPorts has all ports of a range free.
func NewPorts(r PortRange) *Ports { return &Ports{newPorts(r)} }

// Alloc returns the least recently used port. False: all are in use.
func (p *Ports) Alloc() (uint16, bool) { return p.ports.allocPort() }

// IsUnused reports whether all ports are free.
func (p *Ports) IsUnused() bool { return p.ports.left == p.ports.Size() }

// Claim marks a port as used.
func (p *Ports) Claim(port uint16) { p.ports.claimPort(port) }

// Free gives a port back.
func (p *Ports) Free(port uint16) { p.ports.freePort(port) }
