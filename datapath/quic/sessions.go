package quic

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
)

// amplification is how many times the bytes of a client a server sends at most before it knows that the address is not forged.
const amplification = 3

// Session is a client's path to a surrogate. Source is where the surrogate sees it come from: a port of the router, or the client.
type Session struct {
	Number      uint32
	Client, VIP netip.AddrPort
	Source      netip.AddrPort
	Surrogate   netip.AddrPort
	In, Out     int      // interfaces towards the client and the surrogate, until the kernel has looked up its routes
	Moved       bool     // made by a connection id: its client came from another address before
	Origin      Identity // of a moved session: the connection's first one; zero: unknown

	// ID that the client sends, if it is known when a session is made.
	ID []byte

	// Of the kernel.
	Since         uint32        // ms of datapath.Clock, at Add
	Followed      bool          // the client has sent more behind the surrogate's answer
	Confirmed     bool          // it has the surrogate's answer: its address is not forged
	Answered      bool          // the surrogate has answered
	Age           time.Duration // since Add
	Idle          time.Duration // since the last datagram in either direction
	BytesToServer uint64        // of UDP payload
	BytesToClient uint64
}

// Identity names a session forever: numbers are used again.
type Identity struct{ Number, Since uint32 }

// Identity is the session's own.
func (s *Session) Identity() Identity { return Identity{s.Number, s.Since} }

func tuple(src, dst netip.AddrPort) quicTuple {
	return quicTuple{Src: src.Addr().As16(), Dst: dst.Addr().As16(), Sport: datapath.BigEndian(src.Port()), Dport: datapath.BigEndian(dst.Port())}
}

func (s *Session) client() quicTuple { return tuple(s.Client, s.VIP) }
func (s *Session) server() quicTuple { return tuple(s.Surrogate, s.Source) }

// ErrTaken: a flow has the tuple already.
var ErrTaken = errors.New("there is a flow of that tuple")

// Add makes a session of a free number, and the flows that lead to it.
func (q *QUIC) Add(s Session) error {
	k := quicQuicSession{Client: s.client(), Server: s.server(), State: uint32(quicSessionStateSESSION_OPEN), Since: datapath.Clock()}
	k.ToClient.Ifindex, k.ToServer.Ifindex = uint32(s.In), uint32(s.Out)
	if s.Moved {
		k.IdLength = uint8(copy(k.Id[:], s.ID))
		k.Flags = uint32(quicSessionFlagSESSION_MOVED)
		k.Origin = quicQuicIdentity{Session: s.Origin.Number, Since: s.Origin.Since}
	}
	if err := q.maps.Sessions.Put(s.Number, &k); err != nil {
		return fmt.Errorf("add session: %w", err)
	}
	// the way back first: what the client sends is answered at once
	err := q.maps.Flows.Update(k.Server, quicQuicFlow{Session: s.Number, Side: uint32(quicSideSIDE_SERVER)}, ebpf.UpdateNoExist)
	if err == nil {
		err = q.maps.Flows.Update(k.Client, quicQuicFlow{Session: s.Number, Side: uint32(quicSideSIDE_CLIENT)}, ebpf.UpdateNoExist)
		if err != nil {
			err = errors.Join(err, q.maps.Flows.Delete(k.Server))
		}
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, ebpf.ErrKeyExist) {
		err = ErrTaken
	}
	return errors.Join(fmt.Errorf("add session: %w", err), q.maps.Sessions.Put(s.Number, &quicQuicSession{}))
}

// End removes a session. Datagrams that have found it before may still use it: its number is not to be used again for a moment.
func (q *QUIC) End(s *Session) error {
	var errs []error
	if s.Moved {
		errs = append(errs, q.forgetTaught(s))
	}
	for _, key := range []quicTuple{s.client(), s.server()} {
		if err := q.maps.Flows.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
	}
	if errs = append(errs, q.maps.Sessions.Put(s.Number, &quicQuicSession{})); errors.Join(errs...) != nil {
		return fmt.Errorf("end session: %w", errors.Join(errs...))
	}
	return nil
}

// forgetTaught removes the id that the client of a moved session has taught. Else the id's next sessions would be of no
// known origin, and any number of them could follow from one another.
func (q *QUIC) forgetTaught(s *Session) error {
	var k quicQuicSession
	if err := q.maps.Sessions.Lookup(s.Number, &k); err != nil {
		return fmt.Errorf("read session: %w", err)
	}
	id := k.Id[:min(int(k.IdLength), MaxID)]
	known, ok, err := q.Server(s.VIP, id)
	if err != nil || !ok || !known.Taught || known.Learner != s.Identity() {
		return err
	}
	if err := q.maps.Ids.Delete(idOf(s.VIP, id)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget connection id: %w", err)
	}
	return nil
}

// Session reads one. False: the number is free.
func (q *QUIC) Session(number uint32) (Session, bool, error) {
	var k quicQuicSession
	if err := q.maps.Sessions.Lookup(number, &k); err != nil {
		return Session{}, false, fmt.Errorf("read session: %w", err)
	}
	if quicSessionState(k.State) != quicSessionStateSESSION_OPEN {
		return Session{}, false, nil
	}
	now, last := datapath.Clock(), k.Since
	for _, t := range []uint32{k.FromClient, k.FromServer} {
		if t != 0 && int32(t-last) > 0 {
			last = t
		}
	}
	since := func(t uint32) time.Duration { return time.Duration(max(int32(now-t), 0)) * time.Millisecond }
	return Session{
		Number: number, Client: datapath.AddrPort(k.Client.Src, k.Client.Sport), VIP: datapath.AddrPort(k.Client.Dst, k.Client.Dport),
		Surrogate: datapath.AddrPort(k.Server.Src, k.Server.Sport), Source: datapath.AddrPort(k.Server.Dst, k.Server.Dport),
		In: int(k.ToClient.Ifindex), Out: int(k.ToServer.Ifindex),
		Followed: quicSessionFlag(k.Flags)&quicSessionFlagSESSION_FOLLOWED != 0,
		// or the surrogate would not send so much more than it has got (RFC 9000 section 8)
		Confirmed: quicSessionFlag(k.Flags)&quicSessionFlagSESSION_CONFIRMED != 0 || k.BytesToClient > amplification*k.BytesToServer,
		Moved:     quicSessionFlag(k.Flags)&quicSessionFlagSESSION_MOVED != 0,
		Origin:    Identity{k.Origin.Session, k.Origin.Since}, Since: k.Since,
		Answered: k.FromServer != 0, Age: since(k.Since), Idle: since(last),
		BytesToServer: k.BytesToServer, BytesToClient: k.BytesToClient,
	}, true, nil
}

// Each reads all sessions, in the order of their numbers. The first error ends it.
func (q *QUIC) Each(f func(Session) error) error {
	for number := range q.maps.Sessions.MaxEntries() {
		s, ok, err := q.Session(number)
		if err == nil && ok {
			err = f(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Find finds the session of a client.
func (q *QUIC) Find(client, vip netip.AddrPort) (number uint32, ok bool, err error) {
	var f quicQuicFlow
	err = q.maps.Flows.Lookup(tuple(client, vip), &f)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("find session: %w", err)
	}
	return f.Session, quicSide(f.Side) == quicSideSIDE_CLIENT, nil
}

// FindOrigin returns the first session of the connection that the session of that identity is of, so that all that come
// of one hello count as one, however often its client moves. Of one that has ended it is that itself.
func (q *QUIC) FindOrigin(of Identity) (Identity, error) {
	var k quicQuicSession
	if err := q.maps.Sessions.Lookup(of.Number, &k); err != nil {
		return Identity{}, fmt.Errorf("read session: %w", err)
	}
	if first := (Identity{k.Origin.Session, k.Origin.Since}); k.Since == of.Since && first != (Identity{}) {
		return first, nil
	}
	return of, nil
}
