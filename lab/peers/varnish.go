package peers

import (
	"fmt"
	"net"

	"baton/lab"
)

// VarnishOptions describe a cache in front of one backend.
type VarnishOptions struct {
	Name    string // value of Header; default: the host's name
	Port    int    // default: 80
	Backend string // "10.2.1.2:80"

	ProxyPort int    // where it expects a PROXY header; 0: nowhere
	VCL       string // more text, before its own
}

// Varnish caches what its backend serves, 64 MiB of it in memory. The backend must answer /healthz.
func Varnish(h *lab.Host, o VarnishOptions) *Server {
	h.Lab().T().Helper()
	name, port := orDefault(o.Name, h.Name()), orDefault(o.Port, 80)
	host, backendPort, err := net.SplitHostPort(o.Backend)
	if err != nil {
		h.Lab().T().Fatalf("peers: varnish backend: %v", err)
	}
	h.Lab().Need("gcc") // varnishd compiles its configuration, and Debian 13's comes without
	vcl := fmt.Sprintf(`vcl 4.1;
%s
backend default { .host = "%s"; .port = "%s"; }
sub vcl_deliver { set resp.http.%s = "%s"; }
`, o.VCL, host, backendPort, Header, name)
	return server{
		host: h, name: name, program: "varnishd", port: port, probe: "/healthz",
		files: map[string]string{"default.vcl": vcl},
		args: func(dir string) []string {
			args := []string{"-F", "-n", dir + "/work", "-f", dir + "/default.vcl",
				"-a", fmt.Sprintf(":%d", port), "-s", "malloc,64m", "-T", "none"}
			if o.ProxyPort != 0 {
				args = append(args, "-a", fmt.Sprintf("proxied=:%d,PROXY", o.ProxyPort))
			}
			return args
		},
	}.start()
}
