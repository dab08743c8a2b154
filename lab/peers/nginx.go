package peers

import (
	"fmt"
	"strings"

	"baton/lab"
)

// NginxOptions change Debian's defaults. The zero value keeps them.
type NginxOptions struct {
	Name        string // value of Header; default: the host's name
	Port        int    // default: 80
	Workers     int    // default: auto, one a processor
	Connections int    // worker_connections; default: 768
	NoAccessLog bool
	Keepalive   string // keepalive_timeout, "0" is off; default: 65
	Requests    int    // keepalive_requests; default: nginx's (1000)
	Server      string // more text for the server block
	HTTP        string // more text for the http block
}

// Nginx serves the lab's Site.
func Nginx(h *lab.Host, o NginxOptions) *Server {
	h.Lab().T().Helper()
	root := Site(h.Lab())
	return startNginx(h, o, fmt.Sprintf(`
	root %s;
	index index.html;
	location / {
		try_files $uri $uri/ =404;
	}
	%s`, root, o.Server), "")
}

// NginxProxyOptions describe a reverse proxy.
type NginxProxyOptions struct {
	NginxOptions
	Backends  []string // "10.2.1.2:80"
	Keepalive int      // idle connections kept to the backends by each worker; default: 256
}

// NginxProxy passes requests on to backends round-robin, over connections that it keeps.
func NginxProxy(h *lab.Host, o NginxProxyOptions) *Server {
	h.Lab().T().Helper()
	upstream := "upstream backends {\n"
	for _, b := range o.Backends {
		upstream += "\tserver " + b + ";\n"
	}
	upstream += fmt.Sprintf("\tkeepalive %d;\n\tkeepalive_requests 1000000;\n}\n", orDefault(o.Keepalive, 256))
	return startNginx(h, o.NginxOptions, `
	location / {
		proxy_pass http://backends;
		proxy_http_version 1.1;
		proxy_set_header Connection "";
		proxy_set_header Host $host;
		proxy_max_temp_file_size 0; # a disk is not what a proxy is asked about
	}
	`+o.Server, upstream)
}

// startNginx runs nginx with /etc/nginx/nginx.conf and sites-available/default of Debian as the pattern. Its proxy
// adds no Header, to keep that of the backend.
func startNginx(h *lab.Host, o NginxOptions, server, upstream string) *Server {
	h.Lab().T().Helper()
	workers := "auto"
	if o.Workers > 0 {
		workers = fmt.Sprint(o.Workers)
	}
	access := "{dir}/access.log"
	if o.NoAccessLog {
		access = "off"
	}
	name, port := orDefault(o.Name, h.Name()), orDefault(o.Port, 80)
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("user %s;\nworker_processes %s;\npid {dir}/nginx.pid;\nerror_log {dir}/error.log;", account(), workers)
	if o.Connections > 0 {
		p("worker_rlimit_nofile %d;", 2*o.Connections+64) // a file or a server with each
	}
	p("events { worker_connections %d; }", orDefault(o.Connections, 768))
	p("http {\nsendfile on;\ntcp_nopush on;\ntypes_hash_max_size 2048;\ngzip on;")
	p("default_type application/octet-stream;\ntypes { text/html html; }\naccess_log %s;", access)
	p("keepalive_timeout %s;", orDefault(o.Keepalive, "65"))
	if o.Requests > 0 {
		p("keepalive_requests %d;", o.Requests)
	}
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		p("%s_temp_path {dir}/%s;", kind, kind)
	}
	p("%s\n%s", upstream, o.HTTP)
	p("server {\nlisten %d default_server;\nlisten [::]:%d default_server;\nserver_name _;", port, port)
	if upstream == "" {
		p("add_header %s %s always;", Header, name)
	}
	p("%s\n}\n}", server)
	return nginxServer(h, name, port, b.String()).start()
}

func nginxServer(h *lab.Host, name string, port int, config string) server {
	return server{
		host: h, name: name, program: "nginx", port: port, probe: "/healthz",
		files: map[string]string{"nginx.conf": config},
		args: func(dir string) []string {
			return []string{"-p", dir, "-c", dir + "/nginx.conf", "-e", dir + "/error.log", "-g", "daemon off;"}
		},
	}
}
