package scale

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/experiments/handoff"
	"baton/lab"
	"baton/lab/peers"
)

// A proxy gets some servers of the farm, as its idle clients need no connections to them.
const proxied = 8

// haproxy is HAProxy as in handoff, with a route to the farm and sessions that may be idle for long.
func (g *stage) haproxy() handoff.Contender {
	return handoff.Contender{Name: "haproxy", Is: "HTTP mode, `http-reuse always`, long timeouts",
		Start: func(ctx context.Context, t *handoff.Turn) error {
			return g.behind(ctx, t, func() (*lab.Process, string, error) {
				s := peers.HAProxy(t.Topology.Router, peers.HAProxyOptions{Config: g.haproxyConfig()})
				return s.Process, s.Version, nil
			})
		}}
}

func (g *stage) haproxyConfig() string {
	var b strings.Builder
	b.WriteString(`global
	maxconn 9000
	tune.idle-pool.shared on
defaults
	mode http
	option http-keep-alive
	http-reuse always
	timeout connect 5s
	timeout client 1h
	timeout server 1h
frontend vip
	bind :::80 v4v6
	use_backend idle if { path_beg /idle/ }
	default_backend load
backend load
	balance roundrobin
`)
	for i, a := range g.network.Addresses() {
		fmt.Fprintf(&b, "\tserver s%d %s pool-max-conn 1000\n", i+1, a)
	}
	b.WriteString("backend idle\n\tbalance roundrobin\n")
	for i := range uint32(proxied) {
		fmt.Fprintf(&b, "\tserver f%d %s:80 pool-max-conn 1000\n", i+1, address(firstServer+i))
	}
	return b.String()
}

// nginx is nginx as in handoff, with a route to the farm and sessions that may be idle for long.
func (g *stage) nginx() handoff.Contender {
	return handoff.Contender{Name: "nginx", Is: "`proxy_pass`, connections kept on both sides, long timeouts",
		Start: func(ctx context.Context, t *handoff.Turn) error {
			return g.behind(ctx, t, func() (p *lab.Process, version string, err error) {
				dir, err := os.MkdirTemp(t.Lab.Dir(), "nginx-idle-")
				if err != nil {
					return nil, "", err
				}
				file := filepath.Join(dir, "nginx.conf")
				if err := os.WriteFile(file, []byte(strings.ReplaceAll(g.nginxConfig(), "{dir}", dir)), 0o600); err != nil {
					return nil, "", err
				}
				p, err = t.Topology.Router.Start(lab.Program{Path: "nginx",
					Args: []string{"-p", dir, "-c", file, "-e", dir + "/error.log", "-g", "daemon off;"}})
				return p, "", err // the surrogates' version, which is known
			})
		}}
}

func (g *stage) nginxConfig() string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("user root;\nworker_processes auto;\nworker_rlimit_nofile 20000;\npid {dir}/nginx.pid;")
	p("events { worker_connections 19000; }\nhttp {\naccess_log off;\nkeepalive_timeout 1h;\nkeepalive_requests 1000000000;")
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		p("%s_temp_path {dir}/%s;", kind, kind)
	}
	upstream := func(name string, servers []string) {
		p("upstream %s {\nserver %s;\nkeepalive 256;\nkeepalive_requests 1000000000;\n}", name, strings.Join(servers, ";\nserver "))
	}
	var load, idle []string
	for _, a := range g.network.Addresses() {
		load = append(load, a.String())
	}
	for i := range uint32(proxied) {
		idle = append(idle, address(firstServer+i)+":80")
	}
	upstream("load", load)
	upstream("idle", idle)
	p("server {\nlisten 80;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";")
	p("location / { proxy_pass http://load; }\nlocation %s { proxy_pass http://idle; }\n}\n}", pathPrefix)
	return b.String()
}

// behind starts a proxy on the VIP, and the crowd's sessions with it.
func (g *stage) behind(ctx context.Context, t *handoff.Turn, start func() (*lab.Process, string, error)) error {
	return g.begin(ctx, t, t.Topology.VIP(), func() error {
		t.Topology.OwnVIP(true)
		t.OnEnd(func() error { t.Topology.OwnVIP(false); return nil })
		t.OnEnd(g.crowd.hangUp) // once it has stopped, while the VIP is there
		p, version, err := start()
		if err != nil {
			return err
		}
		t.Runs(p, version)
		t.OnEnd(func() error { return p.Stop(2 * time.Second) })
		g.process = &Process{p.Pid()}
		t.Topology.Front = handoff.Front{Targets: []netip.AddrPort{t.Topology.VIP()}}
		return lab.Poll(10*time.Second, func() error {
			c, err := t.Topology.Client.Dial(ctx, "tcp", t.Topology.VIP().String())
			if err != nil {
				return err
			}
			return c.Close()
		})
	})
}
