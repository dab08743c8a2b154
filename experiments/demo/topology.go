package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"baton/lab"
	"baton/lab/peers"
)

// site is the name that every request is for.
const site = "cdn.example.net"

// Addresses on the router. The client's default route leads there.
const (
	handoffVIP  = "10.9.9.9"
	redirectVIP = "10.9.9.10"
	haproxyVIP  = "10.9.9.11"
)

// http3Site is served by Caddy, by HTTP/3, on the surrogate of that number.
const (
	http3Site      = "video.example.net"
	http3Surrogate = 2
)

const clientAddress = "10.1.0.2"

// secureSites are served by TLS, each by the surrogate of its number alone, with a certificate of its own.
var secureSites = map[string]int{"shop.example.net": 3, "blog.example.net": 1}

// A surrogate's pool, by its number from 1.
var poolOf = []string{"", "video", "video", "default"}

// topology is a client, a router, and surrogates that each have a link of their own to it.
type topology struct {
	lab        *lab.Lab
	client     *lab.Host
	router     *lab.Host
	clientSide *lab.Interface // of the router
	surrogates []*lab.Host
	servers    []*peers.Server
	site       string // folder of the files
	authority  *peers.Authority
	caddy      *peers.Server
}

func build(l *lab.Lab) (*topology, error) {
	l.T().Helper()
	l.Need("nginx", "haproxy", "curl", "caddy")
	t := &topology{lab: l, client: l.Host("client"), router: l.Host("router")}
	t.router.Forward()
	t.clientSide = l.Link(lab.End{Host: t.client, Addrs: []string{clientAddress + "/24"}},
		lab.End{Host: t.router, Addrs: []string{"10.1.0.1/24"}}, lab.LinkOptions{}).B
	t.client.Route("default", "10.1.0.1")
	t.router.Interface("lo").Address(haproxyVIP + "/32")

	t.site = peers.Site(l)
	for _, r := range requests {
		if err := t.publish(r); err != nil {
			return nil, fmt.Errorf("write the site: %w", err)
		}
	}
	t.authority = peers.NewAuthority(l)
	for n := 1; n < len(poolOf); n++ {
		h := l.Host(fmt.Sprintf("s%d", n))
		l.Link(lab.End{Host: h, Addrs: []string{address(n) + "/24"}},
			lab.End{Host: t.router, Addrs: []string{fmt.Sprintf("10.2.%d.1/24", n)}}, lab.LinkOptions{})
		h.Route("default", fmt.Sprintf("10.2.%d.1", n))
		t.surrogates = append(t.surrogates, h)
		t.servers = append(t.servers, peers.Nginx(h, peers.NginxOptions{NoAccessLog: true, Server: t.secure(n)}))
	}
	certificate, key := t.authority.Sign(http3Site)
	t.caddy = peers.Caddy(t.surrogates[http3Surrogate-1], peers.CaddyOptions{Site: http3Site, Certificate: certificate, Key: key})
	return t, nil
}

// secure is nginx's configuration of the site that a surrogate serves by TLS. It expects the client's address from the router.
func (t *topology) secure(surrogate int) string {
	for name, n := range secureSites {
		if n == surrogate {
			certificate, key := t.authority.Sign(name)
			return fmt.Sprintf("listen 443 ssl http2 proxy_protocol;\nssl_certificate %s;\nssl_certificate_key %s;\n"+
				"set_real_ip_from 10.2.0.0/16;\nreal_ip_header proxy_protocol;\naccess_log %s combined if=$ssl_protocol;", certificate, key, t.secureLog(surrogate))
		}
	}
	return ""
}

// secureLog is the access log of the site that a surrogate serves by TLS.
func (t *topology) secureLog(surrogate int) string {
	return filepath.Join(t.lab.Dir(), fmt.Sprintf("s%d-https.log", surrogate))
}

func address(surrogate int) string { return fmt.Sprintf("10.2.%d.2", surrogate) }

// publish gives a file of the site the path of a request.
func (t *topology) publish(r request) error {
	path := filepath.Join(t.site, r.path)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.Link(filepath.Join(t.site, r.file), path)
}

// routerConfig is the router.yaml. The redirect has a VIP of its own, with the same routes.
func (t *topology) routerConfig() string {
	return routerConfig(t.lab.Dir(), t.lab.BPFFS(), t.clientSide.Name)
}

func routerConfig(dir, state, clientSide string) string {
	return fmt.Sprintf(`control: %[1]s/router.sock
state: %[2]s/router
vips:
  - address: "%[3]s:80"
    mode: handoff
    interfaces: [%[4]s]
    routes: &routes
      - match: {host: %[5]s, path_prefix: /video/}
        pool: video
      - match: {host: %[5]s, path_prefix: /clips/, path_regex: '\.mp4$'}
        pool: video
      - pool: default
  - address: "%[3]s:443"
    protocol: tls
    interfaces: [%[4]s]
    routes:
      - {match: {sni: shop.example.net}, pool: shop}
      - {match: {sni: blog.example.net}, pool: blog}
  - address: "%[3]s:443"
    protocol: quic
    interfaces: [%[4]s]
    routes:
      - {match: {sni: video.example.net}, pool: http3}
  - address: "%[6]s:80"
    mode: redirect
    routes: *routes
pools:
  video:
    health: {path: /healthz}
    surrogates:
%[7]s  default:
    health: {path: /healthz}
    surrogates:
%[8]s  shop:
    client_address: proxy-v2
    surrogates: [{name: s3-tls, address: "%[9]s:443"}]
  blog:
    client_address: proxy-v2
    surrogates: [{name: s1-tls, address: "%[10]s:443"}]
  http3:
    source: keep
    surrogates: [{name: s2-quic, address: "%[11]s:443"}]
`, dir, state, handoffVIP, clientSide, site, redirectVIP, surrogates("video"), surrogates("default"),
		address(secureSites["shop.example.net"]), address(secureSites["blog.example.net"]), address(http3Surrogate))
}

func surrogates(pool string) string {
	var b strings.Builder
	for n, p := range poolOf {
		if p == pool {
			fmt.Fprintf(&b, "      - {name: s%d, address: \"%s:80\"}\n", n, address(n))
		}
	}
	return b.String()
}

// haproxyReady is where HAProxy answers on the router itself, to say that it is up.
const haproxyReady = 8404

// haproxyConfig routes as router.yaml does. Connections are kept on both sides, those to the surrogates for any client.
func haproxyConfig() string {
	backend := func(pool string) string {
		text := "backend " + pool + "\n\tbalance roundrobin\n"
		for n, p := range poolOf {
			if p == pool {
				text += fmt.Sprintf("\tserver s%d %s:80\n", n, address(n))
			}
		}
		return text
	}
	return fmt.Sprintf(`global
	maxconn 4000
defaults
	mode http
	http-reuse always
	timeout connect 5s
	timeout client 50s
	timeout server 50s
frontend vip
	bind %s:80
	bind 127.0.0.1:%d
	acl cdn hdr(host) -i %s
	use_backend video if cdn { path_beg /video/ }
	use_backend video if cdn { path_beg /clips/ } { path_end .mp4 }
	default_backend default
`, haproxyVIP, haproxyReady, site) + backend("video") + backend("default")
}

// drawing is the topology for people.
func drawing() string {
	return fmt.Sprintf(`client %s ──── router ─┬── s1 %s  pool video
                             ├── s2 %s  pool video
                             └── s3 %s  pool default
               on the router: %s baton, handoff; port 443 by name, TCP and UDP
                              %s baton, redirect
                              %s haproxy
`, clientAddress, address(1), address(2), address(3), handoffVIP, redirectVIP, haproxyVIP)
}
