package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/document"
)

func parse(text string) (*Settings, error) {
	return document.ParseAs("c.yaml", []byte(text), document.Rules{Bytes: 1 << 20, Nodes: 1 << 10}, func(d *document.Decoder, n *document.Node) *Settings {
		s := Decode(d, "store", n)
		return &s
	})
}

func TestSettings(t *testing.T) {
	for _, tt := range []struct{ name, text, file, err string }{
		{"default", "{}", DefaultFile, ""},
		{"file", "file: /x.db", "/x.db", ""},
		{"etcd", "etcd: {endpoints: [\"https://10.0.0.1:2379\"]}", "", ""},
		{"both", "file: /x.db\netcd: {endpoints: [\"https://10.0.0.1:2379\"]}", "", "has both a file and etcd"},
		{"relative", "file: x.db", "", "absolute path"},
		{"no endpoints", "etcd: {prefix: /a}", "", "endpoints: is missing"},
		{"no URL", "etcd: {endpoints: [\"10.0.0.1:2379\"]}", "", "endpoints[0]"},
		{"half of TLS", "etcd: {endpoints: [\"https://10.0.0.1:2379\"], tls: {key: /x}}", "", "has one of certificate and key"},
		{"no password", "etcd: {endpoints: [\"https://10.0.0.1:2379\"], user: baton}", "", "password_file: /etc"},
	} {
		s, err := parse(tt.text)
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %+v, %v; want %q", tt.name, s, err, tt.err)
		}
		if err == nil && s.File != tt.file {
			t.Errorf("%s: file %s", tt.name, s.File)
		}
	}
}

func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Settings{Etcd: EtcdSettings{Endpoints: []string{"http://x:1"}, User: "baton", PasswordFile: path}}
	if c, err := s.Config(); err != nil || c.Etcd.Password != "secret" || c.Etcd.Username != "baton" || c.Etcd.TLS != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Config(); err == nil || !strings.Contains(err.Error(), "others can read") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
