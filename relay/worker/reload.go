package worker

import (
	"net/netip"
	"slices"

	"baton/relay/config"
)

// Configure applies another configuration, except for listeners: see Listen, ListenTrunks, Unlisten and UnlistenTrunks. Flows are kept, and
// so are ready trunks unless the settings of their peer have changed.
func (w *Worker) Configure(cfg *config.Config) error {
	if w.own {
		if err := w.o.Identities.Load(cfg); err != nil {
			return err
		}
	}
	return w.ask(func(w *Worker) error { return w.configure(cfg) })
}

func (w *Worker) configure(cfg *config.Config) error {
	kept, err := w.poolsOf(cfg)
	if err != nil {
		return err
	}
	w.cfg = cfg
	t := cfg.Timeouts
	w.waits[waitHeader].after = t.Header
	w.waits[waitConnect].after = t.Connect
	w.waits[waitAccept].after = t.Early
	w.waits[waitLook].after = t.Unacked / 2
	if t.Idle > 0 {
		w.waits[waitLook].after = min(w.waits[waitLook].after, t.Idle/2)
	}
	w.waits[waitYoung].after = min(youngAge, w.waits[waitLook].after)
	w.waits[waitEnd].after = t.Reset
	w.pipes.size = cfg.Limits.Pipe
	w.forgetEntries(cfg)
	for name, p := range w.pools {
		if kept[name] != p {
			p.close(w)
		}
	}
	for i := range cfg.Peers {
		peer := &cfg.Peers[i]
		p := kept[peer.Name]
		changed := p.peer.Ready != peer.Ready
		p.peer = peer
		if changed {
			p.resize(w.o.Of)
		}
	}
	w.pools = kept // filled at the next check
	w.looked = 0
	return nil
}

// poolsOf returns the pools for a configuration: existing ones, and new ones for peers whose trunk settings changed.
func (w *Worker) poolsOf(cfg *config.Config) (map[string]*pool, error) {
	out := make(map[string]*pool, len(cfg.Peers))
	for i := range cfg.Peers {
		peer := &cfg.Peers[i]
		p := w.pools[peer.Name]
		if p == nil || !alike(p.peer, peer) {
			var err error
			if p, err = newPool(peer, &w.o); err != nil {
				return nil, err
			}
		}
		out[peer.Name] = p
	}
	return out, nil
}

// alike reports whether trunks to two peers are opened in the same way.
func alike(a, b *config.Peer) bool {
	return a.Address == b.Address && a.Tuning == b.Tuning && a.Credentials.Security == b.Credentials.Security &&
		a.Credentials.Certificate == b.Credentials.Certificate && a.Credentials.Key == b.Credentials.Key && a.Credentials.Authority == b.Credentials.Authority &&
		slices.Equal(a.Credentials.Secret, b.Credentials.Secret)
}

// Unlisten closes the listener of an entry after accepting what is queued. Its flows go on.
func (w *Worker) Unlisten(name string) error {
	return w.ask(func(w *Worker) error {
		w.entries = slices.DeleteFunc(w.entries, func(e *entry) bool {
			if e.Name != name {
				return false
			}
			e.ready(w, 0)
			w.forget(e.slot)
			closeFD(e.fd)
			return true
		})
		return nil
	})
}

// UnlistenTrunks closes a listener for trunks, and its idle trunks.
func (w *Worker) UnlistenTrunks(at netip.AddrPort) error {
	return w.ask(func(w *Worker) error {
		w.trunkListeners = slices.DeleteFunc(w.trunkListeners, func(d *trunkListener) bool {
			if d.at != at {
				return false
			}
			d.ready(w, 0)
			for a := range w.idle {
				if a.listener == d {
					w.abortHandshake(a, false)
				}
			}
			w.forget(d.slot)
			closeFD(d.fd)
			return true
		})
		return nil
	})
}
