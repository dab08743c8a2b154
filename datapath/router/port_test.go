package router

import (
	"errors"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
)

// reconnect is the same client with its next connection from the same port.
func (c *client) reconnect(shift packet.Seq) *client {
	next := newClient(c.k, c.f, c.options)
	next.seq, next.tsval = c.seq+shift, c.tsval+1
	next.connect(routerVerdictSYN_ANSWERED)
	return next
}

// A packet of an earlier connection starts a session after the next connection's SYN was answered. That one's request must not be
// taken for part of the session, nor wait for its end.
func TestLateRequestGivesWay(t *testing.T) {
	for _, shift := range []packet.Seq{40_000, 1<<32 - 40_000} {
		eachFamily(t, func(t *testing.T, f family) {
			k := newRig(t)
			k.vip(f)
			events := k.events()
			late := k.idle(1, f)
			c := newClient(k, f, f.usual())
			c.connect(routerVerdictSYN_ANSWERED)
			next := c.reconnect(shift)
			late.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))

			forged := next.packet(packet.ACK, plainRequest)
			forged.Ack++
			k.want(packet.Build(forged), routerVerdictDROP_WINDOW, actShot) // without our cookie it is ignored

			request := packet.Build(next.packet(packet.ACK, plainRequest))
			k.want(request, routerVerdictDROP_RACE, actShot)
			events.want(Event{End: Replaced, Class: f.class(), Surrogate: 1, Splice: 1, Requests: 1})
			s := k.idle(2, f)
			s.takes(k.want(request, routerVerdictHANDOFF, actRedirect)) // repeated
		})
	}
}

// The first segment of an earlier connection, with a cookie that is still good, ends no session that has no answer.
func TestLateRequestIsNoNewConnection(t *testing.T) {
	for _, tick := range []uint32{0, 1, 1000} { // of the client's clock, between the two
		eachFamily(t, func(t *testing.T, f family) {
			k := newRig(t)
			k.vip(f)
			s := k.idle(1, f)
			c := newClient(k, f, f.usual())
			c.connect(routerVerdictSYN_ANSWERED)
			late := packet.Build(c.packet(packet.ACK, plainRequest))
			next := c.reconnect(1469)
			next.tsval = c.tsval + tick - 1 // a packet counts it up
			s.takes(next.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
			k.want(late, routerVerdictDROP_WINDOW, actShot)
			next.takes(s.send(packet.ACK, plainResponse, routerVerdictTO_CLIENT, actRedirect))
		})
	}
}

// The reverse: late packets are not of the session, and do not affect it.
func TestLateRequestDoesNotEndSession(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		late := packet.Build(c.packet(packet.ACK, plainRequest))
		next := c.reconnect(40_000)
		exchange(next, s, plainRequest, plainResponse, routerVerdictHANDOFF)
		next.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect)
		k.want(late, routerVerdictDROP_WINDOW, actShot)
		if got := k.splice(1); State(got.State) != Active {
			t.Errorf("splice: %+v", got)
		}
	})
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _, two := twoPools(t, f)
		first := c.packet(packet.ACK, plainRequest)
		first.Seq, first.Ack = clientNext, c.ack-packet.Seq(len(plainResponse))
		two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
		k.want(packet.Build(first), routerVerdictTO_SERVER, actRedirect) // its own, of the leg before
		if got := k.splice(2); State(got.State) != Active {
			t.Errorf("splice: %+v", got)
		}
	})
}

// A decision is dropped if the client has ended its session or started another one.
func TestDecisionDiesWithItsSession(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		const request = "BREW / HTTP/1.1\r\nHost: a\r\n\r\n"
		k, c, s := spliced(t, f)
		k.tap()
		c.send(packet.ACK, "", routerVerdictTO_SERVER, actRedirect)
		k.want(packet.Build(c.packet(packet.ACK, request)), routerVerdictUPCALL, actRedirect)
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1, Request: uint64(len(request))}))
		s.takes(c.send(packet.RST, "", routerVerdictTO_SERVER, actRedirect))
		if p, ok := k.pending(f.client, f.vip); ok {
			t.Errorf("left behind: %+v", p)
		}
	})
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.vip(f)
		s := k.idle(1, f)
		c := newClient(k, f, f.usual())
		c.connect(routerVerdictSYN_ANSWERED)
		for _, state := range []routerClientState{
			routerClientStateCLIENT_UPCALL, routerClientStateCLIENT_SPLICE, routerClientStateCLIENT_LOCAL,
		} {
			earlier := routerClient{
				State: uint8(state), Seq: uint32(c.seq) - 500, Ack: uint32(c.ack) - 500, Since: datapath.Clock(), Surrogate: 7,
			}
			k.must(k.maps.Clients.Update(tuple(f.client, f.vip), &earlier, ebpf.UpdateAny))
			c.seq += 10
			k.want(packet.Build(c.packet(packet.ACK, plainRequest)), routerVerdictDROP_STALE, actShot)
			c.seq -= 10
		}
		s.takes(c.send(packet.ACK, plainRequest, routerVerdictHANDOFF, actRedirect))
	})
}

// A later segment belongs to an undecided request by what it acknowledges.
func TestLateSegmentOfAnUndecidedRequest(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.tap()
		k.vip(f)
		c := k.sendPartial(f, f.client, routerVerdictUPCALL)
		rest := c.packet(packet.ACK, "st: a\r\n\r\n")
		rest.Seq += packet.Seq(len(partialRequest))
		k.want(packet.Build(rest), routerVerdictUPCALL, actRedirect)
		rest.Ack -= 1469 // of a connection some microseconds before
		k.want(packet.Build(rest), routerVerdictDROP_STALE, actShot)
		k.must(k.Decide(f.client, f.vip, c.seq, Decision{Surrogate: 1, Pool: 1}))
		k.want(packet.Build(rest), routerVerdictDROP_STALE, actShot)
		rest.Ack += 1469
		k.want(packet.Build(rest), routerVerdictUPCALL, actRedirect) // and back, behind the first
		time.Sleep(2 * replayTime)
		k.want(packet.Build(rest), routerVerdictDROP_EARLY, actShot) // the replay is over, or lost
	})
}

// replayTime is how long later segments of a decided request go to user space (REPLAY_MS).
const replayTime = 20 * time.Millisecond

// A late segment of an earlier connection is no part of a session, wherever its numbers are, also when that has moved.
func TestLateSegmentOfASession(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		_, c, _ := spliced(t, f)
		late := c.packet(packet.ACK, "bytes")
		late.Ack -= 1469
		c.k.want(packet.Build(late), routerVerdictDROP_WINDOW, actShot)
	})
	eachFamily(t, func(t *testing.T, f family) {
		k, c, _, two := twoPools(t, f)
		late := c.packet(packet.ACK, "bytes")
		late.Ack -= packet.Seq(len(plainResponse))
		two.takes(c.send(packet.ACK, otherRequest, routerVerdictMOVED, actRedirect))
		k.want(packet.Build(late), routerVerdictDROP_WINDOW, actShot)
	})
}

// A decision, and a client's end, are of the request that they name, whatever uses the port since.
func TestCommandsOfAnEarlierRequest(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.tap()
		k.vip(f)
		earlier := k.sendPartial(f, f.client, routerVerdictUPCALL)
		k.ForgetUpcall(f.client, f.vip, earlier.seq+1)
		if _, ok := k.pending(f.client, f.vip); !ok {
			t.Error("another request's end has ended it")
		}
		k.ForgetUpcall(f.client, f.vip, earlier.seq)
		if _, ok := k.pending(f.client, f.vip); ok {
			t.Error("it is not forgotten")
		}
		if source, all := k.held(f.client); source != 0 || all != 0 {
			t.Errorf("%d of its source are counted, and %d of all", source, all)
		}
		next := earlier.reconnect(40_000)
		k.want(packet.Build(next.packet(packet.ACK|packet.PSH, partialRequest)), routerVerdictUPCALL, actRedirect)
		if err := k.Decide(f.client, f.vip, earlier.seq, Decision{Local: true}); !errors.Is(err, ErrNoUpcall) {
			t.Errorf("a decision of an earlier request: %v", err)
		}
		k.must(k.Decide(f.client, f.vip, next.seq, Decision{Local: true}))
	})
}
