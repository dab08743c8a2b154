package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
)

// ErrNotHeld is the error of Release and Refuse if the SYN is no longer held: its client gave up or opened a new connection, or the SYN
// expired. A retransmission is reported again.
var ErrNotHeld = errors.New("the SYN is not held")

// These methods need only a program's descriptor: a thread with its own table may call them if the table was copied after Load.

// command runs a command with keys.
func (r *Relay) command(c relaySynCommand, keys []relaySynKey) (settled int, err error) {
	if err := datapath.Command(r.objects.RelayCommand, &c, keys); err != nil {
		return 0, fmt.Errorf("command %d: %w", c.Kind, err)
	}
	return int(c.Result), nil
}

// Settle settles SYNs whose clients were accepted, or whose onward connections were given up: they no longer count. It returns how many
// there were.
func (r *Relay) Settle(syns ...SYN) (settled int, err error) {
	for len(syns) > 0 {
		some := syns[:min(len(syns), int(relayBoundCOMMAND_KEYS))]
		syns = syns[len(some):]
		keys := make([]relaySynKey, len(some))
		for i, s := range some {
			keys[i] = s.key()
		}
		n, err := r.command(relaySynCommand{Kind: uint16(relayCommandKindCOMMAND_SETTLE), Count: uint32(len(keys))}, keys)
		settled += n
		if err != nil {
			return settled, err
		}
	}
	return settled, nil
}

// Sweep settles expired SYNs. Call it about once a second: if the table is full, SYNs pass unreported.
func (r *Relay) Sweep() (settled int, err error) {
	expire := uint32(r.options.Expire / time.Millisecond)
	return r.command(relaySynCommand{Kind: uint16(relayCommandKindCOMMAND_SWEEP), Expire: expire}, nil)
}

// Release passes a held SYN to its listener. It counts until Settle or Sweep.
func (r *Relay) Release(e Event) error { return r.replay(e, relayReplayKindREPLAY_RELEASE) }

// Refuse answers a held SYN and its retransmissions with a reset for some seconds. It no longer counts.
func (r *Relay) Refuse(e Event) error { return r.replay(e, relayReplayKindREPLAY_REFUSE) }

// replaySkb is the start of struct __sk_buff, up to the command.
type replaySkb struct {
	_    [12]uint32
	Kind uint32 // cb[0]
}

func (r *Relay) replay(e Event, kind relayReplayKind) error {
	frame, err := finished(e.Frame)
	if err != nil {
		return fmt.Errorf("replay the SYN of %v: %w", e.Client, err)
	}
	result, err := r.objects.RelayReplay.Run(&ebpf.RunOptions{Data: frame, Context: replaySkb{Kind: uint32(kind)}})
	if err != nil {
		return fmt.Errorf("replay the SYN of %v: %w", e.Client, err)
	}
	switch relayReplayResult(result) {
	case relayReplayResultREPLAY_DONE:
		return nil
	case relayReplayResultREPLAY_GONE:
		return fmt.Errorf("replay the SYN of %v: %w", e.Client, ErrNotHeld)
	}
	return fmt.Errorf("replay the SYN of %v: it could not be sent in by interface %d", e.Client, e.Ifindex)
}

// finished completes a frame's TCP checksum. A frame from this host's own stack may contain only the pseudo-header sum, which a device was
// to complete (CHECKSUM_PARTIAL). Other frames are left for the stack to verify.
func finished(frame []byte) ([]byte, error) {
	f, err := packet.Parse(frame)
	if err != nil {
		return nil, err
	}
	if f.Protocol != packet.ProtocolTCP {
		return nil, errors.New("the frame is not TCP")
	}
	if f.TCP().Checksum() == packet.PseudoHeader(f.Src.Addr(), f.Dst.Addr(), f.Protocol, f.End-f.L4) {
		f.TCP().SetChecksum(0)
		f.TCP().SetChecksum(f.TransportChecksum())
	}
	return frame, nil
}
