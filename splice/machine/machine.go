// Package machine is the kernel's session state machine: the C of bpf/session, compiled for this host. The model checker of
// splice/model runs it in lockstep with its own rules, so that the two cannot diverge. Only this package needs a C compiler
// (cgo).
package machine

/*
#cgo CFLAGS: -I${SRCDIR}/../../bpf -O2 -Wall -Werror -Wno-unknown-pragmas -Wno-unused-function
#include "session/client.h"
#include "session/move.h"
#include "session/server.h"

struct call {
	struct splice s;
	struct packet p;
	struct walk k;
	struct decision d;
	struct translation out;
	struct segment reply;
	struct released_leg released;
	struct joined joined;
	struct insertion insertion;
	__u32 now, clock, limit, flags, head;
	__u64 sum, request;
	bool here, owed, reread;
};

static struct input input_of(struct call *c)
{
	return (struct input){ .packet = &c->p, .walk = &c->k, .now = c->now, .clock = c->clock, .limit = c->limit,
			       .reread = c->reread, .head = c->head, .sum = c->sum, .request = c->request };
}

static __u32 call_client(struct call *c)
{
	struct input in = input_of(c);

	return client_event(&c->s, &in, &c->out, &c->reply, &c->released);
}

static __u32 call_server(struct call *c)
{
	struct input in = input_of(c);

	return server_event(&c->s, &in, &c->out, &c->reply);
}

static __u32 call_join(struct call *c)
{
	struct input in = input_of(c);
	struct joining j = { .flags = c->flags, .insertion = c->insertion };

	return join_event(&c->s, &in, &c->d, &j, c->s.surrogate, c->s.leg_class, &c->out, &c->joined);
}

static __u32 call_request(struct call *c)
{
	struct input in = input_of(c);

	return request_event(&c->s, &in, &c->d, &c->insertion, c->here, &c->out);
}

static __u32 call_leave(struct call *c)
{
	struct input in = input_of(c);

	return leave_event(&c->s, &in, &c->owed, &c->reply, &c->released);
}

static __u32 call_cut(struct call *c)
{
	return cut_of_more(&c->s, &c->p, &c->k);
}
*/
import "C"

// States of a record (enum splice_state).
const (
	Idle    = C.SPLICE_IDLE
	Active  = C.SPLICE_ACTIVE
	Closing = C.SPLICE_CLOSING
	Dead    = C.SPLICE_DEAD
)

// Framings (enum framing).
const (
	Quiet   = C.FRAMING_QUIET
	Head    = C.FRAMING_HEAD
	Body    = C.FRAMING_BODY
	Chunked = C.FRAMING_CHUNKED
	Done    = C.FRAMING_DONE
	Close   = C.FRAMING_CLOSE
	Opaque  = C.FRAMING_OPAQUE
)

// Flags of a record (enum splice_flag).
const (
	TS        = C.SPLICE_TS
	ClientFIN = C.SPLICE_CLIENT_FIN
	ServerFIN = C.SPLICE_SERVER_FIN
	NoReuse   = C.SPLICE_NO_REUSE
	Moving    = C.SPLICE_MOVING
	Spoilt    = C.SPLICE_SPOILT
	First     = C.SPLICE_FIRST
	Routed    = C.SPLICE_ROUTED
	Hold      = C.SPLICE_HOLD
	Narrow    = C.SPLICE_NARROW
)

// Results for a client's packet (enum client_next).
const (
	NextSend         = C.NEXT_SEND
	NextRequest      = C.NEXT_REQUEST
	NextRecycle      = C.NEXT_RECYCLE
	NextReset        = C.NEXT_RESET
	NextRecycleReset = C.NEXT_RECYCLE_RESET
	NextChallenge    = C.NEXT_CHALLENGE
	NextOver         = C.NEXT_OVER
	NextEarly        = C.NEXT_EARLY
	NextOutside      = C.NEXT_OUTSIDE
	NextCut          = C.NEXT_CUT
	NextStale        = C.NEXT_STALE
	NextRace         = C.NEXT_RACE
)

// Results for a surrogate's packet (enum server_next).
const (
	ServerSend        = C.SERVER_SEND
	ServerACK         = C.SERVER_ACK
	ServerReset       = C.SERVER_RESET
	ServerNothing     = C.SERVER_NOTHING
	ServerGap         = C.SERVER_GAP
	ServerRace        = C.SERVER_RACE
	ServerOver        = C.SERVER_OVER
	ServerClosed      = C.SERVER_CLOSED
	ServerFailed      = C.SERVER_FAILED
	ServerUnsolicited = C.SERVER_UNSOLICITED
	ServerIdleOver    = C.SERVER_IDLE_OVER
	ServerIdleClosed  = C.SERVER_IDLE_CLOSED
	ServerOutside     = C.SERVER_OUTSIDE
	ServerInsert      = C.SERVER_INSERT
)

// Results for a session's next request (enum request_next), and for the leg that its client leaves (enum leave_next).
const (
	RequestStays = C.REQUEST_STAYS
	RequestMoves = C.REQUEST_MOVES
	RequestRace  = C.REQUEST_RACE
	RequestEarly = C.REQUEST_EARLY

	LeaveNot    = C.LEAVE_NOT
	LeaveClosed = C.LEAVE_CLOSED
	LeaveLeft   = C.LEAVE_LEFT
)

// Flags of a response's head (enum head_flag).
const (
	HeadChunked = C.HEAD_CHUNKED | C.HEAD_CODED
	HeadClose   = C.HEAD_CLOSE
	HeadLength  = C.HEAD_LENGTH
)

// Session is the part of a record (struct splice) used by the model checker: numbers in the leg's space, in host byte order.
type Session struct {
	State                              uint8
	Client                             uint8 // client number; 0: none
	Flags                              uint32
	SndNxt, SndUna, SndEdge, SndSpan   uint32
	RcvNxt, RcvAcked, RcvEdge, RcvSpan uint32
	RcvBase, SndBase                   uint32
	ToServerSeq, ToServerAck           uint32
	TSToServer, TSSent, TSEchoed       uint32
	Request, Response                  uint8
	RequestLeft, ResponseLeft          uint64
	ClientRequests                     uint32
	Surrogate                          uint16
	InsAt                              uint32
	InsLen, InsHead                    uint16
	InsSum                             uint64
}

// Insertion is bytes of the router's own in, or with Head 0 in front of, a request's head (struct insertion).
type Insertion struct {
	Len, Head uint16
	Sum       uint64 // of the head
}

func (i Insertion) put(c *C.struct_call) {
	c.insertion.len, c.insertion.head = C.__u16(i.Len), C.__u16(i.Head)
	c.insertion.sum = C.__u64(i.Sum)
}

// Packet is a packet from a client or, with Client 0, from the surrogate.
type Packet struct {
	Client        uint8
	Seq, Ack, Len uint32
	TSVal, TSEcr  uint32
	Window        uint16
	HasTS         bool
	FIN, RST      bool

	// Of a packet that begins where an open insertion's head does and was read: bytes of its head, their sum, and bytes of the request. 0: it
	// begins with no whole head.
	Reread       bool
	Head         uint32
	Sum, Request uint64
}

// Walk is a walk over the packet's bytes of a response (struct walk).
type Walk struct {
	At                uint32
	From, Framing     uint8
	Hidden, Done, Bad bool
	Behind, Body      uint32
	HeadFlags         uint32
	HeadLength        uint64
}

// Reply is a segment generated by the machine, and the packet that goes on.
type Reply struct {
	Seq, Ack, TSVal uint32
	HasTS           bool
	OnSeq, OnAck    uint32 // of the packet that goes on
	Window          uint16 // unscaled, of the segment
	OnWindow        uint16 // and of the packet
	Insert          bool   // the insertion goes with it
}

// Moment is a time in ms, and the timestamp clock at it.
type Moment struct{ Now, Clock uint32 }

const server = 9 // the surrogate in a tuple

func tuple(end uint8) (t C.struct_tuple) {
	t.src[0] = C.__u8(end)
	return t
}

func (s *Session) put(c *C.struct_call) {
	r := &c.s
	r.state, r.flags, r.server, r.client = C.__u8(s.State), C.__u32(s.Flags), tuple(server), tuple(s.Client)
	r.snd_nxt, r.snd_una, r.snd_edge, r.snd_span = C.__u32(s.SndNxt), C.__u32(s.SndUna), C.__u32(s.SndEdge), C.__u32(s.SndSpan)
	r.rcv_nxt, r.rcv_acked, r.rcv_edge, r.rcv_span = C.__u32(s.RcvNxt), C.__u32(s.RcvAcked), C.__u32(s.RcvEdge), C.__u32(s.RcvSpan)
	r.rcv_base, r.snd_base, r.snd_ahead = C.__u32(s.RcvBase), C.__u32(s.SndBase), C.__u32(s.SndNxt)
	r.to_server_seq, r.to_server_ack = C.__u32(s.ToServerSeq), C.__u32(s.ToServerAck)
	r.ts_to_server, r.ts_sent, r.ts_echoed = C.__u32(s.TSToServer), C.__u32(s.TSSent), C.__u32(s.TSEchoed)
	r.request, r.response = C.__u8(s.Request), C.__u8(s.Response)
	r.request_left, r.response_left = C.__u64(s.RequestLeft), C.__u64(s.ResponseLeft)
	r.client_requests, r.surrogate, r.pool = C.__u32(s.ClientRequests), C.__u16(s.Surrogate), C.__u16(s.Surrogate)
	r.ins_at, r.ins_len, r.ins_head = C.__u32(s.InsAt), C.__u16(s.InsLen), C.__u16(s.InsHead)
	r.ins_sum = C.__u64(s.InsSum)
	r.to_server.checked = 1
}

func (s *Session) take(c *C.struct_call) {
	r := &c.s
	s.State, s.Flags, s.Client = uint8(r.state), uint32(r.flags), uint8(r.client.src[0])
	s.SndNxt, s.SndUna, s.RcvNxt, s.RcvAcked = uint32(r.snd_nxt), uint32(r.snd_una), uint32(r.rcv_nxt), uint32(r.rcv_acked)
	s.RcvBase, s.SndBase = uint32(r.rcv_base), uint32(r.snd_base)
	s.ToServerSeq, s.ToServerAck = uint32(r.to_server_seq), uint32(r.to_server_ack)
	s.TSToServer, s.TSSent, s.TSEchoed = uint32(r.ts_to_server), uint32(r.ts_sent), uint32(r.ts_echoed)
	s.Request, s.Response = uint8(r.request), uint8(r.response)
	s.RequestLeft, s.ResponseLeft = uint64(r.request_left), uint64(r.response_left)
	s.ClientRequests = uint32(r.client_requests)
	s.InsAt, s.InsLen, s.InsHead = uint32(r.ins_at), uint16(r.ins_len), uint16(r.ins_head)
	s.InsSum = uint64(r.ins_sum)
}

// call prepares the arguments of an event.
func (s *Session) call(p *Packet, at Moment) *C.struct_call {
	c := new(C.struct_call)
	s.put(c)
	c.now, c.clock, c.limit = C.__u32(at.Now), C.__u32(at.Clock), 1<<31
	c.p.key = tuple(server)
	if p.Client != 0 {
		c.p.key = tuple(p.Client)
	}
	c.p.seq, c.p.ack, c.p.len, c.p.window = C.__u32(p.Seq), C.__u32(p.Ack), C.__u32(p.Len), C.__u16(p.Window)
	c.p.tsval, c.p.tsecr, c.p.ts_at = C.__u32(p.TSVal), C.__u32(p.TSEcr), C.NO_OPTION
	if p.HasTS {
		c.p.ts_at = 2
	}
	c.reread = C.bool(p.Reread)
	c.head, c.sum, c.request = C.__u32(p.Head), C.__u64(p.Sum), C.__u64(p.Request)
	c.p.flags = C.ACK
	if p.FIN {
		c.p.flags |= C.FIN
	}
	if p.RST {
		c.p.flags |= C.RST
	}
	return c
}

func (w *Walk) put(c *C.struct_call) {
	k := &c.k
	k.at, k.from, k.framing = C.__u32(w.At), C.__u8(w.From), C.__u8(w.Framing)
	k.hidden, k.done, k.bad = bit(w.Hidden), bit(w.Done), bit(w.Bad)
	k.behind, k.body = C.__u32(w.Behind), C.__u32(w.Body)
	k.head.flags, k.head.status, k.head.length = C.__u32(w.HeadFlags), 200, C.__u64(w.HeadLength)
}

func bit(b bool) C.__u8 {
	if b {
		return 1
	}
	return 0
}

func replied(c *C.struct_call) Reply {
	return Reply{
		uint32(c.reply.seq), uint32(c.reply.ack), uint32(c.reply.tsval), c.reply.with_ts != 0,
		uint32(c.out.seq), uint32(c.out.ack), uint16(c.reply.window), uint16(c.out.window), c.out.insert != 0,
	}
}

// OnClient is client_event.
func (s *Session) OnClient(p Packet, at Moment) (next uint32, r Reply) {
	c := s.call(&p, at)
	next = uint32(C.call_client(c))
	s.take(c)
	return next, replied(c)
}

// OnServer is server_event.
func (s *Session) OnServer(p Packet, w Walk, at Moment) (next uint32, r Reply) {
	c := s.call(&p, at)
	w.put(c)
	next = uint32(C.call_server(c))
	s.take(c)
	return next, replied(c)
}

// OnJoin is join_event: the session starts with flags and a request of so many bytes, with an insertion. widen: the client's window is to
// follow the request.
func (s *Session) OnJoin(p Packet, request uint64, flags uint32, i Insertion, at Moment) (joined, widen bool, r Reply) {
	c := s.call(&p, at)
	i.put(c)
	c.d.request, c.d.pool, c.flags = C.__u64(request), C.__u16(s.Surrogate), C.__u32(flags)
	joined = C.call_join(c) != 0
	s.take(c)
	return joined, bool(c.joined.widen), replied(c)
}

// OnRequest is request_event: the next request, of so many bytes; here: it is for this leg's surrogate.
func (s *Session) OnRequest(p Packet, request uint64, i Insertion, here bool, at Moment) (next uint32, r Reply) {
	c := s.call(&p, at)
	i.put(c)
	c.d.request, c.here = C.__u64(request), C.bool(here)
	next = uint32(C.call_request(c))
	s.take(c)
	return next, replied(c)
}

// OnLeave is leave_event. owed: the reply is sent.
func (s *Session) OnLeave(p Packet, at Moment) (next uint32, owed bool, r Reply) {
	c := s.call(&p, at)
	c.owed = true
	next = uint32(C.call_leave(c))
	s.take(c)
	return next, bool(c.owed), replied(c)
}

// Cut is how many bytes are trimmed off the packet's end, where requests are held.
func (s *Session) Cut(p Packet) uint32 { return uint32(C.call_cut(s.call(&p, Moment{}))) }
