package exchange

import (
	"crypto/tls"
	"net"
	"sync/atomic"

	"baton/anycast/config"
)

// Identity is what a process is known by to the others. The files are read again by Load, for connections that begin after it.
type Identity struct {
	now atomic.Pointer[tls.Config]
}

// Load reads the files. What was loaded before stays when it fails.
func (i *Identity) Load(c config.Identity) error {
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

// Listener has those who connect show certificates of the same authorities.
func (i *Identity) Listener(l net.Listener) net.Listener { return tls.NewListener(l, i.server()) }

func (i *Identity) server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return i.now.Load(), nil },
	}
}

// client is for connections to a process of a name.
func (i *Identity) client(name string) *tls.Config {
	c := i.now.Load().Clone()
	c.ServerName = name
	return c
}
