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

// own returns the internal addresses.
func (b *Balance) own() []netip.Prefix {
	in := b.state.cfg.Internal
	return []netip.Prefix{hostPrefix(in.IPv4.Addr()), hostPrefix(in.IPv6.Addr())}
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// endLost ends the connections that lost their link, so that applications reconnect at once.
func (b *Balance) endLost(ends []policy.End) {
	if b.state.cfg.Datapath != config.Baton {
		b.suspect()
		return
	}
	var failed error
	var flows iter.Seq[policy.Flow] = func(yield func(policy.Flow) bool) {
		failed = b.bindings(func(p kernel.Binding) bool {
			return yield(policy.Flow{Protocol: p.Protocol, Internal: p.Internal, Remote: p.Remote, Port: p.Port, Closing: p.Closing})
		})
	}
	list := policy.Select(ends, flows)
	if failed != nil {
		b.log.Error("cannot read which links connections use", "err", failed)
	}
	b.destroy("their link has gone or has changed", list)
}

// suspects are connections that may have lost their link: Open vSwitch does not know which connection uses which link. One that sends moves
// to another link, and its server resets it. One that only receives may wait forever.
type suspects struct {
	since     time.Duration
	receiving map[uint64]bool // by cookie: data had arrived shortly before
}

const (
	// lately bounds the time since the last data of a receiving connection.
	lately = time.Second
	// stalledAfter is how long a suspect may stay without data before it is ended.
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
		b.log.Error("cannot find connections that have lost their link", "err", err)
	}
	b.suspects = s
}

// endStalled ends suspects that have received nothing since.
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
		b.log.Error("cannot find connections that have lost their link", "err", err)
	}
	b.destroy("nothing has arrived since a link went down", list)
}

// endAll ends all connections with internal addresses, which are about to be removed.
func (b *Balance) endAll() {
	var list []sockdiag.Socket
	states := sockdiag.Connected | sockdiag.In(sockdiag.SynSent)
	err := b.sockets.ListTCP(sockdiag.Filter{Local: b.own(), States: states}, func(t *sockdiag.TCP) { list = append(list, t.Socket) })
	if err != nil {
		b.log.Error("cannot list the connections to end", "err", err)
	}
	b.destroy("the balance stops", list)
}

func (b *Balance) destroy(why string, list []sockdiag.Socket) {
	ended := uint64(0)
	for _, err := range b.sockets.Destroy(list) {
		switch {
		case err == nil:
			ended++
		case !errors.Is(err, sockdiag.ErrGone):
			b.log.Error("cannot end a connection", "why", why, "err", err)
		}
	}
	b.resets.Add(ended)
	if ended > 0 {
		b.log.Info("connections ended", "why", why, "connections", ended)
	}
}
