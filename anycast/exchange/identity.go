package exchange

import (
	"crypto/tls"
	"net"
	"sync/atomic"

	"baton/anycast/config"
)

// Identity authenticates this process to its peers. Load rereads the files for new connections.
type Identity struct {
	now atomic.Pointer[tls.Config]
}

// Load reads the files. If it fails, the previous ones stay in use.
func (i *Identity) Load(c config.TLS) error {
	pair, authorities, err := c.Read()
	if err != nil {
		return err
	}
	i.now.Store(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: authorities, ClientCAs: authorities,
		ClientAuth: tls.RequireAndVerifyClientCert,
	})
	return nil
}

// Listener requires clients to present a certificate of the same authorities.
func (i *Identity) Listener(l net.Listener) net.Listener { return tls.NewListener(l, i.server()) }

func (i *Identity) server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return i.now.Load(), nil },
	}
}

// client returns the TLS configuration for connections to the process with a name.
func (i *Identity) client(name string) *tls.Config {
	c := i.now.Load().Clone()
	c.ServerName = name
	return c
}
