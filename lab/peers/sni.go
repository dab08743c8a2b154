package peers

import (
	"fmt"
	"os"
	"strings"

	"baton/lab"
)

// SNIOptions describe a TCP proxy that chooses a server by the name in the TLS hello.
type SNIOptions struct {
	Port     int               // default: 443
	Servers  map[string]string // "10.2.1.2:443" by name
	Default  string            // server of all other hellos; empty: none
	Probe    Forward           // without TLS, to a server of the Site: that is how the proxy is known to be ready
	Sessions int               // that there may be at one time; default: 4000
	Workers  int               // default: 1
}

// HAProxySNI is HAProxy in TCP mode with req.ssl_sni, waiting for the whole hello as its manual advises, with splicing.
func HAProxySNI(h *lab.Host, o SNIOptions) *Server {
	h.Lab().T().Helper()
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("global\n\tmaxconn %d\n\tnbthread %d\n\tmaxpipes 256\n\ttune.pipesize 1048576", orDefault(o.Sessions, 4000), orDefault(o.Workers, 1))
	p("defaults\n\tmode tcp\n\toption splice-request\n\toption splice-response")
	p("\ttimeout connect 10s\n\ttimeout client 1h\n\ttimeout server 1h")
	p("listen probe\n\tbind :::%d v4v6\n\tserver s %s", o.Probe.Port, o.Probe.To)
	p("frontend names\n\tbind :::%d v4v6", orDefault(o.Port, 443))
	p("\ttcp-request inspect-delay 5s\n\ttcp-request content accept if { req.ssl_hello_type 1 }")
	n := 0
	var backends strings.Builder
	for name, to := range o.Servers {
		n++
		p("\tuse_backend b%d if { req.ssl_sni -i %s }", n, name)
		fmt.Fprintf(&backends, "backend b%d\n\tserver s %s\n", n, to)
	}
	if o.Default != "" {
		p("\tdefault_backend b")
		fmt.Fprintf(&backends, "backend b\n\tserver s %s\n", o.Default)
	}
	b.WriteString(backends.String())
	return server{
		host: h, name: "haproxy", program: "haproxy", port: o.Probe.Port, probe: "/healthz",
		files: map[string]string{"haproxy.cfg": b.String()},
		args:  func(dir string) []string { return []string{"-db", "-f", dir + "/haproxy.cfg"} },
	}.start()
}

// NginxSNI is nginx with its stream module and ssl_preread.
func NginxSNI(h *lab.Host, o SNIOptions) *Server {
	h.Lab().T().Helper()
	if _, err := os.Stat(streamModule); err != nil {
		h.Lab().Need(streamModule) // says that it is not installed
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("load_module %s;\nuser %s;\nworker_processes %d;", streamModule, account(), orDefault(o.Workers, 1))
	p("pid {dir}/nginx.pid;\nerror_log {dir}/error.log;")
	p("events { worker_connections %d; }", 2*orDefault(o.Sessions, 4000)+100)
	p("stream {\nproxy_connect_timeout 10s;\nproxy_timeout 1h;\nmap $ssl_preread_server_name $server {")
	for name, to := range o.Servers {
		p("%s %s;", name, to)
	}
	if o.Default != "" {
		p("default %s;", o.Default)
	}
	p("}\nserver { listen %[1]d; listen [::]:%[1]d; ssl_preread on; proxy_pass $server; }", orDefault(o.Port, 443))
	p("server { listen %[1]d; listen [::]:%[1]d; proxy_pass %[2]s; }\n}", o.Probe.Port, o.Probe.To)
	return nginxServer(h, "nginx-stream", o.Probe.Port, b.String()).start()
}
