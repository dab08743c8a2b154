package https

import (
	"bytes"
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"

	"baton/lab"
	"baton/packet"
)

// farm is servers without sockets, which answer what ends with theEnd like a sink, as often as it comes, and close nothing.
type farm struct {
	socket *socket
	name   string
	epoch  time.Time
	heard  map[netip.AddrPort]*heard // by client
	stop   chan struct{}
	ended  chan error
	open   atomic.Int64
}

// heard is a connection.
type heard struct {
	start, rcv packet.Seq
	snd        packet.Seq
	bytes      []byte // since the last answer
	answer     []byte // the last one
	answered   packet.Seq
}

func startFarm(n, via *lab.Interface, name string) (*farm, error) {
	s, err := open(n, via)
	if err != nil {
		return nil, err
	}
	f := &farm{socket: s, name: name, epoch: time.Now(), heard: make(map[netip.AddrPort]*heard), stop: make(chan struct{}), ended: make(chan error, 1)}
	go func() { f.ended <- f.serve() }()
	return f, nil
}

func (f *farm) close() error {
	close(f.stop)
	err := <-f.ended
	f.socket.close()
	return err
}

func (f *farm) serve() error {
	for {
		select {
		case <-f.stop:
			return nil
		default:
		}
		in, ok, err := f.socket.receive(true)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := f.take(in, clock(time.Since(f.epoch))); err != nil {
			return err
		}
	}
}

func (f *farm) take(in packet.Frame, now uint32) error {
	tcp, payload := in.TCP(), in.Payload()
	flags, h := tcp.Flags(), f.heard[in.Src]
	tsval, _, _ := tcp.Options().Timestamps()
	out := packet.Spec{Src: in.Dst, Dst: in.Src, Window: 0xffff, Flags: packet.ACK, Options: packet.Options{}.AppendNOP(2).AppendTimestamps(now, tsval)}
	switch {
	case flags.Has(packet.RST):
		f.forget(in.Src)
		return nil
	case flags.Has(packet.SYN):
		h = &heard{start: tcp.Seq() + 1, rcv: tcp.Seq() + 1, snd: tcp.Seq()*3 + 1}
		f.heard[in.Src] = h
		f.open.Store(int64(len(f.heard)))
		out.Seq, out.Ack, out.Flags = h.snd-1, h.rcv, packet.SYN|packet.ACK
		out.Options = packet.Options{}.AppendMSS(1440).AppendSACKPermitted().AppendTimestamps(now, tsval).AppendNOP(1).AppendWindowScale(7)
		return f.socket.send(out)
	case h == nil:
		out.Seq, out.Flags, out.Options = tcp.Ack(), packet.RST, nil
		return f.socket.send(out)
	case len(payload) == 0 && !flags.Has(packet.FIN):
		return nil
	case tcp.Seq() == h.rcv:
		h.rcv = h.rcv.Add(uint32(len(payload)))
		h.bytes = append(h.bytes, payload...)
		if bytes.HasSuffix(h.bytes, []byte(theEnd)) {
			h.answer = []byte(answerOf(f.name, maphash.Bytes(seed, h.bytes)))
			h.answered, h.bytes = h.snd, nil
			h.snd = h.snd.Add(uint32(len(h.answer)))
		}
		if flags.Has(packet.FIN) {
			h.rcv++
			out.Flags |= packet.FIN
			defer f.forget(in.Src)
		}
	}
	out.Seq, out.Ack = h.snd, h.rcv
	if h.bytes == nil && h.answer != nil && tcp.Ack() == h.answered { // the answer, or again
		out.Seq, out.Payload = h.answered, h.answer
		out.Flags |= packet.PSH
	}
	return f.socket.send(out)
}

func (f *farm) forget(of netip.AddrPort) {
	delete(f.heard, of)
	f.open.Store(int64(len(f.heard)))
}
