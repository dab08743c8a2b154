package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"
)

// diagnose says what is wrong with the way to each endpoint. The client of etcd only says that it took too long.
func (c Etcd) diagnose() error {
	var errs []error
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" {
			errs = append(errs, fmt.Errorf("%q is no address: https://10.0.0.1:2379", e))
			continue
		}
		if err := c.reach(u); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e, err))
		}
	}
	return errors.Join(errs...)
}

func (c Etcd) reach(u *url.URL) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	dial := c.dial
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	conn, err := dial(ctx, u.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if u.Scheme != "https" {
		return nil
	}
	config := new(tls.Config)
	if c.TLS != nil {
		config = c.TLS.Clone()
	}
	config.ServerName, config.NextProtos = u.Hostname(), []string{"h2"}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return err
	}
	// A server that refuses the client's certificate says so after the handshake, in TLS 1.3; one that does not waits.
	if err := secured.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return err
	}
	if _, err := secured.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("it refuses the connection: %w", err)
	}
	return nil
}
