package flight

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
)

var errRead = errors.New("the hello is read")

// readByStd has crypto/tls read a client hello, as a QUIC server would: its server name and protocols.
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
	return info.ServerName + " " + strings.Join(info.SupportedProtos, ",")
}
