package peers

import (
	"fmt"
	"path/filepath"
	"strings"

	"baton/lab"
)

// CaddyOptions describe a server of HTTP/1.1, HTTP/2 and HTTP/3.
type CaddyOptions struct {
	Name        string // value of Header; default: the host's name
	Site        string // the name that its certificate is for
	Certificate string // file
	Key         string // file
	More        []CaddySite
}

// CaddySite is a further name of the server.
type CaddySite struct{ Site, Certificate, Key string }

// caddyProbe is the port of its probe, without TLS.
const caddyProbe = 2080

const caddySite = `https://%s {
	tls %s %s
	header %s %s
	root * %s
	file_server
	log {
		output file {dir}/access.log
		format json
	}
}
`

// Caddy serves the lab's Site by HTTPS on port 443, over TCP and UDP. It logs requests as JSON, see CaddyLog.
func Caddy(h *lab.Host, o CaddyOptions) *Server {
	h.Lab().T().Helper()
	name := orDefault(o.Name, h.Name())
	var sites strings.Builder
	for _, site := range append([]CaddySite{{o.Site, o.Certificate, o.Key}}, o.More...) {
		fmt.Fprintf(&sites, caddySite, site.Site, site.Certificate, site.Key, Header, name, Site(h.Lab()))
	}
	config := fmt.Sprintf(`{
	admin off
	auto_https off
	storage file_system {dir}
	servers {
		protocols h1 h2 h3
	}
}
http://:%d {
	respond /healthz 200
}
%s`, caddyProbe, &sites)
	return server{
		host: h, name: name, program: "caddy", port: caddyProbe, probe: "/healthz",
		files: map[string]string{"Caddyfile": config},
		args: func(dir string) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", dir + "/Caddyfile"}
		},
		env: func(dir string) []string { return []string{"XDG_CONFIG_HOME=" + dir, "XDG_DATA_HOME=" + dir} }, // else it writes to the user's
	}.start()
}

// CaddyLog is the file of Caddy's access log.
func CaddyLog(s *Server) string { return filepath.Join(s.Dir, "access.log") }
