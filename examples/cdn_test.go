package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	controller "baton/controller/config"
	forwarder "baton/forwarder/config"
	"baton/lab"
	nameserver "baton/nameserver/config"
	"baton/router/config"
)

// TestCDNLoads has the programs of the CDN check their configurations, each by its own means.
func TestCDNLoads(t *testing.T) {
	folder, err := filepath.Abs("cdn")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("router", func(t *testing.T) {
		text, err := os.ReadFile("cdn/router.yaml")
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse("cdn/router.yaml", text) // without the token
		if err != nil || len(cfg.Warnings) > 0 {
			t.Errorf("%v, warnings %v", err, cfg)
		}
	})
	t.Run("forwarders", func(t *testing.T) {
		cfg, err := forwarder.Load("cdn/forwarders.yaml")
		if err != nil || len(cfg.Warnings) > 0 || len(cfg.Datapaths) != 3 {
			t.Errorf("%v, %+v", err, cfg)
		}
	})
	t.Run("controller", func(t *testing.T) {
		text, err := os.ReadFile("cdn/controller.yaml")
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := controller.Parse("cdn/controller.yaml", text) // without the tokens
		if err != nil || len(cfg.Warnings) > 0 || len(cfg.Switches) != 3 || cfg.CDN == nil {
			t.Errorf("%v, %+v", err, cfg)
		}
	})
	t.Run("nameserver", func(t *testing.T) {
		cfg, err := nameserver.Load("cdn/nameserver.yaml")
		if err != nil || len(cfg.Warnings) > 0 {
			t.Errorf("%v, %+v", err, cfg)
		}
	})
	for _, tt := range []struct {
		program string
		args    []string
		says    string
	}{
		{"named-checkzone", []string{"dizp.bt", folder + "/dizp.bt.zone"}, "OK"},
		{"apache2", []string{"-t", "-d", "{dir}", "-f", folder + "/origin.conf"}, "Syntax OK"},
		// It resolves origin.dizp.bt, which the machine does not know.
		{"nginx", []string{"-t", "-p", "{dir}", "-c", "{dir}/surrogate.conf", "-e", "{dir}/error.log"}, "test is successful"},
	} {
		t.Run(tt.program, func(t *testing.T) {
			if _, err := exec.LookPath(tt.program); err != nil {
				if lab.Required() {
					t.Fatal(err)
				}
				t.Skipf("SKIP: %v: run make deps", err)
			}
			dir := t.TempDir()
			for _, sub := range []string{"content", "tmp"} {
				if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			text := strings.Replace(read(t, "cdn/surrogate.conf"), "server origin.dizp.bt:80", "server 192.0.2.1:80", 1)
			if err := os.WriteFile(filepath.Join(dir, "surrogate.conf"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			args := []string{}
			for _, a := range tt.args {
				args = append(args, strings.ReplaceAll(a, "{dir}", dir))
			}
			out, err := exec.CommandContext(t.Context(), tt.program, args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), tt.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
