package certs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/document"
	"baton/router/config"
	"baton/router/proxyheader"
	"baton/router/route"
)

const (
	connectTimeout = 3 * time.Second // for the handshakes with a surrogate
	connectAtOnce  = 16              // surrogates
	namesAtOnce    = 16              // of a surrogate
)

// Connect makes handshakes with all surrogates of encrypted pools and all names, once and from here, and returns the warnings, one line
// each, in the form of errors in the configuration.
func Connect(ctx context.Context, cfg *config.Config) ([]string, error) {
	routes, err := route.Compile(cfg)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{}
	dialer.SetMultipathTCP(false) // middleboxes may drop its options
	var (
		group errgroup.Group
		mu    sync.Mutex
		seen  = make(map[string][]Seen)
		fails = make(map[string]error)
	)
	group.SetLimit(connectAtOnce)
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		if !p.Encrypted {
			continue
		}
		asks := Names(cfg, p)
		dial := proxyheader.Own(dialer.DialContext, func(context.Context) proxyheader.Version { return proxyheader.Of(p) })
		for j := range p.Surrogates {
			s := &p.Surrogates[j]
			group.Go(func() error {
				shown, err := once(ctx, dial, s, asks)
				mu.Lock()
				defer mu.Unlock()
				seen[s.Name], fails[s.Name] = shown, err
				return nil
			})
		}
	}
	_ = group.Wait() // no error is returned to it
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r := &Report{}
	for _, p := range cfg.Pools {
		for j, s := range p.Surrogates {
			var refused *refusal // Look says it
			if err := fails[s.Name]; err != nil && !errors.As(err, &refused) {
				r.warn(cfg, document.Index(document.Join("pools", p.Name)+".surrogates", j), err.Error())
			}
		}
	}
	looked := Look(cfg, routes, func(surrogate string) []Seen { return seen[surrogate] }, time.Now())
	return append(r.Warnings, looked.Warnings...), nil
}

// once asks a surrogate for all names.
func once(ctx context.Context, dial proxyheader.Dial, s *config.Surrogate, asks []Ask) (seen []Seen, err error) {
	var all []Result
	for len(asks) > 0 {
		n := min(len(asks), namesAtOnce)
		some, cancel := context.WithTimeout(ctx, connectTimeout)
		all = append(all, Surrogate(some, dial, s.Address, asks[:n])...)
		cancel()
		asks = asks[n:]
		if Judge(all) != nil {
			break // the others would fail alike, each after its time
		}
	}
	for _, r := range all {
		if r.Conn != nil {
			r.Conn.Close()
		}
		if r.Leaf != nil || r.Refused != "" {
			seen = append(seen, r.Seen)
		}
	}
	if err = Judge(all); errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer of %s within %s", s.Address, connectTimeout)
	}
	return seen, err
}
