package peers

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"baton/lab"
)

// QUICGo is the client of quic-go.
func QUICGo(ctx context.Context, h *lab.Host, v Visit) ([]Visited, error) {
	g := goClient{h: h, v: v, config: &tls.Config{RootCAs: v.Authorities.Pool, ServerName: v.Name, ClientSessionCache: tls.NewLRUClientSessionCache(4)}}
	first, err := g.visit(ctx, http.MethodGet)
	if err != nil || !v.Again {
		return []Visited{first}, err
	}
	method := http.MethodGet
	if v.Early {
		method = http3.MethodGet0RTT
	}
	second, err := g.visit(ctx, method)
	return []Visited{first, second}, err
}

type goClient struct {
	h      *lab.Host
	v      Visit
	config *tls.Config
}

// ticketDelay is how long behind a response a server's ticket may come.
const ticketDelay = 100 * time.Millisecond

// visit makes a connection and gets the file.
func (g *goClient) visit(ctx context.Context, method string) (Visited, error) {
	socket, err := g.h.ListenPacket("udp", ":0")
	if err != nil {
		return Visited{}, err
	}
	defer socket.Close()
	transport := &quic.Transport{Conn: socket}
	defer transport.Close()
	var conn *quic.Conn
	client := &http3.Transport{
		TLSClientConfig: g.config, DisableCompression: true, QUICConfig: &quic.Config{
			Versions: []quic.Version{quic.Version(g.v.version())},
			// If the one datagram is lost by which the server would learn of a NAT's new port, both wait for the other.
			KeepAlivePeriod: 5 * time.Second,
		},
		Dial: func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
			var err error
			conn, err = transport.DialEarly(ctx, net.UDPAddrFromAddrPort(g.v.To), t, q)
			return conn, err
		},
	}
	defer client.Close()
	request, err := http.NewRequestWithContext(ctx, method, "https://"+g.v.Name+g.v.Path, nil)
	if err != nil {
		return Visited{}, err
	}
	response, err := client.RoundTrip(request)
	if err != nil {
		return Visited{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Visited{}, errors.New(response.Status)
	}
	body := &readMoving{r: response.Body, at: 1 << 20, move: func() error { return nil }}
	if g.v.Migrate.IsValid() {
		body.move = func() error { return g.migrate(ctx, conn) }
	}
	if err := CheckPattern(body, Files[g.v.Path]); err != nil {
		return Visited{}, err
	}
	if g.v.Again && method == http.MethodGet {
		time.Sleep(ticketDelay)
	}
	state := conn.ConnectionState()
	return Visited{response.Header.Get(Header), uint32(state.Version), state.TLS.DidResume, state.Used0RTT, g.v.Migrate.IsValid()}, nil
}

// migrate continues a connection from another address.
func (g *goClient) migrate(ctx context.Context, conn *quic.Conn) error {
	socket, err := g.h.ListenPacket("udp", netip.AddrPortFrom(g.v.Migrate, 0).String())
	if err != nil {
		return err
	}
	elsewhere := &quic.Transport{Conn: socket}
	context.AfterFunc(conn.Context(), func() {
		elsewhere.Close()
		socket.Close()
	})
	path, err := conn.AddPath(elsewhere)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := path.Probe(ctx); err != nil {
		return fmt.Errorf("probe the path: %w", err)
	}
	return path.Switch()
}

// readMoving calls move once, when so many bytes have been read.
type readMoving struct {
	r    interface{ Read([]byte) (int, error) }
	at   int
	move func() error
}

func (m *readMoving) Read(b []byte) (int, error) {
	n, err := m.r.Read(b)
	if m.at > 0 && m.at <= n && err == nil {
		err = m.move()
	}
	m.at -= n
	return n, err
}

// QUICGoOptions describe a server of HTTP/3.
type QUICGoOptions struct {
	Name        string // value of Header; default: the host's name
	Certificate string // file
	Key         string // file
	Port        int    // default: 443
	Retry       bool   // validate every client's address by a Retry
	IDs         string // how its connection ids begin, then of 12 bytes; default: quic-go's, of 4 bytes

	More map[string]http.Handler // by path, beside the Site
}

// QUICGoServer serves the lab's Site by HTTP/3 with quic-go, in this process. It ends with the lab.
func QUICGoServer(h *lab.Host, o QUICGoOptions) {
	t := h.Lab().T()
	t.Helper()
	pair, err := tls.LoadX509KeyPair(o.Certificate, o.Key)
	if err != nil {
		t.Fatalf("peers: %v", err)
	}
	socket, err := h.ListenPacket("udp", fmt.Sprintf(":%d", orDefault(o.Port, 443)))
	if err != nil {
		t.Fatalf("peers: quic-go on %s: %v", h.Name(), err)
	}
	transport := &quic.Transport{Conn: socket, VerifySourceAddress: func(net.Addr) bool { return o.Retry }}
	if o.IDs != "" {
		transport.ConnectionIDGenerator = idsOf(o.IDs)
	}
	config := http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}})
	l, err := transport.ListenEarly(config, &quic.Config{Allow0RTT: true, Versions: []quic.Version{quic.Version1, quic.Version2}, MaxIdleTimeout: time.Minute})
	if err != nil {
		t.Fatalf("peers: quic-go on %s: %v", h.Name(), err)
	}
	s := &http3.Server{Handler: o.handler(h), ConnContext: func(ctx context.Context, c *quic.Conn) context.Context {
		return context.WithValue(ctx, connection{}, c)
	}}
	go func() { _ = s.ServeListener(l) }() // until the end
	t.Cleanup(func() {
		s.Close()
		l.Close()
		transport.Close()
		socket.Close()
	})
}

// connection is the key of a request's connection in its context.
type connection struct{}

func (o *QUICGoOptions) handler(h *lab.Host) http.Handler {
	name := orDefault(o.Name, h.Name())
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(Site(h.Lab()))))
	mux.HandleFunc("/close", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "bye")
		c, _ := r.Context().Value(connection{}).(*quic.Conn)
		time.AfterFunc(100*time.Millisecond, func() { c.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "") })
	})
	for at, handler := range o.More {
		mux.Handle(path.Clean(at), handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(Header, name)
		if c, ok := r.Context().Value(connection{}).(*quic.Conn); ok {
			state := c.ConnectionState()
			w.Header().Set("X-Resumed", fmt.Sprint(state.TLS.DidResume))
			w.Header().Set("X-Early", fmt.Sprint(state.Used0RTT))
		}
		mux.ServeHTTP(w, r)
	})
}

// idsOf makes connection ids that begin with these bytes.
type idsOf string

// namedID is how long ids are that name their server.
const namedID = 12

func (begin idsOf) GenerateConnectionID() (quic.ConnectionID, error) {
	b := make([]byte, namedID)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	copy(b, begin)
	return quic.ConnectionIDFromBytes(b), nil
}

func (idsOf) ConnectionIDLen() int { return namedID }
