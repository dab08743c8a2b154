package machine

/*
#include "session/translate.h"

struct numbers {
	struct splice s;
	struct packet p;
	struct translation out;
};

static void call_to_server(struct numbers *n) { fill_to_server(&n->s, &n->p, &n->out); }
static void call_to_client(struct numbers *n) { fill_to_client(&n->s, &n->p, &n->out); }

static struct splice with_insertion(__u32 at, __u16 len, __u16 head)
{
	return (struct splice){ .ins_at = at, .ins_len = len, .ins_head = head };
}

static __u32 call_start(__u32 at, __u16 len, __u16 head, __u32 behind)
{
	struct splice s = with_insertion(at, len, head);

	return client_start(&s, behind);
}

static __u32 call_heard(__u32 at, __u16 len, __u16 head, __u32 seq)
{
	struct splice s = with_insertion(at, len, head);

	return heard(&s, seq);
}

static int call_straddles(__u32 at, __u16 len, __u16 head, __u32 behind, __u32 bytes)
{
	struct splice s = with_insertion(at, len, head);

	return straddles(&s, behind, bytes);
}
*/
import "C"

// Differences are the offsets and window scales in a session's record (struct splice). Scales count only if Flags have
// ClientScale and ServerScale.
type Differences struct {
	ToServerSeq, ToServerAck uint32
	TSToServer, TSToClient   uint32
	Flags                    uint32
	ClientShift, ServerShift uint8
}

// Flags of a record that affect translation.
const (
	ClientScale = C.SPLICE_CLIENT_WSCALE
	ServerScale = C.SPLICE_SERVER_WSCALE
	BothSACK    = C.SPLICE_CLIENT_SACK | C.SPLICE_SERVER_SACK
	OurShift    = C.OUR_WSCALE // window shift advertised to both ends
)

// Numbers are the numbers of a packet, in host byte order.
type Numbers struct {
	Seq, Ack, TSVal, TSEcr uint32
	Window                 uint16
	HasACK                 bool
}

// Translate returns the numbers of a packet on the other leg: from client to surrogate, or the reverse. Without the ACK flag, the
// acknowledgement number and the echoed timestamp stay.
func Translate(d Differences, n Numbers, toServer bool) Numbers {
	out, _ := TranslateOver(d, 0, Insertion{}, n, toServer)
	return out
}

// TranslateOver is Translate with an open insertion at a number, and reports whether SACK blocks are kept.
func TranslateOver(d Differences, at uint32, i Insertion, n Numbers, toServer bool) (Numbers, bool) {
	var c C.struct_numbers
	c.s.ins_at, c.s.ins_len, c.s.ins_head = C.__u32(at), C.__u16(i.Len), C.__u16(i.Head)
	c.s.to_server_seq, c.s.to_server_ack = C.__u32(d.ToServerSeq), C.__u32(d.ToServerAck)
	c.s.ts_to_server, c.s.ts_to_client = C.__u32(d.TSToServer), C.__u32(d.TSToClient)
	c.s.flags, c.s.client_shift, c.s.server_shift = C.__u32(d.Flags), C.__u8(d.ClientShift), C.__u8(d.ServerShift)
	c.p.seq, c.p.ack, c.p.tsval, c.p.tsecr = C.__u32(n.Seq), C.__u32(n.Ack), C.__u32(n.TSVal), C.__u32(n.TSEcr)
	c.p.window = C.__u16(n.Window)
	if n.HasACK {
		c.p.flags = C.ACK
	}
	if toServer {
		C.call_to_server(&c)
	} else {
		C.call_to_client(&c)
	}
	return Numbers{
		Seq: uint32(c.out.seq), Ack: uint32(c.out.ack), TSVal: uint32(c.out.tsval), TSEcr: uint32(c.out.tsecr),
		Window: uint16(c.out.window), HasACK: n.HasACK,
	}, c.out.keep_sack != 0
}

// Rescale converts a window field from one scale to another.
func Rescale(window uint32, from, to uint8) uint16 {
	return uint16(C.rescale(C.__u32(window), C.__u32(from), C.__u32(to)))
}

// Start is client_start, of a record with an insertion at a number.
func (i Insertion) Start(at, behind uint32) uint32 {
	return uint32(C.call_start(C.__u32(at), C.__u16(i.Len), C.__u16(i.Head), C.__u32(behind)))
}

// Heard is heard.
func (i Insertion) Heard(at, seq uint32) uint32 {
	return uint32(C.call_heard(C.__u32(at), C.__u16(i.Len), C.__u16(i.Head), C.__u32(seq)))
}

// Straddles is straddles.
func (i Insertion) Straddles(at, behind, bytes uint32) bool {
	return C.call_straddles(C.__u32(at), C.__u16(i.Len), C.__u16(i.Head), C.__u32(behind), C.__u32(bytes)) != 0
}
