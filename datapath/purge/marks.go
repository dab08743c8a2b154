package purge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// Socket is an unresponsive connection of a server on this host. The cookie distinguishes it from others with the same addresses and ports.
type Socket struct {
	Client, Server netip.AddrPort
	Ifindex        int // of the device that the socket is bound to; 0: none
	Cookie         uint64
	Period         uint16 // counts the connection's unresponsive periods: a mark is for one of them
}

// Expiry is an expired retransmission timeout. Durations are whole milliseconds.
type Expiry struct {
	Count        int           // timeouts in this unresponsive period, including this one
	RTO          time.Duration // length of the timeout
	Unresponsive time.Duration // since the period began: since the first timeout was set
}

// Mark is a connection that is dormant unless the client responds.
type Mark struct {
	Socket
	Policy uint32 // its ID
	Expiry
	Within time.Duration // time left to respond
	Found  bool          // unresponsive since before the programs started: Count is the number of retransmissions
	State  string        // as ss(8) has it
	SRTT   time.Duration
}

// Marks reads the kernel's marks. The caller closes the reader.
type Marks struct {
	reader *ringbuf.Reader
	record ringbuf.Record
}

// Marks starts reading. One reader gets all marks.
func (p *Purge) Marks() (*Marks, error) {
	reader, err := ringbuf.NewReader(p.objects.Marks)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return &Marks{reader: reader}, nil
}

// Next waits for a mark and fills to with it and others that are available. After Close it returns ErrClosed. One caller at a time.
func (r *Marks) Next(to []Mark) (n int, err error) {
	for n < len(to) {
		err := r.reader.ReadInto(&r.record)
		if errors.Is(err, ringbuf.ErrClosed) {
			return n, datapath.ErrClosed
		}
		if err != nil {
			return n, fmt.Errorf("read marks: %w", err)
		}
		if to[n], err = parseMark(r.record.RawSample); err != nil {
			return n, err
		}
		n++
		if r.record.Remaining == 0 {
			break
		}
	}
	return n, nil
}

// Close ends a waiting Next.
func (r *Marks) Close() error { return r.reader.Close() }

func parseMark(b []byte) (Mark, error) {
	if len(b) < int(unsafe.Sizeof(purgeMark{})) {
		return Mark{}, fmt.Errorf("read marks: one of %d bytes", len(b))
	}
	k := (*purgeMark)(unsafe.Pointer(&b[0])) // a sample is aligned to 8 bytes
	return Mark{
		Socket: Socket{
			Client: datapath.AddrPort(k.Tuple.Src, k.Tuple.Sport), Server: datapath.AddrPort(k.Tuple.Dst, k.Tuple.Dport), Ifindex: int(k.Ifindex), Cookie: k.Cookie,
			Period: uint16(k.Period),
		},
		Policy: k.Policy, Expiry: Expiry{Count: int(k.Expiry.Count), RTO: ms(k.Expiry.Rto), Unresponsive: ms(k.Expiry.Unresponsive)},
		Within: ms(k.Within), Found: purgeMarkKind(k.Kind) == purgeMarkKindMARK_FOUND, State: stateName(k.State),
		SRTT: time.Duration(k.Srtt) * time.Microsecond,
	}, nil
}

func ms(n uint32) time.Duration { return time.Duration(n) * time.Millisecond }

// stateName returns the name of a TCP state, as in ss(8).
func stateName(state uint32) string {
	names := [...]string{
		1: "ESTAB", 2: "SYN-SENT", 3: "SYN-RECV", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2", 6: "TIME-WAIT", 7: "CLOSE", 8: "CLOSE-WAIT", 9: "LAST-ACK",
		10: "LISTEN", 11: "CLOSING",
	}
	if int(state) >= len(names) || names[state] == "" {
		return fmt.Sprintf("state %d", state)
	}
	return names[state]
}

// Answer is the state of a marked connection.
type Answer int

// The answers.
const (
	Unresponsive = Answer(purgeAnswerKindANSWER_UNRESPONSIVE) // no response since the mark
	Heard        = Answer(purgeAnswerKindANSWER_HEARD)
	Gone         = Answer(purgeAnswerKindANSWER_GONE) // closed, or another connection has the addresses
)

// Check is the answer with the state of the server's side. Sequence numbers are in host byte order.
type Check struct {
	Answer Answer
	State  string
	Una    uint32 // first unacknowledged
	Next   uint32 // next to send
	Rcv    uint32 // next expected from the client
}

// Check queries the state of marked connections; the answers are in the same order. It may be called by several goroutines.
func (p *Purge) Check(sockets []Socket) ([]Check, error) {
	out := make([]Check, len(sockets))
	for i := 0; i < len(sockets); {
		n := 1 // those of one interface
		for n < int(purgeBoundQUESTIONS) && i+n < len(sockets) && sockets[i+n].Ifindex == sockets[i].Ifindex {
			n++
		}
		err := p.ask(sockets[i:i+n], out[i:i+n])
		switch {
		case errors.Is(err, unix.ENODEV): // the interface that they are bound to is gone
			for j := range n {
				out[i+j].Answer = Gone
			}
		case err != nil:
			return nil, fmt.Errorf("check %d connections: %w", n, err)
		}
		i += n
	}
	return out, nil
}

// testSkb is the start of struct __sk_buff, up to the ingress interface.
type testSkb struct {
	_       [10]uint32
	Ifindex uint32
}

func (p *Purge) ask(sockets []Socket, out []Check) error {
	questions := make([]purgeQuestion, len(sockets))
	for i, s := range sockets {
		questions[i] = purgeQuestion{
			Tuple: purgeTuple{
				Src: s.Client.Addr().As16(), Dst: s.Server.Addr().As16(), Sport: datapath.BigEndian(s.Client.Port()), Dport: datapath.BigEndian(s.Server.Port()),
			},
			Cookie: s.Cookie, Period: s.Period,
		}
	}
	const header = int(unsafe.Sizeof(purgeInquiry{}))
	in, err := binary.Append(nil, binary.NativeEndian, purgeInquiry{Count: uint16(len(questions))})
	if err != nil {
		return err
	}
	in = append(in, bytesOf(questions)...)
	after := make([]byte, len(in))
	run := &ebpf.RunOptions{Data: in, DataOut: after}
	if sockets[0].Ifindex != 0 {
		run.Context = testSkb{Ifindex: uint32(sockets[0].Ifindex)}
	}
	if _, err := p.objects.PurgeCommand.Run(run); err != nil {
		return err
	}
	copy(bytesOf(questions), after[header:])
	for i, q := range questions {
		if q.Answer == 0 {
			return errors.New("the program has not answered")
		}
		out[i] = Check{Answer: Answer(q.Answer), State: stateName(q.State), Una: q.SndUna, Next: q.SndNxt, Rcv: q.RcvNxt}
	}
	return nil
}

// bytesOf returns the questions' memory, because encoding/binary takes longer than the kernel.
func bytesOf(q []purgeQuestion) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&q[0])), len(q)*int(unsafe.Sizeof(q[0])))
}
