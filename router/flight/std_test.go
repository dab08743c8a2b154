package flight

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"baton/packet/hello"
)

var errRead = errors.New("the hello is read")

// readByStd has crypto/tls read a client hello, as a QUIC server would: its server name and protocols. The router's own reader must
// see the same.
func readByStd(t testing.TB, message []byte) string {
	t.Helper()
	var info *tls.ClientHelloInfo
	server := tls.QUICServer(&tls.QUICConfig{TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
			info = i
			return nil, errRead
		},
	}})
	defer server.Close()
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.HandleData(tls.QUICEncryptionLevelInitial, message); info == nil {
		t.Fatalf("crypto/tls does not read the hello: %v", err)
	}
	text := info.ServerName + " " + strings.Join(info.SupportedProtos, ",")
	h, err := hello.ReadMessage(message)
	if refused := (*hello.Error)(nil); strings.Contains(info.ServerName, ":") && errors.As(err, &refused) {
		return text // a name with a port, of clients of 2021
	}
	var protocols []string
	for p := range h.Protocols.All() {
		protocols = append(protocols, string(p))
	}
	if ours := h.ServerName + " " + strings.Join(protocols, ","); err != nil || ours != text || h.Length != len(message) {
		t.Errorf("crypto/tls reads %q, packet/hello %q, %v", text, ours, err)
	}
	return text
}
