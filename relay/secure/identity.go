package secure

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"baton/relay/config"
)

// Protocol is what the ends of a trunk agree upon by ALPN (RFC 7301): a connection for anything else is refused.
const Protocol = "baton-trunk/1"

const sessions = 256 // of peers, that an opener resumes

// Identity is who a relay is on trunks, and whom it trusts. It may be used from any goroutine.
type Identity struct{ now atomic.Pointer[configs] }

// configs are what one reading of the files has given. Sessions are resumed under the same ones alone: who was trusted by
// certificates that were replaced since is looked at anew.
type configs struct {
	open, accept *tls.Config
	peers        sync.Map // names to *tls.Config: open, with a name
}

// opens is what trunks to a relay of that name are opened with.
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
	// Whatever authorities the acceptor names: it shall say what is wrong with the certificate, not that there is none.
	open.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	accept.ClientCAs = authorities
	accept.ClientAuth = tls.RequireAndVerifyClientCert
	return &configs{open: open, accept: accept}, nil
}

// speaksProtocol is asked because ALPN lets a peer pass that names no protocol.
func speaksProtocol(s tls.ConnectionState) error {
	if s.NegotiatedProtocol != Protocol {
		return errors.New("the peer does not ask for " + Protocol)
	}
	return nil
}

// Open makes the opener's end of a trunk to the relay of that name.
func (i *Identity) Open(peer string, b *Buffers) *Conn {
	c := newConn(b)
	c.tls = tls.Client(&c.memory, i.now.Load().opens(peer))
	return c
}

// Accept makes the acceptor's end of a trunk. Whose it is Conn.Names tells.
func (i *Identity) Accept(b *Buffers) *Conn {
	c := newConn(b)
	c.tls = tls.Server(&c.memory, i.now.Load().accept)
	return c
}

// files are those of an identity.
type files struct{ certificate, key, authority string }

func filesOf(c *config.Credentials) files { return files{c.Certificate, c.Key, c.Authority} }

// Identities are those of a configuration, for all workers: the same files are one Identity, so that a peer may resume a session with any
// of them. The zero value has none. They may be used from any goroutine.
type Identities struct {
	mu    sync.Mutex
	known map[files]*Identity
}

// Load reads the files of all the configuration's credentials of TLS, at the start and at every reload. An Identity that is in use
// goes on with what its files have now; those of files that are not named any more are forgotten. If there is an error, nothing has
// changed.
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

// Of gives the identity of credentials of TLS that were loaded.
func (s *Identities) Of(c *config.Credentials) (*Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.known[filesOf(c)]
	if i == nil {
		return nil, fmt.Errorf("certificate %s: not loaded", c.Certificate)
	}
	return i, nil
}
