package balance

import (
	"errors"
	"iter"
	"net/netip"
	"time"

	"baton/balance/config"
	"baton/balance/policy"
	kernel "baton/datapath/forwarder"
	"baton/sockdiag"
)

// own are the inside addresses.
func (b *Balance) own() []netip.Prefix {
	in := b.state.cfg.Internal
	return []netip.Prefix{hostPrefix(in.IPv4.Addr()), hostPrefix(in.IPv6.Addr())}
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// endLost ends the connections of links that these cannot go on by, so that applications connect again at once.
func (b *Balance) endLost(ends []policy.End) {
	if b.state.cfg.Datapath != config.Baton {
		b.suspect()
		return
	}
	var failed error
	var flows iter.Seq[policy.Flow] = func(yield func(policy.Flow) bool) {
		failed = b.picks(func(p kernel.Pick) bool {
			return yield(policy.Flow{Protocol: p.Protocol, Internal: p.Inside, Remote: p.Remote, Port: p.Port, Closing: p.Closing})
		})
	}
	list := policy.Select(ends, flows)
	if failed != nil {
		b.log.Error("it is not known by which links connections go", "err", failed)
	}
	b.destroy("their link has gone, or is another one now", list)
}

// suspects are connections that may have lost their link: Open vSwitch does not know which has which. One that sends has another link now, whose
// server resets it. One that receives waits, perhaps for ever.
type suspects struct {
	since     time.Duration
	receiving map[uint64]bool // by their cookies: data had come right before
}

const (
	// lately is how long ago data may have come for a connection to be one that receives.
	lately = time.Second
	// stalledAfter is how long none of these may come until it is ended.
	stalledAfter = 2 * time.Second
)

func (b *Balance) suspect() {
	s := suspects{monotonic(), make(map[uint64]bool)}
	err := b.sockets.ListTCP(sockdiag.Filter{Local: b.own()}, func(t *sockdiag.TCP) {
		if t.SinceReceived < lately {
			s.receiving[t.Cookie] = true
		}
	})
	if err != nil {
		b.log.Error("connections that have lost their link are not found", "err", err)
	}
	b.suspects = s
}

// endStalled ends suspects to which nothing has come since.
func (b *Balance) endStalled() {
	s := b.suspects
	ago := monotonic() - s.since
	if len(s.receiving) == 0 || ago < stalledAfter {
		return
	}
	b.suspects = suspects{}
	var list []sockdiag.Socket
	err := b.sockets.ListTCP(sockdiag.Filter{Local: b.own()}, func(t *sockdiag.TCP) {
		if s.receiving[t.Cookie] && t.SinceReceived >= ago {
			list = append(list, t.Socket)
		}
	})
	if err != nil {
		b.log.Error("connections that have lost their link are not found", "err", err)
	}
	b.destroy("nothing comes any more since a link has gone", list)
}

// endAll ends the connections of the inside, which goes.
func (b *Balance) endAll() {
	var list []sockdiag.Socket
	states := sockdiag.Connected | sockdiag.In(sockdiag.SynSent)
	err := b.sockets.ListTCP(sockdiag.Filter{Local: b.own(), States: states}, func(t *sockdiag.TCP) { list = append(list, t.Socket) })
	if err != nil {
		b.log.Error("connections are not ended", "err", err)
	}
	b.destroy("the balance ends", list)
}

func (b *Balance) destroy(why string, list []sockdiag.Socket) {
	ended := uint64(0)
	for _, err := range b.sockets.Destroy(list) {
		switch {
		case err == nil:
			ended++
		case !errors.Is(err, sockdiag.ErrGone):
			b.log.Error("a connection is not ended", "why", why, "err", err)
		}
	}
	b.resets.Add(ended)
	if ended > 0 {
		b.log.Info("connections ended", "why", why, "connections", ended)
	}
}
