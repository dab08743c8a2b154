package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/experiments/experimentstest"
	"baton/lab"
	"baton/lab/peers"
)

// TestLLDP: a controller that knows neither switch finds the cable between the target and an Open vSwitch from both of its ends, by LLDP
// frames that it has one send and the other tell.
func TestLLDP(t *testing.T) {
	lab.NeedRoot(t)
	bin := venv(t, "python")
	app, err := filepath.Abs("testdata/links.py")
	if err != nil {
		t.Fatal(err)
	}
	program := experimentstest.Program(t)
	for _, target := range []string{"ovs", "baton"} {
		t.Run(target, func(t *testing.T) {
			l := lab.New(t)
			h := l.Host("both")
			l.Link(lab.End{Host: h, Name: "near"}, lab.End{Host: h, Name: "far"}, lab.LinkOptions{})
			controller := start(t, h, lab.Program{Path: filepath.Join(bin, "python"), Args: []string{"-W", "ignore",
				filepath.Join(bin, "osken-manager"), "--observe-links", "os_ken.topology.switches", app}, Name: "osken-manager"})
			o := peers.OpenVSwitchOptions{Bridge: "s2", Ports: []string{"far"}, DatapathID: 2, Controller: "tcp:127.0.0.1:6653"}
			s := peers.OpenVSwitch(h, o)
			if target == "ovs" {
				_, err = s.Vsctl(t.Context(), "add-br", "s1", "--", "set", "bridge", "s1", "datapath_type=netdev", "protocols=OpenFlow13",
					"other_config:datapath-id=0000000000000001", "--", "add-port", "s1", "near", "--", "set", "interface", "near", "ofport_request=1",
					"--", "set-controller", "s1", o.Controller, "--", "set", "controller", "s1", "connection-mode=out-of-band")
			} else {
				file := filepath.Join(l.Dir(), "near.yaml")
				config := fmt.Sprintf("ports: [near]\ndatapath_id: 1\ncontrollers: [%q]\ncontrol: %s/near.sock\n", o.Controller, l.Dir())
				if err = os.WriteFile(file, []byte(config), 0o644); err == nil {
					_, err = h.Start(lab.Program{Path: program, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"})
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			lab.Eventually(t, 30*time.Second, func() error {
				said := controller.Stdout()
				if strings.Contains(said, "link from 1:1 to 2:1\n") && strings.Contains(said, "link from 2:1 to 1:1\n") {
					return nil
				}
				return errors.New("the controller has found: " + said)
			})
		})
	}
}
