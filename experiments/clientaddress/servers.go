package clientaddress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

// logger is a kind of server that reads PROXY headers on a port, answers requests with 200, and logs its client's address and port, and the
// path.
type logger struct {
	name  string
	port  int
	start func(*experiments.Setup, *lab.Host) (*loggingServer, error)
}

var loggers = []logger{
	{"nginx", 8081, startNginx},
	{"Apache", 8082, startApache},
	{"Varnish", 8083, startVarnish},
	{"HAProxy", 8084, startHAProxy},
	{"go-proxyproto", 8085, startGo},
}

// loggingServer is one that runs. Its log has lines of an address, a port and a path.
type loggingServer struct {
	file   string
	offset int64 // of what earlier cases have read

	size  int64
	grown time.Time // when size changed
}

// logged is a line.
type logged string

// right reports whether the client that the server names is the one that the path names.
func (l logged) right() bool {
	fields := strings.Fields(string(l))
	if len(fields) != 3 {
		return false
	}
	address, err := netip.ParseAddr(fields[0])
	return err == nil && fields[2] == requestPath+address.Unmap().String()+"/"+fields[1]
}

// skip makes lines begin with the next line.
func (s *loggingServer) skip() error {
	info, err := os.Stat(s.file)
	if err == nil {
		s.offset, s.size, s.grown = info.Size(), info.Size(), time.Now()
	}
	return err
}

// lines are those about requests of the clients.
func (s *loggingServer) lines() ([]logged, error) {
	f, err := os.Open(s.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, s.offset, 1<<40))
	if err != nil {
		return nil, err
	}
	if size := s.offset + int64(len(text)); size != s.size {
		s.size, s.grown = size, time.Now()
	}
	var list []logged
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, requestPath) {
			list = append(list, logged(strings.TrimSpace(line)))
		}
	}
	return list, nil
}

func startNginx(s *experiments.Setup, h *lab.Host) (*loggingServer, error) {
	p := peers.Nginx(h, peers.NginxOptions{Port: 8071, Connections: 8000, NoAccessLog: true,
		HTTP: fmt.Sprintf("log_format client '$proxy_protocol_addr $proxy_protocol_port $uri';\nserver {\nlisten %[1]d proxy_protocol;\nlisten [::]:%[1]d proxy_protocol;\n"+
			"access_log {dir}/client.log client;\nlocation / { return 200; }\n}", 8081)})
	s.Serves(p.Process, p.Version)
	return &loggingServer{file: filepath.Join(p.Dir, "client.log")}, nil
}

func startApache(s *experiments.Setup, h *lab.Host) (*loggingServer, error) {
	p := peers.Apache(h, peers.ApacheOptions{Port: 8072, Config: fmt.Sprintf(`LoadModule remoteip_module /usr/lib/apache2/modules/mod_remoteip.so
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
LogFormat "%%a %%{remote}p %%U" client
Listen %[1]d
<VirtualHost *:%[1]d>
	RemoteIPProxyProtocol On
	AliasMatch ^%[2]s %[3]s/128
	CustomLog {dir}/client.log client
</VirtualHost>
`, 8082, requestPath, peers.Site(h.Lab()))})
	s.Serves(p.Process, p.Version)
	return &loggingServer{file: filepath.Join(p.Dir, "client.log")}, nil
}

func startVarnish(s *experiments.Setup, h *lab.Host) (*loggingServer, error) {
	h.Lab().Need("varnishncsa")
	p := peers.Varnish(h, peers.VarnishOptions{Port: 8073, ProxyPort: 8083, Backend: "127.0.0.1:8071", VCL: `import std;
sub vcl_recv { if (req.url ~ "^` + requestPath + `") { return (synth(200)); } }
sub vcl_synth { set resp.http.X-Client-Port = std.port(client.ip); }
`})
	s.Serves(p.Process, p.Version)
	file := filepath.Join(p.Dir, "client.log")
	_, err := h.Start(lab.Program{Path: "varnishncsa", Args: []string{"-n", p.Dir + "/work", "-t", "off", "-F", "%h %{X-Client-Port}o %U", "-w", file}})
	if err != nil {
		return nil, err
	}
	return &loggingServer{file: file}, lab.Poll(10*time.Second, func() error { _, err := os.Stat(file); return err })
}

func startHAProxy(s *experiments.Setup, h *lab.Host) (*loggingServer, error) {
	const syslog = "127.0.0.1:5140"
	in, err := h.ListenPacket("udp", syslog)
	if err != nil {
		return nil, err
	}
	_ = in.(*net.UDPConn).SetReadBuffer(64 << 20) // as much as the kernel allows
	file := filepath.Join(h.Lab().Dir(), h.Name()+"-haproxy.log")
	out, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b := make([]byte, 64<<10); ; {
			n, _, err := in.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(out, "%s\n", strings.TrimSpace(string(b[:n]))) // a lost line is found
		}
	}()
	h.Lab().T().Cleanup(func() { in.Close(); <-done; out.Close() })
	p := peers.HAProxy(h, peers.HAProxyOptions{Port: 8074, Config: fmt.Sprintf(`global
	log %s format raw local0
	maxconn 8000
defaults
	mode http
	timeout client 50s
	timeout http-request 50s
frontend probe
	bind :::8074 v4v6
	http-request return status 200
frontend client
	bind :::%d v4v6 accept-proxy
	log global
	log-format "%%ci %%cp %%HP"
	http-request return status 200
`, syslog, 8084)})
	s.Serves(p.Process, p.Version)
	return &loggingServer{file: file}, nil
}

// startGo is net/http behind the library that Caddy and Traefik read the header with.
func startGo(_ *experiments.Setup, h *lab.Host) (*loggingServer, error) {
	l, err := h.Listen("tcp", ":"+strconv.Itoa(8085))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(h.Lab().Dir(), h.Name()+"-go.log")
	out, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		client, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(out, "%s %d %s\n", client.Addr().Unmap(), client.Port(), r.URL.Path)
	})}
	h.Lab().T().Cleanup(func() { server.Close(); out.Close() })
	go func() {
		err := server.Serve(&proxyproto.Listener{Listener: l, ConnPolicy: func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) { return proxyproto.REQUIRE, nil }, ReadHeaderTimeout: time.Minute})
		if !errors.Is(err, http.ErrServerClosed) {
			h.Lab().T().Errorf("client-address: %v", err)
		}
	}()
	return &loggingServer{file: file}, nil
}
