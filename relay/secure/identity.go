package secure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"baton/relay/config"
)

// Protocol is the ALPN name of trunks (RFC 7301); other connections are refused.
const Protocol = "baton-trunk/1"

const sessions = 256 // of peers, cached by an opener

// Identity is a relay's certificate and the authorities it trusts. It may be used from any goroutine.
type Identity struct{ now atomic.Pointer[configs] }

// configs are from one reading of the files. Sessions are resumed only under the same configs, so that peers are verified again after
// certificates were replaced.
type configs struct {
	open, accept *tls.Config
	peers        sync.Map // peer name to *tls.Config: open with that name
}

// opens is the configuration for trunks to a peer.
func (c *configs) opens(peer string) *tls.Config {
	cfg, ok := c.peers.Load(peer)
	if !ok {
		named := c.open.Clone()
		named.ServerName = peer
		cfg, _ = c.peers.LoadOrStore(peer, named)
	}
	return cfg.(*tls.Config)
}

func newConfigs(c *config.Credentials) (*configs, error) {
	pair, authorities, err := c.Read()
	if err != nil {
		return nil, err
	}
	both := tls.Config{
		Certificates:     []tls.Certificate{pair},
		MinVersion:       tls.VersionTLS13,
		NextProtos:       []string{Protocol},
		VerifyConnection: speaksProtocol,

		DynamicRecordSizingDisabled: true, // see Conn.Write
	}
	open, accept := both.Clone(), both.Clone()
	open.RootCAs = authorities
	open.ClientSessionCache = tls.NewLRUClientSessionCache(sessions)
	// Send the certificate whatever authorities the acceptor names, so that its error is about the certificate, not about a missing one.
	open.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	accept.ClientCAs = authorities
	accept.ClientAuth = tls.RequireAndVerifyClientCert
	return &configs{open: open, accept: accept}, nil
}

// speaksProtocol is needed because ALPN accepts a peer that names no protocol.
func speaksProtocol(s tls.ConnectionState) error {
	if s.NegotiatedProtocol != Protocol {
		return errors.New("the peer does not offer ALPN " + Protocol)
	}
	return nil
}

// Open returns the opener's end of a trunk to a peer.
func (i *Identity) Open(peer string, b *Buffers) *Conn {
	c := newConn(b)
	c.tls = tls.Client(&c.memory, i.now.Load().opens(peer))
	return c
}

// Accept returns the acceptor's end of a trunk. Conn.Names tells whose it is.
func (i *Identity) Accept(b *Buffers) *Conn {
	c := newConn(b)
	c.tls = tls.Server(&c.memory, i.now.Load().accept)
	return c
}

// files identify an Identity.
type files struct{ certificate, key, authority string }

func filesOf(c *config.Credentials) files { return files{c.Certificate, c.Key, c.Authority} }

// Identities are those of a configuration, shared by all workers. The same files are one Identity, so that a peer may resume a session with
// any worker. The zero value is empty. They may be used from any goroutine.
type Identities struct {
	mu    sync.Mutex
	known map[files]*Identity
}

// Load reads the TLS files of a configuration, at the start and at every reload. An existing Identity continues with the new content;
// unused ones are dropped. On error nothing changes.
func (s *Identities) Load(cfg *config.Config) error {
	read := make(map[files]*configs)
	load := func(where string, c *config.Credentials) error {
		f := filesOf(c)
		if c.Security != config.TLS || read[f] != nil {
			return nil
		}
		now, err := newConfigs(c)
		if err != nil {
			return fmt.Errorf("credentials of %s: %w", where, err)
		}
		read[f] = now
		return nil
	}
	if cfg.Trunks != nil {
		if err := load("trunks", &cfg.Trunks.Credentials); err != nil {
			return err
		}
	}
	for i := range cfg.Peers {
		if err := load("peer "+cfg.Peers[i].Name, &cfg.Peers[i].Credentials); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make(map[files]*Identity, len(read))
	for f, now := range read {
		i := s.known[f]
		if i == nil {
			i = new(Identity)
		}
		i.now.Store(now)
		known[f] = i
	}
	s.known = known
	return nil
}

// Of returns the identity of loaded TLS credentials.
func (s *Identities) Of(c *config.Credentials) (*Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.known[filesOf(c)]
	if i == nil {
		return nil, fmt.Errorf("certificate %s: not loaded", c.Certificate)
	}
	return i, nil
}
