package peers

import (
	"fmt"
	"os/exec"
	"strings"

	"baton/lab"
)

// NginxHasHTTP3 tells whether the nginx that is installed has its module for HTTP/3.
func NginxHasHTTP3() bool {
	said, err := exec.Command("nginx", "-V").CombinedOutput()
	return err == nil && strings.Contains(string(said), "--with-http_v3_module")
}

// NginxHTTP3Options describe a server of HTTP/3 on port 443, with ports for a Retry and for another certificate. Pairs are files: certificate and key.
type NginxHTTP3Options struct {
	Site       string // the name
	Pair       [2]string
	Retry, Big string // names
	RetryPair  [2]string
	BigPair    [2]string
	RetryPort  int
	BigPort    int
}

// NginxHTTP3 serves the lab's Site by HTTP/3, and on port 80 by HTTP/1.1.
func NginxHTTP3(h *lab.Host, o NginxHTTP3Options) *Server {
	h.Lab().T().Helper()
	var b strings.Builder
	b.WriteString("map $ssl_session_reused $resumed { r true; default false; }\n")
	for _, s := range []struct {
		name  string
		port  int
		pair  [2]string
		retry string
	}{{o.Site, 443, o.Pair, "off"}, {o.Retry, o.RetryPort, o.RetryPair, "on"}, {o.Big, o.BigPort, o.BigPair, "off"}} {
		fmt.Fprintf(&b, "server {\nlisten %[1]d quic reuseport;\nlisten [::]:%[1]d quic reuseport;\nhttp3 on;\nserver_name %[2]s;\nssl_protocols TLSv1.3;\nssl_early_data on;\n"+
			"quic_retry %[3]s;\nssl_certificate %[4]s;\nssl_certificate_key %[5]s;\nroot %[6]s;\nadd_header %[7]s %[8]s always;\nadd_header X-Resumed $resumed;\n}\n",
			s.port, s.name, s.retry, s.pair[0], s.pair[1], Site(h.Lab()), Header, h.Name())
	}
	// The kernel chooses a worker by address and port: a client whose address changes would come to another one, which resets it.
	return Nginx(h, NginxOptions{NoAccessLog: true, Workers: 1, HTTP: b.String()})
}
