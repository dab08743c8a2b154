package peers

import (
	"fmt"

	"baton/lab"
)

// SocatEcho answers every TCP connection, IPv4 and IPv6, with what it says.
func SocatEcho(h *lab.Host, port int) *Server {
	h.Lab().T().Helper()
	return socat(h, port, "PIPE")
}

// SocatForward copies every TCP connection, IPv4 and IPv6, to and from an address ("10.2.0.2:80", "[fd02::2]:80"), each
// by a process of its own.
func SocatForward(h *lab.Host, port int, to string) *Server {
	h.Lab().T().Helper()
	return socat(h, port, "TCP:"+to)
}

func socat(h *lab.Host, port int, far string) *Server {
	h.Lab().T().Helper()
	return server{
		host: h, name: "socat", program: "socat", port: port, says: "listening on",
		args: func(string) []string {
			listen := fmt.Sprintf("TCP6-LISTEN:%d,ipv6only=0,reuseaddr,fork,backlog=1024", port)
			return []string{"-d", "-d", listen, far} // notices, of which listening is one
		},
	}.start()
}
