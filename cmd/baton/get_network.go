package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"baton/resume"
)

// network configures connections.
func (o *getOptions) network(j *getJob) error {
	d := resume.Dialer{Timeout: time.Duration(o.connectTime), Fixed: make(map[string][]netip.Addr)}
	switch {
	case o.ipv4 && o.ipv6:
		return errors.New("-4 and -6 contradict each other")
	case o.ipv4:
		d.Network = "tcp4"
	case o.ipv6:
		d.Network = "tcp6"
	}
	for _, line := range o.resolve {
		host, all, err := resolveLine(line)
		if err != nil {
			return fmt.Errorf("--resolve: %w", err)
		}
		d.Fixed[host] = all
	}
	t := d.Transport()
	t.TLSClientConfig.InsecureSkipVerify = o.insecure
	if o.cacert != "" {
		b, err := os.ReadFile(o.cacert)
		if err != nil {
			return fmt.Errorf("--cacert: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(b) {
			return fmt.Errorf("--cacert: %s has no certificate", o.cacert)
		}
	}
	if o.http1 {
		t.ForceAttemptHTTP2 = false
		t.TLSNextProto = make(map[string]func(string, *tls.Conn) http.RoundTripper)
	}
	j.options.Base, j.dialer = t, d
	return nil
}

// resolveLine parses host:port:address[,address...]; IPv6 addresses may have brackets.
func resolveLine(line string) (host string, all []netip.Addr, err error) {
	wrong := fmt.Errorf("%q is not host:port:address[,address...]", line)
	name, rest, ok := strings.Cut(line, ":")
	if strings.HasPrefix(line, "[") {
		if name, rest, ok = strings.Cut(line[1:], "]:"); !ok {
			return "", nil, wrong
		}
	}
	port, list, listed := strings.Cut(rest, ":")
	if n, err := strconv.ParseUint(port, 10, 16); !ok || !listed || name == "" || err != nil || n == 0 {
		return "", nil, wrong
	}
	for text := range strings.SplitSeq(list, ",") {
		a, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil {
			return "", nil, wrong
		}
		all = append(all, a)
	}
	return strings.ToLower(net.JoinHostPort(name, port)), all, nil
}
