package adversary

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/lab"
	"baton/lab/peers"
	"baton/sockdiag"
)

// haproxy is HAProxy in the router's place, with the same routes.
func haproxy(reuse string) contender {
	return contender{name: "haproxy " + reuse, is: "HAProxy in HTTP mode, `http-reuse " + reuse + "`",
		start: func(_ context.Context, n *network, _ string) (subject, error) { return startHAProxy(n, reuse) }}
}

type proxy struct {
	*peers.Server
	n    *network
	diag *sockdiag.Conn
	down int // times it has logged so
}

func startHAProxy(n *network, reuse string) (subject, error) {
	lo := n.router.Interface("lo")
	for _, vip := range []string{handoffVIP.Addr().String(), proxyVIP.Addr().String()} {
		lo.Address(vip + "/32")
	}
	p := &proxy{Server: peers.HAProxy(n.router, peers.HAProxyOptions{Config: n.proxyConfig(reuse)}), n: n}
	err := n.router.Do(func() (err error) {
		p.diag, err = sockdiag.Open()
		return err
	})
	return p, err
}

func (n *network) proxyConfig(reuse string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `global
	maxconn 4000
	stats socket %s mode 600
	log stdout format raw local0 notice
	tune.idle-pool.shared on
defaults
	mode http
	log global
	option http-keep-alive
	http-reuse %s
	timeout connect 5s
	timeout client 50s
	timeout server 50s
	timeout http-request 3s
	timeout client-fin 1s
frontend vip
	bind :::80 v4v6
	http-request return status 200 if { path /healthz }
	use_backend a if { path_beg /a/ } or { path_beg /u/a/ }
	use_backend b if { path_beg /b/ }
	use_backend p if { path_beg /p/ }
	use_backend odd if { path_beg /x/ }
	use_backend l if { path_beg /l/ }
	default_backend none
backend none
	http-request return status 404
`, filepath.Join(n.Dir(), "haproxy.sock"), reuse)
	for _, pool := range pools {
		fmt.Fprintf(&b, "backend %s\n\tbalance roundrobin\n", pool)
		for _, s := range n.members(pool) {
			fmt.Fprintf(&b, "\tserver %s %s check inter 2s pool-max-conn 1000\n", s.name, s.address)
		}
	}
	return b.String()
}

func (p *proxy) version() string { return p.Version }

func (p *proxy) check(context.Context) {
	select {
	case <-p.Done():
		p.n.ledger.add(Process, "HAProxy has ended: %s", tail(p.Log(), 2000))
	default:
	}
	if down := strings.Count(p.Log(), " is DOWN"); down > p.down {
		p.n.ledger.add(Down, "HAProxy says so of %d", down-p.down)
		p.down = down
	}
}

// settle counts the clients' sockets; those to the surrogates are HAProxy's own business.
func (p *proxy) settle(context.Context, Batch) {
	left := 0
	err := lab.Poll(settleWithin, func() error {
		left = 0
		states := sockdiag.In(sockdiag.Established, sockdiag.CloseWait)
		err := p.diag.ListTCP(sockdiag.Filter{States: states}, func(c *sockdiag.TCP) {
			if to := c.Local.Addr().Unmap(); to == handoffVIP.Addr() || to == proxyVIP.Addr() {
				left++
			}
		})
		if err == nil && left > 0 {
			err = fmt.Errorf("%d sessions are left", left)
		}
		return err
	})
	if err != nil {
		p.n.ledger.add(Legs, "%v after all have left: %v", settleWithin, err)
	}
}

func (p *proxy) dump() string { return tail(p.Logs(), 2000) }

func (p *proxy) stop() error {
	err := p.Process.Stop(2 * time.Second)
	if p.diag != nil {
		p.diag.Close()
	}
	lo := p.n.router.Interface("lo")
	for _, vip := range []string{handoffVIP.Addr().String(), proxyVIP.Addr().String()} {
		lo.RemoveAddress(vip + "/32")
	}
	_ = os.Remove(filepath.Join(p.n.Dir(), "haproxy.sock"))
	return err
}
