package hello

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLiveClients reads what clients of crypto/tls of this Go version send.
func TestLiveClients(t *testing.T) {
	for _, test := range []struct {
		name   string
		config *tls.Config
		want   Hello
		alpn   []string
		above  int // bytes that the hello has at least
	}{
		{"default", &tls.Config{ServerName: "a.example.net"}, Hello{ServerName: "a.example.net", MaxVersion: 0x0304}, nil, 1300},
		{"post-quantum alone", &tls.Config{ServerName: "A.Example.Net", CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}},
			Hello{ServerName: "a.example.net", MaxVersion: 0x0304}, nil, 1300},
		{"no post-quantum", &tls.Config{ServerName: "a.example.net", CurvePreferences: []tls.CurveID{tls.X25519}},
			Hello{ServerName: "a.example.net", MaxVersion: 0x0304}, nil, 150},
		{"no name", &tls.Config{InsecureSkipVerify: true}, Hello{MaxVersion: 0x0304}, nil, 150},
		{"an address", &tls.Config{ServerName: "192.0.2.1"}, Hello{MaxVersion: 0x0304}, nil, 150},
		{"a dot at the end", &tls.Config{ServerName: "a.example.net."}, Hello{ServerName: "a.example.net", MaxVersion: 0x0304}, nil, 150},
		{"TLS 1.2", &tls.Config{ServerName: "a.example.net", MaxVersion: tls.VersionTLS12},
			Hello{ServerName: "a.example.net", MaxVersion: 0x0303}, nil, 100},
		{"TLS 1.0", &tls.Config{ServerName: "a.example.net", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
			Hello{ServerName: "a.example.net", MaxVersion: 0x0301}, nil, 80},
		{"ALPN", &tls.Config{ServerName: "a.example.net", NextProtos: []string{"h2", "http/1.1"}},
			Hello{ServerName: "a.example.net", MaxVersion: 0x0304}, []string{"h2", "http/1.1"}, 150},
		{"a long ALPN", &tls.Config{ServerName: "a.example.net", NextProtos: slices.Repeat([]string{strings.Repeat("p", 250)}, 50)},
			Hello{ServerName: "a.example.net", MaxVersion: 0x0304}, slices.Repeat([]string{strings.Repeat("p", 250)}, 50), 12500},
	} {
		t.Run(test.name, func(t *testing.T) {
			stream := firstFlight(test.config)
			if len(stream) < test.above {
				t.Errorf("a hello of %d bytes, want %d", len(stream), test.above)
			}
			s := sample{name: test.name, want: test.want, protocols: test.alpn}
			h, err := readAll(t, stream)
			s.check(t, "live", h, err)
			agree(t, stream)
		})
	}
}

// firstFlight is what a client writes before it hears anything.
func firstFlight(config *tls.Config) []byte {
	m := &memory{in: bytes.NewReader(nil)}
	_ = tls.Client(m, config).Handshake() // it ends at the end of its input
	return m.out.Bytes()
}

func TestLiveResumption(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		client := &tls.Config{
			ServerName: "a.example.net", InsecureSkipVerify: true, MaxVersion: version,
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
		}
		if h, err := Read(firstFlight(client)); err != nil || h.Resumption {
			t.Errorf("%#x, first: %+v, %v", version, h, err)
		}
		visit(t, client)
		stream := firstFlight(client)
		h, err := readAll(t, stream)
		if err != nil || !h.Resumption || h.ServerName != "a.example.net" || h.MaxVersion != version {
			t.Errorf("%#x, again: %+v, %v", version, h, err)
		}
		agree(t, stream)
	}
}

// visit makes a whole connection, with a byte from the server behind its tickets.
func visit(t *testing.T, client *tls.Config) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Write([]byte("x"))
			_ = conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)} // of one that has expired no session is resumed
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestLiveQUIC reads the CRYPTO stream of a client of QUIC.
func TestLiveQUIC(t *testing.T) {
	client := tls.QUICClient(&tls.QUICConfig{TLSConfig: &tls.Config{ServerName: "a.example.net", NextProtos: []string{"h3"}, MinVersion: tls.VersionTLS13}})
	client.SetTransportParameters([]byte{1, 2, 3})
	if err := client.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var handshake []byte
	for event := client.NextEvent(); event.Kind != tls.QUICNoEvent; event = client.NextEvent() {
		if event.Kind == tls.QUICWriteData {
			handshake = append(handshake, event.Data...)
		}
	}
	for n := range handshake {
		if _, err := ReadMessage(handshake[:n]); err != ErrIncomplete {
			t.Fatalf("%d of %d bytes: %v", n, len(handshake), err)
		}
	}
	h, err := ReadMessage(handshake)
	if err != nil || h.ServerName != "a.example.net" || !h.Protocols.Has("h3") || h.MaxVersion != tls.VersionTLS13 || h.Length != len(handshake) {
		t.Errorf("ReadMessage = %+v, %v", h, err)
	}
}

// TestAlertsAreUnderstood has clients of several versions read each alert.
func TestAlertsAreUnderstood(t *testing.T) {
	for alert, want := range map[Alert]string{
		UnexpectedMessage: "unexpected message", RecordOverflow: "record overflow", IllegalParameter: "illegal parameter",
		DecodeError: "error decoding message", ProtocolVersion: "protocol version not supported", UnrecognizedName: "unrecognized name",
	} {
		if n := len(alert.Record()); n != 7 {
			t.Errorf("%d has %d bytes", alert, n)
		}
		for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS12, tls.VersionTLS13} {
			config := &tls.Config{ServerName: "a.example.net", MinVersion: tls.VersionTLS10, MaxVersion: version}
			err := tls.Client(&memory{in: bytes.NewReader(alert.Record())}, config).Handshake()
			if err == nil || !strings.Contains(err.Error(), "remote error: tls: "+want) {
				t.Errorf("%d, version %#x: %v, want %q", alert, version, err, want)
			}
		}
	}
}
