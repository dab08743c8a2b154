package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/resume/forward"
)

// proxyOptions are the proxy's own flags.
type proxyOptions struct {
	listen         string
	allow, upgrade []string
	log            cli.Log
}

func getProxyCommand(e cli.Env) *cobra.Command {
	var (
		o getOptions
		p proxyOptions
	)
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Run a proxy that resumes downloads of programs on this host",
		Long: `Run a proxy. Browsers, package managers and curl (http_proxy=http://127.0.0.1:8118/) get downloads over http that are resumed after any break.
https passes through a tunnel and cannot be resumed, unless a client requests http:// from a host named by --upgrade.`,
		Example: `  baton get proxy --upgrade deb.debian.org   # then: http_proxy=http://127.0.0.1:8118/ apt-get update
  baton get proxy --listen 192.0.2.1:8118 --allow 192.0.2.0/24`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.log.Failed(p.log.Logger(e.Err), getProxy(cmd.Context(), e, &o, &p))
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&p.listen, "listen", "127.0.0.1:8118", "listen on this `address:port`")
	f.StringArrayVar(&p.allow, "allow", nil, "also let clients from this `prefix` use the proxy; may be repeated")
	f.StringArrayVar(&p.upgrade, "upgrade", nil, "fetch from this `host` by https if a client requests http; may be repeated")
	o.boundFlags(f)
	o.networkFlags(f)
	p.log.Flags(c)
	return c
}

// getProxy runs the proxy.
func getProxy(ctx context.Context, e cli.Env, o *getOptions, own *proxyOptions) error {
	listen, err := netip.ParseAddrPort(own.listen)
	if err != nil {
		return cli.Usagef("--listen: %q is not an address with its port, such as 127.0.0.1:8118", own.listen)
	}
	j := new(getJob)
	for _, step := range []func(*getJob) error{o.bounds, o.network} {
		if err := step(j); err != nil {
			return cli.UsageError{Err: err}
		}
	}
	log := own.log.Logger(e.Err)
	if o.silent {
		log = slog.New(slog.DiscardHandler)
	}
	p := forward.Options{Client: j.options, Dialer: j.dialer, Upgrade: own.upgrade, Log: log}
	p.Client.Lanes = 1 // bounds the memory of a request
	for _, text := range own.allow {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return cli.Usagef("--allow: %q is not a prefix, such as 192.0.2.0/24", text)
		}
		p.Allow = append(p.Allow, prefix)
	}
	if err := p.Check(listen); err != nil {
		return cli.Usagef("--listen: %w: --allow", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen.String())
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	log.Info("ready", "proxy", "http://"+l.Addr().String())
	return forward.New(p).Serve(ctx, l)
}
