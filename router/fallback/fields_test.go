package fallback

import (
	"bufio"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"baton/router/config"
	"baton/router/fields"
)

func (s *surrogate) fielded(p config.Pool) Decision {
	d := s.decision()
	d.Fields = fields.Of(&p)
	return d
}

// about returns the lines of a request that tell of the client, as they came.
func about(head string) []string {
	var lines []string
	for line := range strings.Lines(head) {
		name, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(line, "_", "-")), ":")
		if name == "forwarded" || name == "connection" || strings.HasPrefix(name, "x-") {
			lines = append(lines, strings.TrimSuffix(line, "\r\n"))
		}
	}
	return lines
}

// TestFieldsOfProxiedRequests: a surrogate gets a pool's fields as it gets them of spliced requests, whatever the client has sent.
func TestFieldsOfProxiedRequests(t *testing.T) {
	const usualFor, usualRest = "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: h\nX-Forwarded-Proto: http"
	replacing := config.Pool{ClientAddress: config.XForwardedFor, AddressMode: config.Replace}
	appending := config.Pool{ClientAddress: config.XForwardedFor, AddressMode: config.Append}
	forwarded := config.Pool{ClientAddress: config.Forwarded, AddressMode: config.Append}
	named := config.Pool{ClientAddress: "x-client-ip", AddressMode: config.Replace}
	for _, tt := range []struct {
		name string
		pool config.Pool
		sent string // lines of the request
		want string // lines
	}{
		{"nothing said", config.Pool{}, "Forwarded: for=6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nX-Request-Id: mine\r\n", usualFor + "\n" + usualRest + "\nX-Request-Id: mine"},
		{"replace, twice and in every case", replacing, "x-forwarded-for: 6.6.6.6\r\nX-FORWARDED-FOR: 7.7.7.7, 8.8.8.8\r\n", usualFor + "\n" + usualRest},
		{"replace, with _", replacing, "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_For: 7.7.7.7\r\nX_FORWARDED-PROTO: https\r\n", usualFor + "\n" + usualRest},
		{"replace, with Connection", replacing, "Connection: X-Forwarded-For, close\r\nX-Forwarded-For: 6.6.6.6\r\n", usualFor + "\n" + usualRest},
		{"append", appending, "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 7.7.7.7\r\n", "X-Forwarded-For: 6.6.6.6\nX-Forwarded-For: 7.7.7.7\n" + usualFor + "\n" + usualRest},
		{"append, with _", appending, "X_Forwarded_For: 9.9.9.9\r\nX-Forwarded-For: 6.6.6.6\r\n", "X-Forwarded-For: 6.6.6.6\n" + usualFor + "\n" + usualRest},
		{"append, with Connection", appending, "Connection: x-forwarded-for\r\nX-Forwarded-For: 6.6.6.6\r\n", usualFor + "\n" + usualRest},
		{"append to nothing", appending, "", usualFor + "\n" + usualRest},
		{"Forwarded", forwarded, "Forwarded: for=6.6.6.6\r\n", "Forwarded: for=6.6.6.6\nForwarded: for=127.0.0.1;proto=http\n" + usualFor + "\n" + usualRest},
		{"a name", named, "X-Client-Ip: 6.6.6.6\r\nx_client_ip: 7.7.7.7\r\nX-Forwarded-For: 6.6.6.6\r\nX-Client-Ip-2: 1\r\n",
			"X-Client-Ip: 127.0.0.1\nX-Client-Ip-2: 1\n" + usualFor + "\n" + usualRest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSurrogate(t, "s", says(okResponse))
			e := serve(t, Options{Decide: inOrder(s.fielded(tt.pool))})
			if res, body, err := e.ask(t, "GET", "GET / HTTP/1.1\r\nHost: h\r\n"+tt.sent+"\r\n"); err != nil || res.StatusCode != 200 {
				t.Fatalf("response %v %q, error %v", res, body, err)
			}
			if got := about(s.got()); !slices.Equal(got, strings.Split(tt.want, "\n")) {
				t.Errorf("the surrogate got\n%s\nwant\n%s", strings.Join(got, "\n"), tt.want)
			}
		})
	}
}

// TestFieldsInATrailer: a surrogate may add a trailer's fields to the header's.
func TestFieldsInATrailer(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Decide: inOrder(s.fielded(config.Pool{ClientAddress: config.XRealIP, AddressMode: config.Append}))})
	res, body, err := e.ask(t, "POST", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Real-IP, Sum\r\n\r\n"+
		"2\r\nab\r\n0\r\nX-Real-IP: 6.6.6.6\r\nX_Real_IP: 6.6.6.6\r\nX-Forwarded-For: 6.6.6.6\r\nSum: 1\r\n\r\n")
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("response %v %q, error %v", res, body, err)
	}
	want := []string{"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: h", "X-Forwarded-Proto: http", "X-Real-Ip: 127.0.0.1"}
	if got := about(s.got()); !slices.Equal(got, want) {
		t.Errorf("the surrogate got %q, want %q", got, want)
	}
	if got := s.got(); !strings.HasSuffix(got, "0\r\nSum: 1\r\n\r\n") || !strings.Contains(got, "\r\nTrailer: Sum\r\n") {
		t.Errorf("the surrogate got %q", got)
	}
}

// TestRequestIDs: each request has one of its own, which the exchange has too.
func TestRequestIDs(t *testing.T) {
	s := newSurrogate(t, "s", says(okResponse))
	e := serve(t, Options{Decide: inOrder(s.fielded(config.Pool{AddFields: []config.AddedField{config.XRequestID}}))})
	c := e.dial(t)
	r := bufio.NewReader(c)
	for range 2 {
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nX-Request-Id: mine\r\nx_request_id: mine\r\n\r\n")
		if _, _, err := readResponse(r, "GET"); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, "both are over", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.exchanges) == 2 })
	var want []string
	for _, x := range e.exchanges {
		want = append(want, "X-Request-Id: "+hex.EncodeToString(x.ID[:]))
	}
	got := slices.DeleteFunc(about(s.got()), func(line string) bool { return strings.HasPrefix(line, "X-Forwarded-") })
	if !slices.Equal(got, want) || want[0] == want[1] || e.exchanges[0].ID == [16]byte{} {
		t.Errorf("the surrogate got %q, want %q", got, want)
	}
}

// TestFieldsOfUpgrades: the request that leaves HTTP has the fields, and keeps its own options of Connection.
func TestFieldsOfUpgrades(t *testing.T) {
	s := newSurrogate(t, "s", func(c *net.TCPConn, r *bufio.Reader) {
		readHeadOf(r)
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(io.Discard, r)
	})
	e := serve(t, Options{Decide: inOrder(s.fielded(config.Pool{ClientAddress: config.XRealIP, AddressMode: config.Replace}))})
	c := e.dial(t)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, X-Real-Ip\r\nUpgrade: websocket\r\nX-Real-Ip: 6.6.6.6\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("response %v, error %v", res, err)
	}
	want := []string{"Connection: Upgrade", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: h", "X-Forwarded-Proto: http", "X-Real-Ip: 127.0.0.1"}
	if got := about(s.got()); !slices.Equal(got, want) {
		t.Errorf("the surrogate got %q, want %q", got, want)
	}
}

// TestFieldsOverTLS: they say https, for both versions of HTTP.
func TestFieldsOverTLS(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprint("HTTP/2: ", h2), func(t *testing.T) {
			s := newSurrogate(t, "s", says(okResponse))
			e := serve(t, Options{Certificates: []tls.Certificate{sign(t, "cdn.test")},
				Decide: inOrder(s.fielded(config.Pool{ClientAddress: config.Forwarded, AddressMode: config.Replace, AddFields: []config.AddedField{config.XForwardedProto}}))})
			c := e.browser(t, nil, h2)
			req, err := http.NewRequestWithContext(t.Context(), "GET", "https://cdn.test/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Forwarded": {"for=6.6.6.6"}, "X_forwarded_proto": {"http"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-For": {"6.6.6.6"}}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			want := []string{"Forwarded: for=127.0.0.1;proto=https", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: cdn.test", "X-Forwarded-Proto: https"}
			if got := about(s.got()); !slices.Equal(got, want) {
				t.Errorf("the surrogate got %q, want %q", got, want)
			}
		})
	}
}
