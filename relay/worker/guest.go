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

// guest is a client end that says where its flow is to go, and is told what became of that: a trunk of another relay, or a client
// that speaks one of the entries' prefaces.
type guest struct {
	from  netip.AddrPort           // of a trunk
	probe bool                     // nobody's flow: a distance is measured
	asked chan<- trunkproto.Answer // of a probe of this relay's own, which has no client end; nil: none, or it was told
	since time.Time                // when what a probe measures began
	words *proxyheader.Parser      // nil: a trunk
	text  []byte                   // of the preface, as far as it is here and was not taken
}

// granted is what it is told when the server is there.
func (g *guest) granted(a trunkproto.Answer) []byte {
	if g.words != nil {
		return g.words.AppendGranted(nil, netip.AddrPort{})
	}
	return a.Append(nil)
}

// refused is what it is told when the server is not; nothing: it is reset.
func (g *guest) refused(a trunkproto.Answer) []byte {
	if g.words != nil {
		return g.words.AppendRefused(nil, a.Status)
	}
	return a.Append(nil)
}

// hasPreface tells whether flows of the mode begin with words about themselves.
func hasPreface(m config.Mode) bool {
	return m == config.Proxy || m == config.SOCKS5 || m == config.Connect
}

// hear reads a preface.
func (w *Worker) hear(s *split) {
	client, g := &s.ends[flow.Client], s.guest
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
		g.text = append(g.text, w.scratch[:n]...)
		for {
			took, reply, done, err := g.words.Feed(g.text)
			g.text = g.text[took:]
			if len(reply) > 0 {
				_, _ = write(client.fd, reply) // fits: nothing else was written
			}
			if err != nil {
				w.count.BadPrefaces.Add(1)
				w.o.Log.Debug("preface refused", "entry", s.entry.Name, "client", s.client, "err", err)
				w.sayGoodbye(s, len(reply) > 0)
				return
			}
			if done {
				w.understood(s)
				return
			}
			if took == 0 {
				break
			}
		}
	}
}

// understood is called when the preface has said where the flow is to go.
func (w *Worker) understood(s *split) {
	t := &s.guest.words.Target
	if t.Client.IsValid() {
		s.client = t.Client
	}
	if len(s.guest.text) > 0 {
		w.say(s, flow.Client, s.guest.text)
		w.came(s, len(s.guest.text))
		s.guest.text = nil
	}
	s.server = t.Server
	if t.Host == "" {
		w.onward(s)
		return
	}
	s.stage = stageConnecting
	w.await(&s.waiter, waitConnect)
	host, port, within := t.Host, t.Port, w.waits[waitConnect].after
	go w.resolve(s, host, port, within)
}

// resolve looks a name up, on a goroutine of its own, for the worker to go on with the first address.
func (w *Worker) resolve(s *split, host string, port uint16, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("no address")
	}
	_ = w.post(func(w *Worker) {
		if s.stage != stageConnecting {
			return
		}
		if err != nil {
			w.o.Log.Debug("name not resolved", "name", host, "err", err)
			w.turnAway(s, s.own(trunkproto.Unreachable))
			return
		}
		s.server = netip.AddrPortFrom(addrs[0].Unmap(), port)
		w.onward(s)
	})
}
