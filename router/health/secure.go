package health

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"baton/router/certs"
	"baton/router/proxyheader"
)

// maxHandshakes is how many names a check asks for. A pool with more of them is asked for the others by the next checks.
const maxHandshakes = 4

// turn is how far the checks of a surrogate have come with its names.
type turn struct {
	next int    // index of the name to go on with
	good string // had a certificate at the last check; "" if none
}

// choose returns the names for a check. One that had a certificate at the last check is among them: a surrogate that still has one is not
// taken down for names that it lacks.
func (t *turn) choose(names []certs.Ask) []certs.Ask {
	if len(names) <= maxHandshakes {
		return names
	}
	var out []certs.Ask
	if i := slices.IndexFunc(names, func(a certs.Ask) bool { return a.Name == t.good }); i >= 0 && t.good != "" {
		out = append(out, names[i])
	}
	for len(out) < maxHandshakes {
		ask := names[t.next%len(names)]
		t.next = (t.next + 1) % len(names)
		if !slices.Contains(out, ask) {
			out = append(out, ask)
		}
	}
	return out
}

// secureProbe checks surrogates with TLS.
type secureProbe struct{ dial proxyheader.Dial }

// check makes handshakes, and a request if the check has a path. It returns what the surrogate has shown, also after a failure.
func (p *secureProbe) check(ctx context.Context, t Target, turn *turn) ([]certs.Seen, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Check.Timeout)
	defer cancel()
	results := certs.Surrogate(expecting(ctx, t), p.dial, t.Address, turn.choose(t.Names))
	turn.good = ""
	var over *certs.Result // carries the request
	for i := range results {
		r := &results[i]
		if r.Conn == nil {
			continue
		}
		defer r.Conn.Close()
		if over == nil {
			over = r
			turn.good = r.Name
		}
	}
	err := certs.Judge(results)
	switch {
	case err != nil:
		err = failure(ctx, t, err)
	case t.Check.Path != "" && over == nil:
		err = fmt.Errorf("check %s: no request for %s without a handshake: %w (set health.host to a name that it has)", t.Address, t.Check.Path, noHandshake(results))
	case t.Check.Path != "":
		err = p.request(ctx, t, over)
	}
	var seen []certs.Seen
	for i := range results {
		if results[i].Leaf != nil || results[i].Refused != "" {
			seen = append(seen, results[i].Seen)
		}
	}
	return seen, err
}

var errRefused = errors.New("the surrogate refuses clients without a certificate")

func noHandshake(results []certs.Result) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return errRefused
}

// request makes the check's request over a connection whose handshake is complete.
func (p *secureProbe) request(ctx context.Context, t Target, over *certs.Result) error {
	h2 := over.Protocol == "h2"
	transport := &http.Transport{
		DialTLSContext:         func(context.Context, string, string) (net.Conn, error) { return over.Conn, nil },
		TLSClientConfig:        &tls.Config{},
		DisableCompression:     true,
		DisableKeepAlives:      !h2,
		MaxResponseHeaderBytes: 64 << 10,
		Protocols:              new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(!h2)
	transport.Protocols.SetHTTP2(h2)
	defer transport.CloseIdleConnections()
	host := t.Check.Host
	if host == "" {
		host = over.Name
	}
	header, err := requestCheck(ctx, transport, t, "https", host)
	if err == nil {
		over.HTTP3 = slices.ContainsFunc(header.Values("Alt-Svc"), func(v string) bool { return strings.Contains(v, `h3="`) || strings.Contains(v, "h3=:") })
	}
	return err
}

// keepSeen keeps what a surrogate has shown, and reports another certificate than before.
func (c *Checker) keepSeen(w *watched, seen []certs.Seen) {
	changed := false
	c.mu.Lock()
	for _, s := range seen {
		i := slices.IndexFunc(w.seen, func(old certs.Seen) bool { return old.Ask == s.Ask })
		switch {
		case i < 0:
			w.seen = append(w.seen, s)
			changed = true
		case !same(&w.seen[i], &s):
			w.seen = slices.Clone(w.seen) // readers have it
			w.seen[i] = s
			changed = true
		}
	}
	c.mu.Unlock()
	if changed {
		c.onSeen()
	}
}

func same(a, b *certs.Seen) bool {
	if a.Protocol != b.Protocol || a.HTTP3 != b.HTTP3 || a.Refused != b.Refused || (a.Leaf == nil) != (b.Leaf == nil) {
		return false
	}
	return a.Leaf == nil || bytes.Equal(a.Leaf.Raw, b.Leaf.Raw)
}

// Seen returns what the checks of a surrogate have been shown, in no order.
func (c *Checker) Seen(surrogate string) []certs.Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.watched[surrogate]; ok {
		return w.seen
	}
	return nil
}
