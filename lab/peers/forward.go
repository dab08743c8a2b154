package peers

import (
	"fmt"
	"os"
	"strings"

	"baton/lab"
)

// Forward is a port of a host and where the TCP connections go that come to it, over IPv4 and IPv6.
type Forward struct {
	Port int
	To   string // "10.2.1.2:80"
}

// ForwardOptions describe a TCP proxy. The first of the Forwards leads, perhaps through others, to a server of the Site: that is how
// the proxy is known to be ready.
type ForwardOptions struct {
	Forwards []Forward
	Flows    int // that there may be at one time; default: 4000. Each takes two descriptors
	Workers  int // threads of HAProxy, processes of nginx; default: 1
}

// streamModule is where Debian has the module of nginx that NginxForward needs.
const streamModule = "/usr/lib/nginx/modules/ngx_stream_module.so"

// HAProxyForward is HAProxy in TCP mode, which splices through pipes of 1 MiB.
func HAProxyForward(h *lab.Host, o ForwardOptions) *Server {
	h.Lab().T().Helper()
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("global\n\tmaxconn %d\n\tnbthread %d", orDefault(o.Flows, 4000), orDefault(o.Workers, 1))
	p("\tmaxpipes 256\n\ttune.pipesize 1048576") // by default a quarter of maxconn, and what the kernel gives: 64 KiB
	p("defaults\n\tmode tcp\n\toption splice-request\n\toption splice-response")
	p("\ttimeout connect 10s\n\ttimeout client 1h\n\ttimeout server 1h")
	for _, f := range o.Forwards {
		p("listen from-%d\n\tbind :::%d v4v6\n\tserver s %s", f.Port, f.Port, f.To)
	}
	return server{
		host: h, name: "haproxy", program: "haproxy", port: o.Forwards[0].Port, probe: "/healthz",
		files: map[string]string{"haproxy.cfg": b.String()},
		args:  func(dir string) []string { return []string{"-db", "-f", dir + "/haproxy.cfg"} },
	}.start()
}

// NginxForward is nginx with its stream module, as Debian configures it but for the workers.
func NginxForward(h *lab.Host, o ForwardOptions) *Server {
	h.Lab().T().Helper()
	if _, err := os.Stat(streamModule); err != nil {
		h.Lab().Need(streamModule) // says that it is not installed
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("load_module %s;\nuser %s;\nworker_processes %d;", streamModule, account(), orDefault(o.Workers, 1))
	p("pid {dir}/nginx.pid;\nerror_log {dir}/error.log;")
	p("events { worker_connections %d; }", 2*orDefault(o.Flows, 4000)+100)
	p("stream {\nproxy_connect_timeout 10s;\nproxy_timeout 1h;")
	for _, f := range o.Forwards {
		p("server { listen %d; listen [::]:%d; proxy_pass %s; }", f.Port, f.Port, f.To)
	}
	p("}")
	return nginxServer(h, "nginx-stream", o.Forwards[0].Port, b.String()).start()
}

// NginxDatagrams is nginx with its stream module, which forwards UDP by the client's address and port: the first Forward is of
// UDP. The second one, of TCP, leads to a server of the Site: that is how nginx is known to be ready.
func NginxDatagrams(h *lab.Host, udp, probe Forward, workers int) *Server {
	h.Lab().T().Helper()
	if _, err := os.Stat(streamModule); err != nil {
		h.Lab().Need(streamModule) // says that it is not installed
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("load_module %s;\nuser %s;\nworker_processes %d;", streamModule, account(), workers)
	p("pid {dir}/nginx.pid;\nerror_log {dir}/error.log;\nworker_rlimit_nofile 20000;")
	p("events { worker_connections 10000; }")
	p("stream {\nproxy_timeout 1h;")
	p("server { listen %[1]d udp reuseport; listen [::]:%[1]d udp reuseport; proxy_pass %[2]s; }", udp.Port, udp.To) // else workers share no sessions
	p("server { listen %[1]d; listen [::]:%[1]d; proxy_pass %[2]s; }\n}", probe.Port, probe.To)
	return nginxServer(h, "nginx-stream", probe.Port, b.String()).start()
}
