package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPassword(t *testing.T) {
	tests := []struct {
		name, text string
		mode       os.FileMode
		want, err  string
	}{
		{"on a line", "secret\n", 0o600, "secret", ""},
		{"with spaces", " a b \r\n", 0o400, " a b ", ""},
		{"empty", "\n", 0o600, "", "holds 0 bytes"},
		{"too long", strings.Repeat("x", 81), 0o600, "", "holds 81 bytes"},
		{"far too long", strings.Repeat("x", 1000), 0o600, "", "longer than 81 bytes"},
		{"for others to read", "secret\n", 0o644, "", "chmod 600"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "password")
			if err := os.WriteFile(file, []byte(tt.text), tt.mode); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "anycast.yaml")
			if err := os.WriteFile(path, []byte(strings.Replace(least, "as: 65000}", "as: 65000, password_file: "+file+"}", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := Load(path)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), "site.bgp.peers[0].password_file: ") || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("the password is in %v", err)
				}
			case err != nil || cfg.Site.BGP.Peers[0].Password != tt.want:
				t.Errorf("%+v, %v; want %q", cfg, err, tt.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestIdentityFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "anycast.yaml")
	if err := os.WriteFile(file, []byte(everything), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), `tls.certificate: "/etc/baton/c.pem": no such file`) {
		t.Errorf("error %v", err)
	}
}
