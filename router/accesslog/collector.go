package accesslog

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"baton/document"
	"baton/router/config"
)

const (
	exportTimeout  = 10 * time.Second // as the OTLP exporter specification has it
	exportBytes    = 1 << 20          // of records in one request: collectors take 4 MiB and more
	longestRetry   = time.Minute
	responseBytes  = 64 << 10
	errorBodyBytes = 200
)

// collector exports records by OTLP over HTTP.
type collector struct {
	endpoint string
	header   http.Header
	client   *http.Client
	resource []byte
	body     []byte
	zip      *gzip.Writer // nil: not compressed
	zipped   bytes.Buffer
}

func newCollector(l *config.AccessLog, version string) (*collector, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}
	if l.CA != "" {
		authorities, err := document.ReadCertificates(l.CA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		for _, c := range authorities {
			pool.AddCert(c)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	c := &collector{
		endpoint: l.Endpoint.String(), header: make(http.Header), resource: resource(self(), version),
		client: &http.Client{
			Transport: transport, Timeout: exportTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, h := range l.Headers {
		c.header.Set(h[0], h[1])
	}
	c.header.Set("Content-Type", "application/x-protobuf")
	c.header.Set("User-Agent", "baton-router/"+version)
	if l.Gzip {
		c.header.Set("Content-Encoding", "gzip")
		c.zip, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is one that there is
	}
	return c, nil
}

func (c *collector) deliver(ctx context.Context, b *batch) error {
	var refused error
	for b.left() > 0 {
		n, data := b.upTo(exportBytes)
		c.body = appendRequest(c.body[:0], c.resource, data)
		lost, again, err := c.export(ctx)
		if err != nil { // the transport may still read them
			c.body, c.zipped = nil, bytes.Buffer{}
		}
		if again {
			return err
		}
		if err != nil {
			refused = err
		}
		lost = max(0, min(lost, int64(n)))
		b.wrote(n - int(lost))
		b.lose(int(lost), LostRejected)
	}
	return refused
}

// export sends one request. It says how many of its records are lost, or that it is worth another try.
func (c *collector) export(ctx context.Context) (lost int64, again bool, err error) {
	const all = 1 << 62
	body := c.body
	if c.zip != nil {
		body = c.compress()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return all, false, err
	}
	req.Header = c.header
	res, err := c.client.Do(req)
	if err != nil {
		return 0, true, err
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, responseBytes)) // what is cut off is a response all the same
	switch res.StatusCode {
	case http.StatusOK:
		if lost, message := rejected(answer); lost > 0 {
			return lost, false, fmt.Errorf("the collector rejected %d records: %q", lost, document.Clip(message))
		}
		return 0, false, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0, true, later{fmt.Errorf("the collector answers %s", res.Status), retryAfter(res.Header)}
	}
	return all, false, fmt.Errorf("the collector answers %s: %q", res.Status, answer[:min(len(answer), errorBodyBytes)])
}

func (c *collector) compress() []byte {
	c.zipped.Reset()
	c.zip.Reset(&c.zipped)
	_, _ = c.zip.Write(c.body) // a buffer takes all
	_ = c.zip.Close()
	return c.zipped.Bytes()
}

// retryAfter is what a collector that is busy asks for, in seconds; a date counts as nothing.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(longestRetry/time.Second))) * time.Second
}

func (c *collector) refresh(bool) error { return nil }

func (c *collector) close() error {
	c.client.CloseIdleConnections()
	return nil
}
