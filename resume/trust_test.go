package resume_test

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"baton/resume"
	"baton/resume/part"
)

// TestTruncatedTLS: an answer that ends with its connection is complete only if TLS says so.
func TestTruncatedTLS(t *testing.T) {
	file := body(1, 100_000)
	for _, tt := range []struct {
		name  string
		alert bool
	}{{"alert", true}, {"cut off", false}} {
		t.Run(tt.name, func(t *testing.T) {
			server := startOrigin(t, &origin{t: t, secure: true, file: file, etag: `"one"`, script: []act{func(c *exchange) bool {
				c.head(200, "Connection: close", `ETag: "one"`)
				c.Write(file[:50_000])
				if tt.alert {
					c.Conn.(*tls.Conn).CloseWrite()
				} else {
					c.raw.CloseWrite()
				}
				io.Copy(io.Discard, c.raw)
				return false
			}, valid}})
			got := download(t, quick(), resume.Request{URLs: []string{server.url}}, false)
			if got.err != nil {
				t.Fatal(got.err)
			}
			if want := map[bool]int{true: 50_000, false: 100_000}[tt.alert]; len(got.bytes) != want {
				t.Errorf("%d bytes, want %d", len(got.bytes), want)
			}
		})
	}
}

// TestSecrets: fields for one host are not sent to another after a redirect.
func TestSecrets(t *testing.T) {
	t.Parallel()
	file := body(1, 100_000)
	other := newOrigin(t, file, resetAfter(50_000), valid)
	there := strings.Replace(other.url, "127.0.0.1", "localhost", 1)
	first := newOrigin(t, file, answer(302, nil, "Location: "+there))
	o := quick()
	o.Redirects, o.Final = 3, true
	got := download(t, o, resume.Request{URLs: []string{first.url}, Header: http.Header{"Authorization": {"Basic x"}, "Cookie": {"a=b"}, "X-Mine": {"yes"}}}, false)
	if got.err != nil || len(first.requests()) != 1 || len(other.requests()) != 2 {
		t.Fatalf("%d and %d requests, %v", len(first.requests()), len(other.requests()), got.err)
	}
	same(t, got.bytes, file)
	for i, r := range other.requests() {
		if r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" || r.Header.Get("X-Mine") != "yes" {
			t.Errorf("request %d: %v", i, r.Header)
		}
	}
}

// TestCertificateChanges: a server that is somebody else after a break is not asked.
func TestCertificateChanges(t *testing.T) {
	t.Parallel()
	file := body(1, 100_000)
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(certificate(t).Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(leaf)
	server := startOrigin(t, &origin{t: t, secure: true, file: file, etag: `"one"`, script: []act{resetAfter(50_000), valid}})
	o := quick()
	shakes := 0
	o.Base.TLSClientConfig = &tls.Config{RootCAs: roots, VerifyConnection: func(tls.ConnectionState) error {
		if shakes++; shakes > 1 {
			return x509.CertificateInvalidError{Cert: leaf, Reason: x509.Expired}
		}
		return nil
	}}
	got := download(t, o, resume.Request{URLs: []string{server.url}}, true)
	if got.kind != resume.Certificate || len(got.bytes) != 50_000 || shakes != 2 || len(server.requests()) != 1 {
		t.Errorf("%d bytes after %d handshakes, %v", len(got.bytes), shakes, got.err)
	}
}

// TestDigestOfRange: what the caller knows of the bytes that it wants is checked, all of the file or not.
func TestDigestOfRange(t *testing.T) {
	t.Parallel()
	file := body(1, 100_000)
	sum := sha256.Sum256(file[1000:])
	for _, known := range []bool{true, false} {
		server := newOrigin(t, file, resetAfter(50_000), valid)
		want := bytes.Clone(sum[:])
		if !known {
			want[0]++
		}
		var b buffer
		_, err := resume.NewClient(quick()).Download(t.Context(), resume.Request{URLs: []string{server.url}, Have: part.Have{From: 1000, Offset: 1000, Until: -1, Length: -1}},
			&b, part.Digests{"sha-256": want}, nil)
		var fault *resume.Error
		if known != (err == nil) || err != nil && (!errors.As(err, &fault) || fault.Kind != resume.Digest) {
			t.Errorf("the right digest %v: %v", known, err)
		}
		same(t, b.Bytes(), file[1000:])
	}
}
