package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"baton/resume/forward"
)

// getProxy runs the proxy of this host.
func getProxy(ctx context.Context, e env, o *getOptions, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("--proxy takes no URLs: %s", args[0])}
	}
	listen, err := netip.ParseAddrPort(o.proxy)
	if err != nil {
		return usageError{fmt.Errorf("--proxy: %q is not an address with its port, such as 127.0.0.1:8118", o.proxy)}
	}
	j := new(getJob)
	for _, step := range []func(*getJob) error{o.bounds, o.network} {
		if err := step(j); err != nil {
			return usageError{err}
		}
	}
	p := forward.Options{Client: j.options, Dialer: j.dialer, Upgrade: o.upgrade, Log: slog.New(slog.NewTextHandler(e.err, nil))}
	p.Client.Lanes = 1 // what a request may keep in memory is bounded by that
	if o.silent {
		p.Log = nil
	}
	for _, text := range o.allow {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return usageError{fmt.Errorf("--allow: %q is not a prefix, such as 192.0.2.0/24", text)}
		}
		p.Allow = append(p.Allow, prefix)
	}
	if err := p.Check(listen); err != nil {
		return usageError{fmt.Errorf("--proxy: %w: --allow", err)}
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen.String())
	if err != nil {
		return fmt.Errorf("--proxy: %w", err)
	}
	if !o.silent {
		fmt.Fprintf(e.err, "proxy on http://%s\n", l.Addr())
	}
	return forward.New(p).Serve(ctx, l)
}
