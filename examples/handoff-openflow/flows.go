package main

import (
	"errors"

	"baton/openflow"
)

// Priorities of the flow entries.
const (
	bridge  = 0
	watched = 10 // sessions with the router, whose packets are told to it
	handed  = 20
)

// forgotten is how long a flow entry of a session outlives its last packet, in seconds.
const forgotten = 300

func tcp() openflow.Match {
	return openflow.Match{}.Uint(openflow.FieldEthType, 0x0800).Uint(openflow.FieldIPProto, 6)
}

// matches are the packets of a direction.
func (w way) matches() openflow.Match {
	return tcp().Addr(openflow.FieldIPv4Src, w.from.Addr()).Addr(openflow.FieldIPv4Dst, w.to.Addr()).
		Uint(openflow.FieldTCPSrc, uint64(w.from.Port())).Uint(openflow.FieldTCPDst, uint64(w.to.Port()))
}

func add(priority uint16, match openflow.Match, actions ...openflow.Action) *openflow.FlowMod {
	m := openflow.NewFlowMod(openflow.FlowAdd)
	m.Priority, m.Match = priority, match
	if priority == handed {
		m.Idle = forgotten
	}
	if len(actions) > 0 {
		m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: actions}}
	}
	return m
}

func output(port openflow.PortNo) openflow.Action {
	return openflow.ActionOutput{Port: port, MaxLen: openflow.MaxLenNoBuffer}
}

func set(f func(openflow.Match) openflow.Match) openflow.Action {
	return openflow.ActionSetField{Field: f(nil)}
}

// basic is the core forwarder as a bridge that tells of the router's sessions.
func (r *router) basic() []openflow.Message {
	list := []openflow.Message{add(bridge, nil, output(openflow.PortNormal))}
	for _, host := range []openflow.Field{openflow.FieldIPv4Src, openflow.FieldIPv4Dst} {
		for _, port := range []openflow.Field{openflow.FieldTCPSrc, openflow.FieldTCPDst} {
			list = append(list, add(watched, tcp().Addr(host, r.address.Addr()).Uint(port, uint64(r.address.Port())),
				output(openflow.PortNormal), output(openflow.PortController)))
		}
	}
	return list
}

// block is flow mod 1, 6 or 7: what the router says in a direction ends at the core.
func block(w way) *openflow.FlowMod { return add(handed, w.matches()) }

// hold has what the router says in a direction come to the controller alone.
func hold(w way) *openflow.FlowMod { return add(handed, w.matches(), output(openflow.PortController)) }

// join is two sessions: the client's with the router, and the router's with the server.
type join struct {
	client, server       way // from the client, to the server
	fromClient, toClient told
	toServer, fromServer told
}

// alike refuses sessions of different options: a receiver may miss one that it has negotiated.
func (j *join) alike() error {
	if j.fromClient.stamps != j.toServer.stamps || j.toClient.stamps != j.fromServer.stamps ||
		(j.fromClient.sack && j.toClient.sack) != (j.toServer.sack && j.fromServer.sack) {
		return errors.New("the sessions have different options")
	}
	return nil
}

// direct is the direction as it is between the access switch and the core forwarder.
func (j *join) direct() way { return way{j.client.from, j.server.to} }

// two is for the core forwarder: what the server says becomes what the router would have said, but for its address.
func (j *join) two() *openflow.FlowMod {
	m := append(tcp().Port(j.fromServer.port), j.server.back().matches()[len(tcp()):]...)
	actions := []openflow.Action{
		set(func(m openflow.Match) openflow.Match { return m.Addr(openflow.FieldIPv4Dst, j.client.from.Addr()) }),
		set(func(m openflow.Match) openflow.Match {
			return m.Uint(openflow.FieldTCPDst, uint64(j.client.from.Port()))
		}),
		set(func(m openflow.Match) openflow.Match { return m.MAC(openflow.FieldEthDst, j.fromClient.mac) }),
	}
	actions = append(actions, translate(&j.toClient, &j.fromServer, &j.toServer, &j.fromClient)...)
	return add(handed, m, append(actions, output(j.fromClient.port))...)
}

// three is for the access switch: … and its address.
func (j *join) three() *openflow.FlowMod {
	return add(handed, j.direct().back().matches(),
		set(func(m openflow.Match) openflow.Match { return m.Addr(openflow.FieldIPv4Src, j.client.to.Addr()) }),
		set(func(m openflow.Match) openflow.Match { return m.Uint(openflow.FieldTCPSrc, uint64(j.client.to.Port())) }),
		set(func(m openflow.Match) openflow.Match { return m.MAC(openflow.FieldEthSrc, j.toClient.mac) }),
		output(openflow.PortNormal))
}

// four is for the core forwarder: what the client says becomes what the router would have said to the server.
func (j *join) four() *openflow.FlowMod {
	m := append(tcp().Port(j.fromClient.port), j.direct().matches()[len(tcp()):]...)
	actions := []openflow.Action{
		set(func(m openflow.Match) openflow.Match { return m.Addr(openflow.FieldIPv4Src, j.server.from.Addr()) }),
		set(func(m openflow.Match) openflow.Match {
			return m.Uint(openflow.FieldTCPSrc, uint64(j.server.from.Port()))
		}),
		set(func(m openflow.Match) openflow.Match { return m.MAC(openflow.FieldEthSrc, j.toServer.mac) }),
	}
	actions = append(actions, translate(&j.toServer, &j.fromClient, &j.toClient, &j.fromServer)...)
	return add(handed, m, append(actions, output(j.fromServer.port))...)
}

// five is for the access switch: what the client says to the router goes to the server.
func (j *join) five() *openflow.FlowMod {
	return add(handed, j.client.matches(),
		set(func(m openflow.Match) openflow.Match { return m.Addr(openflow.FieldIPv4Dst, j.server.to.Addr()) }),
		set(func(m openflow.Match) openflow.Match { return m.Uint(openflow.FieldTCPDst, uint64(j.server.to.Port())) }),
		set(func(m openflow.Match) openflow.Match { return m.MAC(openflow.FieldEthDst, j.fromServer.mac) }),
		output(openflow.PortNormal))
}

// translate has what a sender says continue what the router had said to the receiver, on whose session it must look as ours did. The sender
// acknowledges what the router had said to it, which the receiver must find its own numbers in. These are the paper's equations 1 to 4, where
// both sides' requests are in the numbers already, and the same for timestamps and windows.
func translate(ours, sender, oursToSender, receiver *told) []openflow.Action {
	ack := receiver.next.Sub(oursToSender.next)
	actions := []openflow.Action{
		openflow.ActionIncSeq{By: ours.next.Sub(sender.next)},
		openflow.ActionIncAck{By: ack},
		openflow.ActionIncSACK{By: ack},
	}
	if sender.stamps {
		actions = append(actions, openflow.ActionIncTSval{By: ours.tsval - sender.tsval},
			openflow.ActionIncTSecr{By: receiver.tsval - oursToSender.tsval})
	}
	return append(actions, openflow.ActionRescaleWindow{Sender: shift(sender, oursToSender), Advertised: shift(ours, receiver)})
}

// shift is by how much a sender's windows are scaled: not at all unless both sides have said that they can.
func shift(sender, other *told) uint8 {
	if !sender.scales || !other.scales {
		return 0
	}
	return min(sender.shift, 14)
}

// packetOut sends a frame of the request to the server.
func (j *join) packetOut(frame []byte) *openflow.PacketOut {
	return &openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: openflow.PortController,
		Actions: []openflow.Action{output(j.fromServer.port)}, Data: frame}
}
