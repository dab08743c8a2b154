package relay

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/packet"
)

// ErrNotHeld is the error of Release and Refuse when the SYN is not held any more: its client has given it up or begun anew, or it has
// waited too long. Repeated, it is told of again.
var ErrNotHeld = errors.New("the SYN is not held")

// The methods here need no descriptor but a program's: a thread with a table of its own may call them if that was copied after Load.

// command runs one, with keys behind it.
func (r *Relay) command(c relaySynCommand, keys []relaySynKey) (settled int, err error) {
	if err := datapath.Command(r.objects.RelayCommand, &c, keys); err != nil {
		return 0, fmt.Errorf("command %d: %w", c.Kind, err)
	}
	return int(c.Result), nil
}

// Settle settles SYNs whose clients were accepted, or whose onward connections were given up: they do not count any more. It returns how
// many there were.
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

// Sweep settles the SYNs that nobody has settled in time. To be called about once a second: a full table is told of nothing.
func (r *Relay) Sweep() (settled int, err error) {
	expire := uint32(r.options.Expire / time.Millisecond)
	return r.command(relaySynCommand{Kind: uint16(relayCommandKindCOMMAND_SWEEP), Expire: expire}, nil)
}

// Release gives a SYN that is held to its listener. It counts until Taken or Sweep.
func (r *Relay) Release(e Event) error { return r.replay(e, relayReplayKindREPLAY_RELEASE) }

// Refuse answers a SYN that is held with a reset, and its repetitions for some seconds. It does not count any more.
func (r *Relay) Refuse(e Event) error { return r.replay(e, relayReplayKindREPLAY_REFUSE) }

// replaySkb is the start of struct __sk_buff up to where the command is.
type replaySkb struct {
	_    [12]uint32
	Kind uint32 // cb[0]
}

func (r *Relay) replay(e Event, kind relayReplayKind) error {
	frame, err := finished(e.Frame)
	if err != nil {
		return fmt.Errorf("give back the SYN of %v: %w", e.Client, err)
	}
	result, err := r.objects.RelayReplay.Run(&ebpf.RunOptions{Data: frame, Context: replaySkb{Kind: uint32(kind)}})
	if err != nil {
		return fmt.Errorf("give back the SYN of %v: %w", e.Client, err)
	}
	switch relayReplayResult(result) {
	case relayReplayResultREPLAY_DONE:
		return nil
	case relayReplayResultREPLAY_GONE:
		return fmt.Errorf("give back the SYN of %v: %w", e.Client, ErrNotHeld)
	}
	return fmt.Errorf("give back the SYN of %v: it could not be sent in by interface %d", e.Client, e.Ifindex)
}

// finished returns a frame whose TCP checksum is whole. One that came from this host's own stack may have only the pseudo header's sum in
// its place, which a device was to finish (CHECKSUM_PARTIAL). Any other is left alone, for the stack to judge.
func finished(frame []byte) ([]byte, error) {
	f, err := packet.Parse(frame)
	if err != nil {
		return nil, err
	}
	if f.Protocol != packet.ProtocolTCP {
		return nil, errors.New("the frame is not of TCP")
	}
	if f.TCP().Checksum() == packet.PseudoHeader(f.Src.Addr(), f.Dst.Addr(), f.Protocol, f.End-f.L4) {
		f.TCP().SetChecksum(0)
		f.TCP().SetChecksum(f.TransportChecksum())
	}
	return frame, nil
}
