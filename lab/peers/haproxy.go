package peers

import (
	"fmt"

	"baton/lab"
)

// HAProxyOptions describe an HTTP proxy.
type HAProxyOptions struct {
	Port     int      // default: 80
	Backends []string // "10.2.1.2:80"
	Config   string   // the whole configuration file, instead of what the other fields make
}

// HAProxy passes requests on to backends round-robin, keeping connections on both sides and reusing those to the backends for any client
// (http-reuse always).
func HAProxy(h *lab.Host, o HAProxyOptions) *Server {
	h.Lab().T().Helper()
	port := orDefault(o.Port, 80)
	config := o.Config
	if config == "" {
		config = fmt.Sprintf(`global
	maxconn 8000
	tune.idle-pool.shared on
defaults
	mode http
	option http-keep-alive
	http-reuse always
	timeout connect 5s
	timeout client 50s
	timeout server 50s
frontend vip
	bind :::%d v4v6
	default_backend surrogates
backend surrogates
	balance roundrobin
`, port)
		for i, b := range o.Backends {
			config += fmt.Sprintf("\tserver s%d %s pool-max-conn 1000\n", i+1, b)
		}
	}
	return server{
		host: h, name: "haproxy", program: "haproxy", port: port, probe: "/healthz",
		files: map[string]string{"haproxy.cfg": config},
		args:  func(dir string) []string { return []string{"-db", "-f", dir + "/haproxy.cfg"} },
	}.start()
}
