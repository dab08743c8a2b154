package upcall

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"sync"
	"time"

	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/packet"
	"baton/router/fallback"
	"baton/router/legs"
	"baton/router/outcome"
	"baton/router/state"
)

// Kernel is the data path, as a decision needs it. datapath/router.Router implements it.
type Kernel interface {
	Pending(client, vip netip.AddrPort) (kernel.Pending, error)
	ForgetUpcall(client, vip netip.AddrPort, seq packet.Seq)
	Decide(client, vip netip.AddrPort, seq packet.Seq, d kernel.Decision) error
	KeepName(client, vip netip.AddrPort, name string)
	KeepHead(client, vip netip.AddrPort, name, head []byte)
}

// Legs are the legs that sessions are spliced to. legs.Manager implements it.
type Legs interface {
	Local(surrogate uint16) bool
	WaitIdle(ctx context.Context, surrogate uint16, class uint8) error
	WaitKept(ctx context.Context, surrogate uint16, class uint8, client, vip netip.AddrPort) (legs.KeptLeg, error)
}

// Tap is where packets come up, and go back for their replay. Its frames have a virtio-net header in front. datapath.Tap implements
// it.
type Tap interface {
	Read(frame []byte) (int, error)
	Write(frame []byte) error
	Close() error
}

// Options of a Decider. Functions may be called from several goroutines, and must not call the Decider.
type Options struct {
	Kernel Kernel
	Legs   Legs
	Tap    Tap
	MSS    []uint16 // of the legs' classes
	Log    *slog.Logger

	// Snapshot is the one in force.
	Snapshot func() *state.Snapshot
	// Pick chooses a surrogate of a pool, as state.Pool.Pick does.
	Pick func(p *state.Pool, q *state.Question, exclude []string) (state.Choice, bool)
	// Verdicts are the answers of a VIP's socket that have been decided before it accepts the client.
	Verdicts func(vip netip.AddrPort) *fallback.Verdicts
	// EndOldSocket removes the host's socket of an earlier session between the same ports.
	EndOldSocket func(vip, client netip.AddrPort) error
	// Decided gets each decision, and how long after the request's first packet it was in force.
	Decided func(vip netip.AddrPort, what outcome.Outcome, took time.Duration)
	// HandedOff gets each session that is spliced to a surrogate.
	HandedOff func(vip netip.AddrPort, surrogate string)
}

// Decider decides for clients whose request the kernel did not decide. It keeps their packets, none of which is acknowledged,
// until a request or a hello is whole, and replays them when the kernel has the decision.
type Decider struct {
	o       Options
	chosen  handedOver[string] // surrogates
	reasons handedOver[outcome.Outcome]

	mu       sync.Mutex
	clients  map[clientKey]*pending
	holding  *holding
	replayed replayed
	deciding int  // decisions in the background
	stopped  bool // Run has ended: no timer may do anything
	departed chan departure
	wg       sync.WaitGroup
}

// clientKey is a client's session at a VIP.
type clientKey struct{ client, vip netip.AddrPort }

const (
	// maxDeciding bounds the requests being decided, most of which wait for a leg. Other clients retransmit.
	maxDeciding = 4096
	// assigners is the number of goroutines that assign clients to sockets, maxDeparted the length of their queue.
	assigners   = 4
	maxDeparted = 4096
)

// New makes a Decider, which does nothing before Run.
func New(o Options) *Decider {
	return &Decider{
		o: o, clients: make(map[clientKey]*pending), holding: newHolding(heldBytes), replayed: make(replayed),
		departed: make(chan departure, maxDeparted),
	}
}

// Run reads packets from the tap until ctx is done; then it closes the tap and waits for its goroutines. Afterwards nothing of
// it is left: no timer, no goroutine.
func (d *Decider) Run(ctx context.Context) error {
	d.wg.Go(func() { d.expireClients(ctx) })
	for range assigners {
		d.wg.Go(func() { d.assignDeparted(ctx) })
	}
	defer d.stop()
	stop := context.AfterFunc(ctx, func() { _ = d.o.Tap.Close() })
	defer stop()
	buf := make([]byte, 65536+datapath.VnetHeader+packet.EthernetSize)
	for {
		n, err := d.o.Tap.Read(buf)
		if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		if n > datapath.VnetHeader {
			d.receive(ctx, buf[:n])
		}
	}
}

// stop ends the timers and waits for the goroutines.
func (d *Decider) stop() {
	d.mu.Lock()
	d.stopped = true
	for _, p := range d.clients {
		p.stopTimer()
	}
	d.mu.Unlock()
	d.wg.Wait()
}

// TakeChosen returns the surrogate that was chosen for a client that has been handed over to a socket, and forgets it; "" if none
// was.
func (d *Decider) TakeChosen(client, vip netip.AddrPort) string {
	return d.chosen.takeValue(clientKey{client, vip})
}

// TakeReason returns why a client has been handed over to a socket, and forgets it; "" if it was not, or long ago.
func (d *Decider) TakeReason(client, vip netip.AddrPort) outcome.Outcome {
	return d.reasons.takeValue(clientKey{client, vip})
}
