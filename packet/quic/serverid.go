package quic

import (
	"errors"
	"fmt"
)

// MaxServerID is how long a server id may be, in bytes.
const MaxServerID = 16

// ServerID is what a server writes into its connection ids so that packets find it whatever address they come from. Ids of another
// length are other ids.
type ServerID struct {
	bytes  [MaxServerID]byte // the last ones count, zeros before them
	length uint8
}

// MakeServerID gives the id of these bytes, most significant first, of which there are 1 to MaxServerID.
func MakeServerID(b []byte) (ServerID, error) {
	if len(b) == 0 || len(b) > MaxServerID {
		return ServerID{}, fmt.Errorf("server id has %d bytes, not 1 to %d", len(b), MaxServerID)
	}
	id := ServerID{length: uint8(len(b))}
	copy(id.bytes[MaxServerID-len(b):], b)
	return id, nil
}

func (id ServerID) String() string { return fmt.Sprintf("%x", id.bytes[MaxServerID-int(id.length):]) }

// Layout says where servers write their id into connection ids that they choose. It is not for the ids that clients choose: those
// are random, and may seem to be of any layout. So never ask it about the destination of an Initial or 0-RTT packet.
type Layout struct {
	// Mask and Value tell connection ids of this layout from others: the bits of Mask in the first byte are those of Value.
	Mask, Value byte
	Offset      int // of the server id in the connection id, in bits
	Length      int // of the server id, in bits; a rest of a byte is at its front
	Total       int // of the whole connection id, in bytes; 0: any
}

// Bytes is the layout of a server id of that many bytes, behind offset others.
func Bytes(offset, length int) Layout { return Layout{Offset: 8 * offset, Length: 8 * length} }

// QUICLB is the plaintext form of draft-ietf-quic-load-balancers: in the first byte three bits of the configuration's rotation, then the server
// id, then a nonce. Rotation 7 is of servers that have no configuration: it is refused.
func QUICLB(rotation, length int) (Layout, error) {
	if rotation < 0 || rotation > 6 {
		return Layout{}, fmt.Errorf("config rotation is %d, not 0 to 6", rotation)
	}
	l := Bytes(1, length)
	l.Mask, l.Value = 0xe0, byte(rotation)<<5
	return l, l.Check()
}

// AWS is the layout that AWS' Network Load Balancer asks of its targets: QUIC-LB's with a server id of 8 bytes, in 16 altogether.
// The length is of moq-dev/moq#848, measured there.
func AWS() Layout {
	l := Bytes(1, 8)
	l.Total = 16
	return l
}

// Mvfst is the layout of mvfst and katran: two bits of its version, 1 to 3, and the host's id of 16, 24 or 32 bits.
func Mvfst(version int) (Layout, error) {
	l := Layout{Mask: 0xc0, Value: byte(version) << 6}
	switch version {
	case 1:
		l.Offset, l.Length = 2, 16
	case 2:
		l.Offset, l.Length = 8, 24
	case 3:
		l.Offset, l.Length = 8, 32
	default:
		return Layout{}, fmt.Errorf("version of mvfst connection ids is %d, not 1 to 3", version)
	}
	return l, nil
}

// Check tells what is wrong with a layout.
func (l Layout) Check() error {
	switch {
	case l.Length < 1 || l.Length > 8*MaxServerID:
		return fmt.Errorf("server id has %d bits, not 1 to %d", l.Length, 8*MaxServerID)
	case l.Offset < 0 || l.Offset > 8*MaxID || l.reach() > MaxID:
		return fmt.Errorf("server id ends behind byte %d of the connection id", MaxID)
	case l.Total != 0 && (l.Total < l.reach() || l.Total > MaxID):
		return fmt.Errorf("connection id of %d bytes does not hold the server id, or is longer than %d", l.Total, MaxID)
	case l.Value&^l.Mask != 0:
		return errors.New("value of the first byte has bits outside of its mask")
	}
	return nil
}

// reach is how many bytes of a connection id are read.
func (l Layout) reach() int { return (l.Offset + l.Length + 7) / 8 }

// Server reads the server id out of a connection id of a long header.
func (l Layout) Server(id []byte) (ServerID, bool) {
	if l.Total != 0 && len(id) != l.Total {
		return ServerID{}, false
	}
	return l.read(id)
}

// ShortServer reads the server id out of a packet with a short header, whose connection id has no length.
func (l Layout) ShortServer(p *Packet) (ServerID, bool) {
	id, ok := p.ShortID(max(l.Total, l.reach()))
	if !ok {
		return ServerID{}, false
	}
	return l.read(id)
}

func (l Layout) read(id []byte) (ServerID, bool) {
	if l.Check() != nil || len(id) < l.reach() || id[0]&l.Mask != l.Value {
		return ServerID{}, false
	}
	out := ServerID{length: uint8((l.Length + 7) / 8)}
	// From the last bit to the first, as a rest of a byte is at the front.
	for i := range l.Length {
		from, to := l.Offset+l.Length-1-i, 8*MaxServerID-1-i
		bit := id[from/8] >> (7 - from%8) & 1
		out.bytes[to/8] |= bit << (7 - to%8)
	}
	return out, true
}

// Directory finds who answers to a connection id, by the layouts in the order in which they were first added.
type Directory[T any] struct {
	layouts []Layout
	servers map[Layout]map[ServerID]T
}

// Add says who has the server id in that layout. An id that is there already is refused.
func (d *Directory[T]) Add(l Layout, id ServerID, who T) error {
	if err := l.Check(); err != nil {
		return err
	}
	if want := (l.Length + 7) / 8; int(id.length) != want {
		return fmt.Errorf("server id %v has %d bytes, the layout %d", id, id.length, want)
	}
	if extra := l.Length % 8; extra != 0 && id.bytes[MaxServerID-int(id.length)]>>extra != 0 {
		return fmt.Errorf("server id %v has more than %d bits", id, l.Length)
	}
	servers, ok := d.servers[l]
	if !ok {
		if d.servers == nil {
			d.servers = make(map[Layout]map[ServerID]T)
		}
		servers = make(map[ServerID]T)
		d.servers[l] = servers
		d.layouts = append(d.layouts, l)
	}
	if _, taken := servers[id]; taken {
		return fmt.Errorf("server id %v is there twice", id)
	}
	servers[id] = who
	return nil
}

// Find tells who has the packet's destination. A packet whose destination may be a client's choice is nobody's.
func (d *Directory[T]) Find(p *Packet) (who T, ok bool) {
	for _, l := range d.layouts {
		var id ServerID
		switch p.Kind {
		case Handshake:
			id, ok = l.Server(p.Destination)
		case Short:
			id, ok = l.ShortServer(p)
		default:
			return who, false
		}
		if !ok {
			continue
		}
		if who, ok = d.servers[l][id]; ok {
			return who, true
		}
	}
	return who, false
}
