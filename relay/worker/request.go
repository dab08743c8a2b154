package worker

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/flow"
	"baton/relay/proxyheader"
	"baton/relay/trunkproto"
)

// request is how a flow's server was requested: by another relay's trunk header, or by a client's proxy header. It determines the reply.
type request struct {
	from    netip.AddrPort           // of a trunk
	probe   bool                     // no flow: a distance is measured
	answers chan<- trunkproto.Answer // of this relay's own probe, which has no client end; nil: none, or answered
	since   time.Time                // start of a probe's measurement
	parser  *proxyheader.Parser      // nil: a trunk
	pending []byte                   // received bytes that the parser has not consumed
	others  []netip.Addr             // of the server's name, not tried yet
	// stopLookup ends the lookup of the server's name; nil: there is none.
	stopLookup context.CancelFunc
}

// connectedReply is the reply when the server is connected.
func (g *request) connectedReply(a trunkproto.Answer) []byte {
	if g.parser != nil {
		return g.parser.AppendGranted(nil, netip.AddrPort{})
	}
	return a.Append(nil)
}

// refusedReply is the reply when the server is unavailable; empty: reset.
func (g *request) refusedReply(a trunkproto.Answer) []byte {
	if g.parser != nil {
		return g.parser.AppendRefused(nil, a.Status)
	}
	return a.Append(nil)
}

// hasProxyHeader reports whether flows of the mode start with a header.
func hasProxyHeader(m config.Mode) bool {
	return m == config.Proxy || m == config.SOCKS5 || m == config.Connect
}

// readProxyHeader reads a client's header.
func (w *Worker) readProxyHeader(s *split) {
	client, g := &s.ends[flow.Client], s.request
	for client.readable {
		n, errno := read(client.fd, w.scratch[:proxyheader.Max])
		if errno == unix.EAGAIN {
			client.readable = false
			return
		}
		if errno != 0 || n == 0 {
			w.drop(s)
			return
		}
		g.pending = append(g.pending, w.scratch[:n]...)
		for {
			took, reply, done, err := g.parser.Feed(g.pending)
			g.pending = g.pending[took:]
			if len(reply) > 0 {
				_, _ = write(client.fd, reply) // fits: nothing else was written
			}
			if err != nil {
				w.count.BadClientHeaders.Add(1)
				w.o.Log.Debug("header refused", "entry", s.entry.Name, "client", s.client, "err", err)
				w.closeRefused(s, len(reply) > 0)
				return
			}
			if done {
				w.headerDone(s)
				return
			}
			if took == 0 {
				break
			}
		}
	}
}

// headerDone is called when the header is complete.
func (w *Worker) headerDone(s *split) {
	t := &s.request.parser.Target
	if t.Client.IsValid() {
		s.client = t.Client
	}
	if len(s.request.pending) > 0 {
		w.prepend(s, flow.Client, s.request.pending)
		w.countClientBytes(s, len(s.request.pending))
		s.request.pending = nil
	}
	s.server = t.Server
	if t.Host == "" {
		w.startOnward(s)
		return
	}
	s.stage = stageConnecting
	w.startWait(&s.waiter, waitConnect)
	host, port := t.Host, t.Port
	ctx, cancel := context.WithTimeout(context.Background(), w.waits[waitConnect].after)
	s.request.stopLookup = cancel
	w.lookups.Go(func() {
		defer cancel()
		w.resolve(ctx, s, host, port)
	})
}

// resolve looks up a name on its own goroutine, until its flow ends; the worker continues with its addresses.
func (w *Worker) resolve(ctx context.Context, s *split, host string, port uint16) {
	addrs, err := w.o.LookUp(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("no address")
	}
	_ = w.post(func(w *Worker) {
		if s.stage != stageConnecting {
			return
		}
		if err != nil {
			w.o.Log.Debug("name not resolved", "name", host, "err", err)
			w.reject(s, s.answer(trunkproto.Unreachable))
			return
		}
		s.server, s.request.others = netip.AddrPortFrom(addrs[0].Unmap(), port), addrs[1:]
		w.startOnward(s)
	})
}

// lookUpSystem asks the system's resolver.
func lookUpSystem(ctx context.Context, name string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// nextAddress sends a flow that has not reached its server to the next address of the server's name. False: there is none.
func (w *Worker) nextAddress(s *split) bool {
	if s.request == nil || len(s.request.others) == 0 || s.answered || s.stage != stageConnecting || s.trunk != nil || s.ends[flow.Client].fd < 0 {
		return false
	}
	w.abandonServer(s)
	s.server, s.request.others = netip.AddrPortFrom(s.request.others[0].Unmap(), s.server.Port()), s.request.others[1:]
	w.startOnward(s)
	return true
}
