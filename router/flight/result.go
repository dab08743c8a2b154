package flight

import "baton/packet/quic"

// Outcome is what became of a datagram.
type Outcome uint8

// The outcomes.
const (
	More    Outcome = iota // the hello is not whole: the datagram is held, or there is no need of it
	Hello                  // the hello is whole
	Refused                // see the Reason
)

var outcomeNames = [...]string{"more", "hello", "refused"}

func (o Outcome) String() string { return outcomeNames[o] }

// Reason is why a datagram was refused.
type Reason uint8

// The reasons. Of those marked with an asterisk the whole flight is forgotten, else the datagram alone.
const (
	None           Reason = iota
	Malformed             // * not QUIC, or not what a client's first flight may have
	UnknownVersion        // only the ids can be read: the server answers by Version Negotiation
	Unexpected            // no packet with which a client begins
	Small                 // an Initial in less than 1,200 bytes, which a server drops (RFC 9000 section 14.1)
	Forged                // no Initial of the datagram opens with the keys of its connection id
	Contradiction         // * two different bytes at one place, or two packets with one number
	TooLarge              // * the hello, or the datagrams that it comes in
	Closed                // * the client has given up
	Crowded               // the share of the source's prefix is in use
	Full                  // all room is in use, and no prefix has more of it than the source's
	reasons
)

var reasonNames = [reasons]string{"none", "malformed", "unknown version", "unexpected", "small", "forged", "contradiction", "too large", "closed", "crowded", "full"}

func (r Reason) String() string { return reasonNames[r] }

// Result is what became of a datagram. Its slices are good until the next call of Add, and as long as the datagram.
type Result struct {
	Outcome   Outcome
	Reason    Reason      // of Refused
	Packet    quic.Packet // the first one of the datagram, if it could be read
	Message   []byte      // of Hello: the client hello, with the header of its handshake message
	Datagrams [][]byte    // of Hello: those that were held, in the order in which they came, and the one that was added
}

// Counts are how often things have happened.
type Counts struct {
	Hellos   uint64
	Repeated uint64 // Initial packets that were there already
	Unheld   uint64 // datagrams of 0-RTT packets alone that there was no room for: their client repeats them
	Expired  uint64 // flights whose hello did not become whole in time
	Evicted  uint64 // flights that were forgotten for one of a less crowded prefix
	Refused  [reasons]uint64
}
